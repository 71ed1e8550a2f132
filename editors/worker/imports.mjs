// Imports every module of the archive that is not for another platform; prints a list of those that cannot be.

import { fileURLToPath } from "node:url";
import { loadPyodide } from "pyodide";

const runtime = await loadPyodide({
  stdLibURL: fileURLToPath(new URL("../dist/python.zip", import.meta.url)),
  stdout: () => {},
});
const failed = runtime.runPython(`
import importlib, json, sys, zipfile

OURS = ("dsconfig", "elastic", "packaging", "worker", "yaml")
names = [name for name in zipfile.ZipFile("/lib/python314.zip").namelist() if name.startswith(OURS)]
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
