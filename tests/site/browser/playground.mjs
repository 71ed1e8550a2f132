// The playground and the memory planner, in `chrome` or `firefox`: what a visitor does, and how long it takes.
//   node playground.mjs chrome

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { must, run, start, until } from "./browse.mjs";
import { serve } from "./serve.mjs";

const [name = "chrome", pictures = ""] = process.argv.slice(2);
const site = await serve();
const address = `${site.base}playground/`;
const browser = await start(name);

async function opened(visitor, url = address) {
  const page = await browser.page(visitor);
  await page.goto(url, { waitUntil: "domcontentloaded" });
  await page.waitForSelector("body[data-ready]", { timeout: 60_000 });
  const { ready, memory } = await page.evaluate(() => ({ ...document.body.dataset }));
  return { page, ready: Number(ready), memory };
}

const text = (page, selector) => page.$eval(selector, (each) => each.textContent);
async function says(page, selector, wanted) {
  try {
    await until("", async () => (await text(page, selector)).includes(wanted));
  } catch {
    throw new Error(`${selector} says, instead of ${wanted}: ${(await text(page, selector)).slice(0, 2000)}`);
  }
}

/** Texts of what is marked, with the numbers of their lines. */
const marked = (page) =>
  page.$$eval(".cm-lintRange-error, .cm-lintRange-warning", (marks) =>
    marks.map((each) => {
      const line = each.closest(".cm-line");
      const lines = line ? [...line.parentNode.querySelectorAll(".cm-line")] : [];
      return [lines.indexOf(line) + 1, each.textContent];
    }),
  );

async function picture(page, what) {
  if (pictures) {
    mkdirSync(pictures, { recursive: true });
    await page.screenshot({ path: join(pictures, `playground-${name}-${what}.png`) });
  }
}

/** Replaces the text in the editor, as a visitor does. */
async function type(page, words) {
  await page.focus(".cm-content");
  await page.keyboard.down("Control");
  await page.keyboard.press("a");
  await page.keyboard.up("Control");
  await page.keyboard.press("Delete");
  await page.keyboard.type(words);
}

/** Milliseconds from a key that makes or ends a misspelling to the finding's change. */
async function latencies(page, count = 20) {
  const found = [];
  for (let each = 0; each < count; each += 1) {
    await page.evaluate(() => {
      const told = document.getElementById("summary");
      const old = told.textContent;
      globalThis.seen = new Promise((resolve) => {
        let begun = 0;
        addEventListener("keydown", () => (begun ||= performance.now()), { capture: true, once: true });
        const watch = new MutationObserver(() => {
          if (told.textContent !== old) {
            watch.disconnect();
            resolve(performance.now() - begun);
          }
        });
        watch.observe(told, { childList: true, characterData: true, subtree: true });
      });
    });
    await page.keyboard.press(each % 2 ? "Backspace" : "x");
    found.push(await page.evaluate(() => globalThis.seen));
  }
  return found.sort((one, other) => one - other);
}

/** The memory that is kept for the next visit: how long it is, once all of it is there. */
const kept = (page) =>
  page.evaluate(async () => {
    const names = (await caches.keys()).filter((each) => each.startsWith("dsconfig-memory-"));
    const [memory] = names.length === 1 ? await (await caches.open(names[0])).matchAll() : [];
    return memory ? (await memory.arrayBuffer()).byteLength : 0;
  });

const visitor = await browser.visitor();
const only = process.argv[4];
let shared = "";

