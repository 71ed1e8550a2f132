// The playground in Chromium (Debian's), from a static server on loopback: what a visitor does, and how long it takes.
//   node playground/test/run.mjs [PICTURES]     after playground/build.mjs

import { mkdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { chromium } from "playwright-core";

const root = fileURLToPath(new URL("../../dist/playground/", import.meta.url));
const [pictures = ""] = process.argv.slice(2);
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };
const asked = [];
const packed = new Map();
let sent = 0;

const server = createServer((request, response) => {
  const name = new URL(request.url, "http://x").pathname.slice(1) || "index.html";
  asked.push(name);
  try {
    const bytes = readFileSync(join(root, name));
    const type = TYPES[extname(name)] ?? "application/octet-stream";
    const body = name.endsWith(".archive") ? bytes : (packed.get(name) ?? gzipSync(bytes, { level: 9 }));
    packed.set(name, body);
    sent += body.length;
    const headers = { "Content-Type": type, "Cache-Control": "max-age=600" };
    response.writeHead(200, body === bytes ? headers : { ...headers, "Content-Encoding": "gzip" }).end(body);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const address = `http://127.0.0.1:${server.address().port}/`;
for (const name of ["start.js", "page.js", "worker.js", "pyodide.asm.wasm"]) {
  packed.set(name, gzipSync(readFileSync(join(root, name)), { level: 9 }));
}
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width: 1400, height: 850 } });
const errors = [];

function must(condition, what) {
  if (!condition) {
    throw new Error(`not so: ${what}`);
  }
  console.log(`ok: ${what}`);
}

async function opened(url) {
  const page = await context.newPage();
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url());
    if (protocol.startsWith("http") && origin !== new URL(address).origin) {
      errors.push(`a request to ${origin}`);
    }
  });
  await page.goto(url);
  await page.waitForSelector("body[data-ready]", { timeout: 120_000 });
  return { page, ready: Number(await page.getAttribute("body", "data-ready")) };
}

/** Whether the memory of a started Python is kept for the next visit. */
const KEPT = async () => {
  const names = (await caches.keys()).filter((name) => name.startsWith("dsconfig-memory-"));
  const kept = await Promise.all(names.map(async (name) => (await (await caches.open(name)).keys()).length));
  return kept.some(Boolean);
};

async function picture(page, name) {
  if (pictures) {
    mkdirSync(pictures, { recursive: true });
    await page.screenshot({ path: join(pictures, `playground-${name}.png`) });
  }
}

/** Milliseconds from a key that makes or ends a misspelling to the finding's change. */
async function latencies(page) {
  const found = [];
  for (let count = 0; count < 20; count += 1) {
    const before = await page.locator("#summary").textContent();
    await page.evaluate((old) => {
      globalThis.seen = new Promise((resolve) => {
        const start = { at: 0 };
        addEventListener("keydown", () => (start.at ||= performance.now()), { capture: true, once: true });
        const told = document.getElementById("summary");
        const watch = new MutationObserver(() => {
          if (told.textContent !== old) {
            watch.disconnect();
            resolve(performance.now() - start.at);
          }
        });
        watch.observe(told, { childList: true, characterData: true, subtree: true });
      });
    }, before);
    await page.keyboard.press(count % 2 ? "Backspace" : "x");
    found.push(await page.evaluate(() => globalThis.seen));
  }
  return found.sort((one, other) => one - other);
}

try {
  const { page, ready } = await opened(address);
  const cold = sent;
  console.log(`ready, cold: ${ready} ms; ${cold.toLocaleString("en")} bytes sent`);
  await page.locator(".cm-lintRange-error").first().waitFor();
  must((await page.locator(".cm-lintRange-error").first().textContent()).includes("reduce_bucket_sise"), "the finding stands at its key");
  await page.locator("#output").getByText("zero_optimization").first().waitFor();
  await picture(page, "first");
  await page.locator(".cm-lintRange-error").first().hover();
  const action = page.locator(".cm-diagnosticAction").first();
  await action.waitFor();
  await picture(page, "finding");
  await action.click();
  await page.waitForFunction(() => document.querySelector(".cm-content").textContent.includes("reduce_bucket_size"));
  must(true, "a click makes the fix");
  await page.locator("#size").fill("8");
  await page.locator("#size").press("Enter");
  for (const [verb, wanted] of [["resolve", "gradient_accumulation_steps"], ["migrate", "offload"], ["compat", "0.19.8"], ["fix", "offload_optimizer"]]) {
    await page.locator(`[data-verb="${verb}"]`).click();
    await page.locator("#output").getByText(wanted).first().waitFor();
    await picture(page, verb);
  }
  await page.locator(".cm-line", { hasText: '"enabled"' }).click();
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  const times = await latencies(page);
  console.log(`keystroke to findings: median ${Math.round(times[10])} ms, p95 ${Math.round(times[18])} ms`);
  const shared = page.url();
  await page.waitForFunction(() => navigator.serviceWorker.ready.then(() => true));
  while (!(await page.evaluate(KEPT))) {
    await page.waitForTimeout(200);
  }
  const warm = await opened(shared);
  console.log(`ready, warm: ${warm.ready} ms`);
  must((await warm.page.locator(".cm-content").textContent()).includes("reduce_bucket_size"), "the address holds the config");
  must((await warm.page.locator("#size").inputValue()) === "8", "the address holds the world size");
  server.close();
  server.closeAllConnections();
  const offline = await opened(address);
  await offline.page.locator(".cm-lintRange-error").first().waitFor();
  must(true, "it works without the server");
  must(errors.length === 0, `no error and no request elsewhere ${errors.join("; ")}`);
} catch (error) {
  console.error(String(error), errors.join("; "));
  const [last] = context.pages().slice(-1);
  if (last) {
    await picture(last, "failure");
  }
  process.exitCode = 1;
} finally {
  await browser.close();
  server.close();
}
