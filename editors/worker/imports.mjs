// Imports every module in the archive, and prints a list of those that fail.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { loadPyodide } from "pyodide";

const folder = mkdtempSync(join(tmpdir(), "dsconfig-"));
const stdLibURL = join(folder, "python.zip");
writeFileSync(stdLibURL, gunzipSync(readFileSync(new URL("../dist/python.archive", import.meta.url))));
const runtime = await loadPyodide({ stdLibURL, stdout: () => {} });
rmSync(folder, { recursive: true });
const failed = runtime.runPython(`
import importlib, json, sys, zipfile

OURS = ("dsconfig", "elastic", "packaging", "worker", "yaml")
names = [name for name in zipfile.ZipFile("/lib/python314.zip").namelist() if name.startswith(OURS) and name.endswith(".pyc")]
failed = []
for name in names:
    module = name.removesuffix(".pyc").removesuffix("/__init__").replace("/", ".")
    try:
        importlib.import_module(module)
    except Exception as error:
        failed.append(f"{module}: {error!r}")
json.dumps(failed)
`);
process.stdout.write(failed);
