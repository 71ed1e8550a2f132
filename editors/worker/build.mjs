// Writes dist/: the worker for browsers and for Node, and the Python archive that both start from. The archive is a zip
// of bytecode, compressed as a whole: a quarter smaller than file by file.
//   node worker/build.mjs [PYTHON]     Python whose installed dsconfig goes into the archive

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { loadPyodide } from "pyodide";

const here = fileURLToPath(new URL(".", import.meta.url));
const dist = fileURLToPath(new URL("../dist/", import.meta.url));
const pyodide = fileURLToPath(new URL("../node_modules/pyodide/", import.meta.url));
const PACKAGES = ["dsconfig", "elastic", "packaging", "shtab", "yaml"];

/** Directories of the packages that `python` imports, by name. */
function folders(python) {
  const script = "import json, sys; from importlib.util import find_spec; from os.path import dirname;"
    + "print(json.dumps({name: dirname(find_spec(name).origin) for name in sys.argv[1:]}))";
  return JSON.parse(execFileSync(python, ["-c", script, ...PACKAGES], { encoding: "utf8" }));
}

async function archive(python) {
  const runtime = await loadPyodide();
  const roots = folders(python);
  for (const [name, root] of Object.entries(roots)) {
    runtime.FS.mkdirTree(`/mnt/${name}`);
    runtime.FS.mount(runtime.FS.filesystems.NODEFS, { root }, `/mnt/${name}`);
    roots[name] = `/mnt/${name}`;
  }
  const names = runtime.toPy({});
  runtime.runPython(readFileSync(`${here}pack.py`, "utf8"), { globals: names });
  const made = names.get("pack")(runtime.toPy(roots), readFileSync(`${here}worker.py`, "utf8"));
  const bytes = gzipSync(made.toJs(), { level: 9 });
  writeFileSync(`${dist}python.archive`, bytes);
  return bytes;
}

mkdirSync(dist, { recursive: true });
const made = createHash("sha256").update(await archive(process.argv[2] ?? "python3"));
const version = made.update(readFileSync(`${pyodide}pyodide.asm.wasm`)).digest("hex").slice(0, 12);
const shared = { bundle: true, minify: true, legalComments: "none", logLevel: "warning", external: ["node:*", "ws"] };
const define = { VERSION: JSON.stringify(version) };
copyFileSync(`${pyodide}pyodide.asm.wasm`, `${dist}pyodide.asm.wasm`);
await Promise.all([
  build({
    ...shared,
    entryPoints: [`${here}browser.ts`],
    outfile: `${dist}worker.js`,
    format: "iife",
    define: { ...define, "import.meta.url": "undefined" },
  }),
  build({
    ...shared,
    entryPoints: [`${here}node.ts`],
    outfile: `${dist}worker.cjs`,
    platform: "node",
    format: "cjs",
    define: { ...define, "import.meta.url": "ADDRESS" },
    banner: { js: 'const ADDRESS = require("node:url").pathToFileURL(__filename).href;' },
  }),
  build({
    ...shared,
    entryPoints: [`${here}stdio.ts`],
    outfile: `${dist}stdio.mjs`,
    platform: "node",
    format: "esm",
  }),
]);
