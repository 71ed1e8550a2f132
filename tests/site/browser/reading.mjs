// Pages of the built site in Chromium, light and dark, narrow and wide: axe finds nothing serious, nothing stands out of the
// window, and the keyboard alone does what there is to do.
//   node reading.mjs [PICTURES]

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { must, run, start, until } from "./browse.mjs";
import { serve } from "./serve.mjs";

const [pictures = "", only] = process.argv.slice(2);
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PAGES = {
  home: "",
  guide: "guides/memory/",
  loaders: "guides/loaders/",
  rule: "rules/DSC203/",
  key: "keys/zero_optimization/",
  rules: "rules/",
  releases: "releases/compare/",
  playground: "playground/",
  batch: "planners/batch/",
  memory: "planners/memory/",
};
const READY = { playground: "body[data-ready] .cm-lintRange-error", memory: "#plan-memory .phases", batch: "#plan-batch svg" };
const site = await serve();
const browser = await start("chrome");
const visitor = await browser.visitor();

async function opened(name, settings) {
  const page = await browser.page(visitor, settings);
  await page.evaluateOnNewDocument(() => localStorage.clear()); // the theme keeps the scheme of the first visit
  await page.goto(site.base + PAGES[name], { waitUntil: "load" });
  if (READY[name]) {
    await page.waitForSelector(READY[name], { timeout: 120_000 }).catch(async () => {
      const told = await page.$$eval("[role=status]", (all) => all.map(({ textContent }) => textContent).join("; "));
      throw new Error(`${name} does not show ${READY[name]} within 120 s; it says: ${told}`);
    });
  }
  return page;
}

