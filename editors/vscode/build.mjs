// Writes dist/vscode/, the content of the extension, and dist/dsconfig.vsix.
//   node vscode/build.mjs [PYTHON]     after worker/build.mjs; Python provides version, releases, models and file names

import { execFileSync } from "node:child_process";
import { copyFileSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const dist = fileURLToPath(new URL("../dist/", import.meta.url));
const root = fileURLToPath(new URL("../../", import.meta.url));
const out = `${dist}vscode/`;
const python = process.argv[2] ?? "python3";
const SCRIPT = `
import json
from dsconfig import __version__
from dsconfig.core.diagnostic import SITE
from dsconfig.document.config_file_names import CONFIGS
from dsconfig.launch.classify_config_file import TYPICAL, UNMISTAKABLE
from dsconfig.lsp.relevant_documents import CONFIG, LAUNCH
from dsconfig.core.releases import RELEASES
from dsconfig.memory.models.model_zoo import NAMES
words = "|".join(["deepspeed", "[$]dsconfig", "dsconfig:", LAUNCH, *sorted(UNMISTAKABLE | TYPICAL)])
print(json.dumps({
    "version": __version__, "site": SITE, "patterns": CONFIGS, "releases": RELEASES, "models": NAMES,
    "names": f"{CONFIG}|{LAUNCH}", "words": words,
}))
`;
const facts = JSON.parse(execFileSync(python, ["-c", SCRIPT], { encoding: "utf8" }));

/** Manifest with the facts from Python; the marketplace only accepts versions of three numbers. */
function manifest() {
  const made = JSON.parse(readFileSync(`${here}package.json`, "utf8"));
  made.version = facts.version.match(/^\d+\.\d+\.\d+/)[0];
  made.homepage = facts.site;
  made.contributes.languages[0].filenamePatterns = facts.patterns;
  return made;
}

rmSync(out, { recursive: true, force: true });
mkdirSync(`${out}dist`, { recursive: true });
cpSync(`${here}media`, `${out}media`, { recursive: true, filter: (path) => !path.endsWith("pictures") });
for (const name of ["worker.js", "worker.cjs", "pyodide.asm.wasm", "python.archive"]) {
  copyFileSync(`${dist}${name}`, `${out}dist/${name}`);
}
copyFileSync(`${here}CHANGELOG.md`, `${out}CHANGELOG.md`);
copyFileSync(`${root}LICENSE`, `${out}LICENSE.txt`);
const made = manifest();
// Galleries show a README's pictures from the repository, as `vsce` links them.
const pictures = `](${made.repository.url}/raw/HEAD/${made.repository.directory}/media/`;
writeFileSync(`${out}README.md`, readFileSync(`${here}README.md`, "utf8").replaceAll("](media/", pictures));
writeFileSync(`${out}package.json`, `${JSON.stringify(made, null, 2)}\n`);
const shared = {
  bundle: true,
  minify: true,
  format: "cjs",
  external: ["vscode"],
  legalComments: "none",
  logLevel: "warning",
  define: {
    __RELEASES__: JSON.stringify([...facts.releases].reverse()),
    __MODELS__: JSON.stringify(facts.models),
    __NAMES__: JSON.stringify(facts.names),
    __WORDS__: JSON.stringify(facts.words),
  },
};
await Promise.all([
  build({
    ...shared,
    entryPoints: [`${here}src/desktop.ts`],
    outfile: `${out}dist/desktop.cjs`,
    platform: "node",
    mainFields: ["module", "main"], // jsonc-parser's `main` asks for its files at run time
  }),
  build({
    ...shared,
    entryPoints: [`${here}src/web.ts`],
    outfile: `${out}dist/web.cjs`,
    platform: "browser",
  }),
]);
execFileSync(python, [`${here}vsix.py`, out, `${dist}dsconfig.vsix`], { stdio: "inherit" });
