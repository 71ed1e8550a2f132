// What a reader wants to know, found by the search box of the built site alone: typed, and the first hit followed, with
// the keyboard. `tests/site/test_search.py` asks the same search for much more, without a browser.

import { readFileSync } from "node:fs";
import { must, run, start, until } from "./browse.mjs";
import { serve } from "./serve.mjs";

const tasks = JSON.parse(readFileSync(new URL("tasks.json", import.meta.url), "utf8"));
const site = await serve();
const browser = await start("chrome");
const page = await browser.page(await browser.visitor());

const links = () =>
  page.$$eval(".md-search-result__link", (found) => found.map((each) => each.href)).catch(() => []);

/** The addresses of hits, the best first, once they have come to rest. */
async function hits() {
  let before = "";
  return until("there are hits", async () => {
    const found = (await links()).map((each) => each.slice(site.base.length).replace(/\?h=[^#]*/, ""));
    const rests = found.length > 0 && found.join() === before;
    before = found.join();
    await new Promise((done) => setTimeout(done, 250));
    return rests && found;
  }, 30);
}

async function typed(words) {
  await page.goto(site.base, { waitUntil: "load" });
  await page.keyboard.press("/");
  await page.waitForFunction(() => document.activeElement?.matches(".md-search__input"));
  await page.keyboard.type(words);
  return hits();
}

await run(
  tasks.map((task) => [
    task.task,
    async () => {
      await typed(task.typed);
      await page.keyboard.press("ArrowDown");
      await page.keyboard.press("Enter");
      await page.waitForFunction((old) => location.href !== old && document.readyState === "complete", {}, site.base);
      const shown = await page.evaluate(() => {
        const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
        let text = "";
        // the section that the address leads to, up to the next heading of its level
        for (let each = target; each; each = each.nextElementSibling) {
          if (each !== target && each.tagName <= target.tagName && /^H\d$/.test(each.tagName)) {
            break;
          }
          text += `${each.textContent}\n`;
        }
        return text || document.querySelector("article").textContent;
      });
      for (const words of task.reads) {
        must(shown.replace(/\s+/g, " ").includes(words), `the first hit, ${page.url()}, says: ${words}`);
      }
    },
  ]),
);
await browser.end();
site.close();
