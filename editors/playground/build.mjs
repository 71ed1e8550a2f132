// Writes dist/playground/: a static page, after worker/build.mjs.
//   node playground/build.mjs [PYTHON]     Python that provides the list of releases

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const dist = fileURLToPath(new URL("../dist/", import.meta.url));
const out = `${dist}playground/`;
const SCRIPT = "import json; from dsconfig.core.releases import RELEASES; print(json.dumps(RELEASES))";
const releases = JSON.parse(execFileSync(process.argv[2] ?? "python3", ["-c", SCRIPT], { encoding: "utf8" }));

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
await build({
  entryPoints: [`${here}page.ts`],
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  legalComments: "none",
  logLevel: "warning",
});
for (const name of ["worker.js", "pyodide.asm.wasm", "python.archive"]) {
  copyFileSync(`${dist}${name}`, `${out}${name}`);
}
copyFileSync(`${here}page.css`, `${out}page.css`);
const options = [...releases].reverse().map((release) => `<option>${release}</option>`).join("");
const page = readFileSync(`${here}index.html`, "utf8");
writeFileSync(`${out}index.html`, page.replace("__RELEASES__", options).replace("__LATEST__", releases.at(-1)));
const hash = createHash("sha256");
for (const name of ["index.html", "page.css", "page.js", "worker.js", "pyodide.asm.wasm", "python.archive"]) {
  hash.update(readFileSync(`${out}${name}`));
}
const offline = readFileSync(`${here}offline.js`, "utf8");
writeFileSync(`${out}offline.js`, offline.replace("__VERSION__", hash.digest("hex").slice(0, 12)));
