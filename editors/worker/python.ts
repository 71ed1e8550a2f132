/** Starts Python from the archive of `build.mjs`, without other requests. */

import "./classic";
import { type Lockfile, loadPyodide, type PyodideAPI, type PyodideConfig } from "pyodide";
import createPyodideModule from "pyodide/pyodide.asm.mjs";
import { info } from "pyodide/pyodide-lock.json";
import { forget, keep, kept } from "./memory";
import type { Mirror, Part, Start } from "./messages";

/** Python that runs `worker.py`; messages are JSON. */
export interface Python {
  /** Response to a request. */
  answer(message: string): string;
  /** Handles a notification. */
  take(message: string): void;
  /** Next message of the server; undefined if there is none. */
  pending(): string | undefined;
  /** Writes and removes files in Python's own file system. */
  mirror(files: Mirror): void;
  /** Whether it started from a cached snapshot. */
  readonly fromSnapshot: boolean;
}

const IN_NODE = !("location" in globalThis);

/** Base URL of the files that `served` intercepts. */
const HOME = "https://dsconfig.invalid/";

export async function start(parts: Start): Promise<Python> {
  const { wasm } = parts;
  const files = { wasm, code: IN_NODE ? undefined : compiled(wasm), archive: unpacked(parts.archive) };
  const memory = parts.memory === "kept" ? await kept() : undefined;
  if (memory) {
    try {
      return serving(await load(files, { _loadSnapshot: memory.arrayBuffer() }), true);
    } catch {
      await forget();
    }
  }
  const pyodide = await load(files, { _makeSnapshot: parts.memory === "new" });
  if (parts.memory === "new") {
    pyodide.runPython("import worker; worker.warm()");
    await keep((pyodide as unknown as SnapshotMaker).makeMemorySnapshot());
  }
  return serving(pyodide, false);
}

/** Method that is private in Pyodide's types. */
interface SnapshotMaker {
  makeMemorySnapshot(): Uint8Array;
}

/** Starts to compile while other files load; browsers cache code that was compiled while streaming. */
async function compiled(wasm: Part): Promise<WebAssembly.Module> {
  if (wasm instanceof Uint8Array) {
    return WebAssembly.compile(wasm as Uint8Array<ArrayBuffer>);
  }
  return WebAssembly.compileStreaming(fetch(wasm)).catch(async () =>
    WebAssembly.compile(await (await fetch(wasm)).arrayBuffer()),
  );
}

interface Files {
  readonly wasm: Part;
  /** undefined: Pyodide loads and compiles the file itself. */
  readonly code: Promise<WebAssembly.Module> | undefined;
  readonly archive: Promise<Uint8Array>;
}

function load(files: Files, options: PyodideConfig): Promise<PyodideAPI> {
  const { wasm } = files;
  return served(files, () =>
    loadPyodide({
      indexURL: typeof wasm === "string" ? wasm.slice(0, wasm.lastIndexOf("/") + 1) : HOME,
      stdLibURL: `${HOME}archive`,
      packageBaseUrl: HOME,
      lockFileContents: LOCK,
      createPyodideModule,
      ...options,
    }),
  );
}

function serving(pyodide: PyodideAPI, fromSnapshot: boolean): Python {
  const { answer, take, pending } = pyodide.pyimport("worker") as Pick<Python, "answer" | "take" | "pending">;
  return { answer, take, pending, fromSnapshot, mirror: (files) => mirror(pyodide.FS, files) };
}

/** Pyodide requires a lock file, although no package is loaded. */
const LOCK = { info, packages: {} } as Lockfile;

/** Zip of an archive; some servers and browsers decompress it in transit. */
async function unpacked(archive: Part): Promise<Uint8Array> {
  const bytes = archive instanceof Uint8Array ? archive : new Uint8Array(await (await fetch(archive)).arrayBuffer());
  if (bytes[0] !== 0x1f) {
    return bytes;
  }
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Runs `task` with fetches of Pyodide answered from memory; rejects if that fails, since Pyodide would hang. */
async function served<T>({ code, archive }: Files, task: () => Promise<T>): Promise<T> {
  const { fetch } = globalThis;
  const { instantiateStreaming } = WebAssembly;
  globalThis.fetch = async (request: string | URL | Request) =>
    new Response(String(request) === `${HOME}archive` ? ((await archive) as Uint8Array<ArrayBuffer>) : null);
  const failed = new Promise<never>((_, reject) => {
    const instantiate = async (imports?: WebAssembly.Imports) => {
      const module = (await code) as WebAssembly.Module;
      return { module, instance: await WebAssembly.instantiate(module, imports) };
    };
    WebAssembly.instantiateStreaming = (_, imports) => {
      const result = instantiate(imports);
      result.catch(reject);
      return result;
    };
  });
  try {
    return await Promise.race([task(), failed]);
  } finally {
    globalThis.fetch = fetch;
    WebAssembly.instantiateStreaming = instantiateStreaming;
  }
}

function mirror(system: PyodideAPI["FS"], { write, remove }: Mirror): void {
  for (const path of remove) {
    attempt(() => system.unlink(path));
  }
  for (const { path, content } of write) {
    attempt(() => {
      system.mkdirTree(path.slice(0, path.lastIndexOf("/")) || "/");
      system.writeFile(path, content);
    });
  }
}

/** Ignores a failed change: the file is already removed, or a file has the name of a parent directory. */
function attempt(change: () => void): void {
  try {
    change();
  } catch {}
}