async function firstVisit() {
  const { page, ready, memory } = await opened(visitor);
  console.log(`ready, cold: ${ready} ms; ${site.told.sent.toLocaleString("en")} bytes sent`);
  must(memory === "new", "Python starts");
  must(site.told.sent <= 7_250_000, "at most 7.25 MB are sent"); // Pyodide 3.5, the checker 2.5, page and editor 0.4, theme and search 0.6
  await page.waitForSelector(".cm-lintRange-error");
  must((await marked(page)).some(([line, words]) => line === 7 && words.includes("reduce_bucket_sise")), "a finding stands at its key");
  await says(page, "#output", "zero_optimization");
  await picture(page, "first");
  await page.hover(".cm-lintRange-error");
  await page.waitForSelector(".cm-tooltip .cm-diagnosticAction");
  await picture(page, "finding");
  await page.mouse.move(0, 0);
  await says(page, "#found", "is not a DeepSpeed key");
  await page.click("#found .error button:last-of-type");
  await says(page, ".cm-content", "reduce_bucket_size");
  must(true, "a click makes the fix");
  await page.type("#size", "8");
  await page.keyboard.press("Enter");
  const verbs = { resolve: "gradient_accumulation_steps", migrate: "from 0.14.5 (--from) to", compat: "0.19.8", fix: "offload_optimizer" };
  for (const [verb, wanted] of Object.entries(verbs)) {
    await page.click(`[data-verb="${verb}"]`);
    await says(page, "#output", wanted);
    await picture(page, verb);
  }
  must(true, "the verbs say what they say");
  shared = await until("the address holds the size", async () => (page.url().includes("#") ? page.url() : ""));
  await page.click("[data-verb=show]");
  await type(page, '{"train_batch_size": 8,\n "fp16": {"enabeld": true}}');
  await until("the new finding", async () => (await marked(page)).some(([line, words]) => line === 2 && words.includes("enabeld")));
  must(true, "what is typed is judged, on its line");
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  const times = await latencies(page);
  console.log(`keystroke to findings: median ${Math.round(times[10])} ms, p95 ${Math.round(times[18])} ms`);
  await until("the memory is kept", () => kept(page));
  await page.close();
}

const LARGEST_PAINT = 1500;
const LAYOUT_SHIFT = 0.05;

/** The page is painted before Python has started, with what dsconfig then says. */
async function firstPaint() {
  const page = await browser.page(await browser.visitor());
  await page.evaluateOnNewDocument(() => {
    globalThis.paints = [];
    globalThis.shifts = [0];
    const each = (type, take) => new PerformanceObserver((list) => list.getEntries().forEach(take)).observe({ type, buffered: true });
    if (PerformanceObserver.supportedEntryTypes.includes("largest-contentful-paint")) {
      each("largest-contentful-paint", ({ startTime }) => globalThis.paints.push(startTime));
    }
    if (PerformanceObserver.supportedEntryTypes.includes("layout-shift")) {
      each("layout-shift", ({ value }) => globalThis.shifts.push(value));
    }
  });
  await page.goto(address, { waitUntil: "load" });
  const shown = ["#summary", "#found", "#output"];
  const source = await page.evaluate(async (selectors) => {
    const html = await (await fetch(location.href.replace(/#.*/, ""))).text();
    const built = new DOMParser().parseFromString(html, "text/html");
    return selectors.map((selector) => built.querySelector(selector).textContent);
  }, shown);
  await page.waitForSelector("body[data-ready]", { timeout: 60_000 });
  await page.waitForSelector(".cm-lintRange-error");
  await new Promise((done) => setTimeout(done, 1500)); // the output follows a pause
  for (const [at, selector] of shown.entries()) {
    must((await text(page, selector)) === source[at], `${selector} says what the page was built with`);
  }
  const { last, shift } = await page.evaluate(() => ({ last: globalThis.paints.at(-1) ?? 0, shift: globalThis.shifts.reduce((a, b) => a + b) }));
  console.log(`largest contentful paint: ${Math.round(last)} ms; layout shift ${shift.toFixed(3)}`);
  must(last <= LARGEST_PAINT && shift <= LAYOUT_SHIFT, "the largest paint is early, and nothing moves afterwards");
  await page.close();
}

/** Pastes over the whole text. */
async function paste(page, words) {
  await page.focus(".cm-content");
  await page.keyboard.down("Control");
  await page.keyboard.press("a");
  await page.keyboard.up("Control");
  await page.evaluate((pasted) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", pasted);
    const firefox = { data: pasted, dataType: "text/plain" }; // which makes its own clipboardData of these
    const event = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true, ...firefox });
    document.querySelector(".cm-content").dispatchEvent(event);
  }, words);
}

