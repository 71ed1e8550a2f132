// What the built site's search finds: its own index, in the theme's own worker, asked as the page asks.
//   node search.mjs BUILT < queries     a list of texts; prints for each the addresses of the hits, the best first

import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const built = resolve(process.argv[2]);
const script = createRequire(import.meta.url)(join(built, "assets/search.js"));
const index = JSON.parse(readFileSync(join(built, "search/search_index.json"), "utf8"));
const workers = join(built, "assets/javascripts/workers");
const [code] = readdirSync(workers).filter((name) => /^search\..*\.js$/.test(name));

let hear;
const answers = [];
globalThis.self = globalThis;
globalThis.addEventListener = (_, listener) => (hear = listener);
globalThis.postMessage = (message) => answers.push(message);
(0, eval)(readFileSync(join(workers, code), "utf8"));

/** The worker's answer of a type. */
async function answer(message, type) {
  await hear({ data: message });
  for (;;) {
    const at = answers.findIndex((each) => each.type === type);
    if (at >= 0) return answers.splice(at, 1)[0].data;
    await new Promise((done) => setTimeout(done, 1));
  }
}

await answer({ type: 0, data: { ...index, options: {} } }, 1);
const keys = script.entries(index.docs);
const found = [];
for (const text of JSON.parse(readFileSync(0, "utf8"))) {
  const { items } = await answer({ type: 2, data: script.query(text) }, 3);
  const docs = script.keysIn(text, [...keys.keys()]).map((path) => keys.get(path));
  found.push(script.withFirst(items, docs).flat().map(({ location }) => location));
}
process.stdout.write(JSON.stringify(found));
