// Draws the card of link previews: `make card` writes site/docs/assets/card.png from site/card.svg.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { start } from "./browse.mjs";

const place = (name) => fileURLToPath(new URL(`../../../site/${name}`, import.meta.url));
const browser = await start("chrome");
const page = await browser.page(await browser.visitor(), { width: 1200, height: 630 });
await page.setContent(`<style>body { margin: 0 } svg { display: block }</style>${readFileSync(place("card.svg"), "utf8")}`);
await page.screenshot({ path: place("docs/assets/card.png") });
await browser.end();