async function launchFiles() {
  const { page } = await opened(visitor);
  await paste(page, "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\nnum_processes: 8\n");
  await says(page, "#output", "made by accelerate");
  must((await page.$eval("#format", (each) => each.value)) === "yaml", "a config of Accelerate is read as YAML");
  await paste(page, "cat > ds.json <<E\n{\"fp16\": {\"enabeld\": true}}\nE\ndeepspeed train.py --deepspeed ds.json\n");
  await until("the finding", async () => (await marked(page)).some(([line, words]) => line === 2 && words.includes("enabeld")));
  must(true, "a script's config is judged where it stands");
  await paste(page, "model_name_or_path: gpt2\nstage: sft\ndeepspeed: ds_z3.json\n");
  await says(page, "#output", "ds_z3.json is not on this page");
  must((await text(page, "#summary")).includes("is not on this page"), "a config that is elsewhere is asked for");
  await page.close();
}

async function laterVisit() {
  const { page, ready, memory } = await opened(visitor);
  console.log(`ready, warm: ${ready} ms`);
  must(memory === "kept", "the next visit begins with the memory that was kept");
  await page.waitForSelector(".cm-lintRange-error");
  must((await marked(page)).some(([line]) => line === 7), "and finds the same");
  const found = await text(page, "#output");
  must(!found.includes("enabeld"), "and holds nothing that was typed");
  await page.close();
}

async function sharedLink() {
  const { page } = await opened(await browser.visitor(), shared);
  await says(page, ".cm-content", "reduce_bucket_size");
  must((await page.$eval("#size", (each) => each.value)) === "8", "the address alone holds text and circumstances");
  await page.close();
}

/** What is kept and is no memory, or is one of other files, is replaced. */
async function damagedMemory() {
  const { page } = await opened(visitor);
  await page.evaluate(async () => {
    const [current] = (await caches.keys()).filter((each) => each.startsWith("dsconfig-memory-"));
    const cache = await caches.open(current);
    const [request] = await cache.keys();
    await cache.put(request, new Response(new Uint8Array(1 << 20)));
    await (await caches.open("dsconfig-memory-0")).put(request, new Response("old"));
  });
  await page.close();
  const again = await opened(visitor);
  must(again.memory === "new", "a damaged memory is not used");
  await again.page.waitForSelector(".cm-lintRange-error");
  must((await until("a new memory is kept", () => kept(again.page))) > 1 << 22, "another takes its place, and that of an old version");
  await again.page.close();
}

async function planner() {
  const page = await browser.page(visitor, { width: 1200 });
  await page.goto(`${site.base}planners/memory/`, { waitUntil: "domcontentloaded" });
  await page.waitForSelector("#plan-memory [role=status]");
  await until("the planner says whether it fits", async () => {
    const told = await text(page, "#plan-memory [role=status]");
    if (told.includes("cannot")) {
      throw new Error(told);
    }
    return /It (fits|does not fit)/.test(told);
  });
  await page.select("#plan-stage", "3");
  await until("it says what changes", async () => /"stage": 3/.test(await text(page, "#plan-memory")));
  must(true, "the memory planner answers");
  await page.close();
}

async function offline() {
  site.close();
  const { page } = await opened(visitor);
  await page.waitForSelector(".cm-lintRange-error");
  must(true, "it works without the server");
}

await run(Object.entries({ firstVisit, firstPaint, sharedLink, laterVisit, launchFiles, damagedMemory, planner, offline }).filter(([each]) => !only || only.split(",").includes(each)));
await run([
  [
    "nothing is sent",
    async () => {
      must(browser.asked.length === 0, `nothing is asked of any other host ${browser.asked.join(" ")}`);
      const odd = site.told.asked.filter((each) => !/^(GET|HEAD) [^?]*$/.test(each));
      must(odd.length === 0, `only files are asked of its own ${odd.join(" ")}`);
      must(browser.errors.length === 0, `no error ${browser.errors.join("; ")}`);
    },
  ],
]);
await browser.end();
process.exit();