async function looked(name) {
  for (const scheme of ["light", "dark"]) {
    for (const width of [360, 1600]) {
      const page = await opened(name, { width, height: 900, scheme });
      if (pictures) {
        mkdirSync(pictures, { recursive: true });
        await page.screenshot({ path: join(pictures, `${name}-${scheme}-${width}.png`) });
      }
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      await page.evaluate(AXE);
      const { violations } = await page.evaluate("axe.run({ resultTypes: ['violations'] })");
      const grave = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
      const told = grave.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 2).map(({ html }) => html.slice(0, 160)).join(" ")}`);
      must(wide <= 0 && !grave.length, `${name}, ${scheme}, ${width}: nothing to complain of ${wide > 0 ? `${wide} px too wide` : ""} ${told.join("; ")}`);
      await page.close();
    }
  }
}

const focused = (page, selector) => page.evaluate((each) => Boolean(document.activeElement?.matches(each)), selector);

/** Presses Tab until something has the focus. */
async function tab(page, selector, most = 60) {
  for (let count = 0; count < most; count += 1) {
    await page.keyboard.press("Tab");
    if (await focused(page, selector)) {
      return;
    }
  }
  throw new Error(`${selector} is not reached by ${most} times Tab`);
}

async function keyboardOnPages() {
  const page = await opened("rule");
  await page.keyboard.press("Tab");
  must(await focused(page, ".md-skip"), "the first Tab offers to skip the navigation");
  await page.keyboard.press("Enter");
  must((await page.url()).includes("#"), "and Enter does");
  await tab(page, ".md-typeset a[href]");
  await page.close();
  const batch = await opened("batch");
  await tab(batch, "#plan-nodes");
  const before = await batch.$eval("#plan-batch", (each) => each.textContent);
  await batch.keyboard.press("ArrowUp");
  await until("the batch is planned anew", async () => before !== (await batch.$eval("#plan-batch", (each) => each.textContent)));
  await tab(batch, ".md-typeset button.md-button");
  await tab(batch, "#plan-available");
  const told = () => batch.$eval("#plan-batch output", (each) => each.textContent);
  const all = await told();
  await batch.keyboard.press("ArrowLeft");
  const fewer = await told();
  must(fewer !== all, "keys move the line of the chart");
  await until("the chart says what is under the pointer", async () => {
    await batch.hover("#plan-batch svg"); // scrolls to the chart: focusing the slider may have scrolled it out, or be scrolling still
    return ![all, fewer].includes(await told());
  });
  await batch.close();
  const memory = await opened("memory");
  await tab(memory, "#plan-stage");
  await memory.keyboard.press("ArrowDown");
  await until("the memory is computed anew", () => memory.$eval("#plan-memory", (each) => each.textContent.includes('"stage": 3')));
  must(true, "fields are reached and changed by keys");
  await memory.close();
}

async function keyboardInThePlayground() {
  const page = await opened("playground");
  await tab(page, ".cm-content");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Tab");
  must(!(await focused(page, ".cm-content")), "Tab leaves the editor");
  await tab(page, "[data-verb=resolve]");
  await page.keyboard.press("Enter");
  await until("why there is no batch", () => page.$eval("#output", (each) => each.textContent.includes("DSC102")));
  await page.focus(".cm-content");
  const counted = () => page.$$eval(".cm-lintRange-error, .cm-lintRange-warning", (marks) => marks.length);
  const before = await counted();
  await page.keyboard.down("Control");
  await page.keyboard.down("Shift");
  await page.keyboard.press("KeyM");
  await page.keyboard.up("Shift");
  await page.keyboard.up("Control");
  await page.waitForSelector(".cm-panel-lint .cm-diagnosticAction");
  must(await focused(page, ".cm-panel-lint ul"), "the list of findings opens, and has the focus");
  for (let down = 0; down < 6 && (await counted()) === before; down += 1) {
    const key = await page.evaluate(() => {
      const action = document.querySelector(".cm-panel-lint [aria-selected=true] .cm-diagnosticAction u");
      return action ? action.textContent : "";
    });
    await page.keyboard.press(key ? key.toLowerCase() : "ArrowDown");
    await new Promise((done) => setTimeout(done, 500));
  }
  must((await counted()) < before, "a key makes a fix");
  await page.close();
}

async function homeComesAlive() {
  const before = site.told.sent;
  const page = await opened("home");
  must(site.told.sent - before < 1_000_000, "the home page does not load the checker by itself");
  await page.click("#edit");
  await page.waitForSelector(".cm-lintRange-error", { timeout: 120_000 });
  must(await page.$$eval("#found li", (items) => items.length >= 3), "the example becomes an editor with the same diagnostics");
  must(!page.url().includes("#"), "and the address stays");
  await page.focus("#pasted-error");
  await page.keyboard.type("AssertionError: Check batch related parameters. train_batch_size is not equal to 64 != 4 * 1 * 8");
  await until("the traceback is explained", () => page.$eval("#explain-error", (each) => each.textContent.includes("What to do")));
  await page.close();
}

async function rulesAreFiltered() {
  const page = await opened("rules");
  const shown = () => page.$$eval(".rule-index tbody tr", (rows) => rows.filter((row) => row.checkVisibility()).map((row) => row.textContent));
  const all = (await shown()).length;
  await page.type("#filter-rules", "batch rejected");
  const some = await shown();
  must(some.length > 3 && some.length < all / 4 && some.every((row) => /batch/i.test(row) && /rejected/.test(row)), "rules are filtered by words");
  must(await page.$$eval(".rule-index", (tables) => tables.some((table) => !table.checkVisibility())), "a subject without any is hidden");
  must((await page.$eval(".rule-filter output", (each) => each.textContent)) === `${some.length} of ${all} rules`, "and they are counted");
  await page.close();
}

const parts = Object.keys(PAGES).map((name) => [name, () => looked(name)]);
parts.push(["keyboard, pages", keyboardOnPages], ["keyboard, playground", keyboardInThePlayground], ["home, live", homeComesAlive], ["rules, filtered", rulesAreFiltered]);
await run(parts.filter(([name]) => !only || only.split(";").includes(name)));
await run([["errors of pages", async () => must(!browser.errors.length && !browser.asked.length, [...browser.errors, ...browser.asked].join("; "))]]);
await browser.end();
site.close();
process.exit();
