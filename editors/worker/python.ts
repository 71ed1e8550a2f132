/** Starts Python with the archive that `build.mjs` made, without a request that the archive could answer. */

import "./classic";
import { type Lockfile, loadPyodide, type PyodideAPI, type PyodideConfig } from "pyodide";
import createPyodideModule from "pyodide/pyodide.asm.mjs";
import { info } from "pyodide/pyodide-lock.json";
import { forget, keep, kept } from "./memory";
import type { Mirror, Part, Start } from "./messages";

/** Python, running `worker.py`; messages are JSON. */
export interface Python {
  /** The response to a request. */
  answer(message: string): string;
  /** Takes notice of something. */
  take(message: string): void;
  /** The next message that nobody asked for; undefined: there is none. */
  pending(): string | undefined;
  /** Writes and removes files in Python's own file system. */
  mirror(files: Mirror): void;
  /** Whether it began with the memory that a browser kept. */
  readonly isKept: boolean;
}

const IN_NODE = !("location" in globalThis);

/** Where Pyodide looks for what is at hand. */
const HOME = "https://dsconfig.invalid/";

export async function start(parts: Start): Promise<Python> {
  const { wasm } = parts;
  const given = { wasm, code: IN_NODE ? undefined : compiled(wasm), archive: unpacked(parts.archive) };
  const memory = parts.memory === "kept" ? await kept() : undefined;
  if (memory) {
    try {
      return serving(await load(given, { _loadSnapshot: memory.arrayBuffer() }), true);
    } catch {
      await forget();
    }
  }
  const pyodide = await load(given, { _makeSnapshot: parts.memory === "new" });
  if (parts.memory === "new") {
    pyodide.runPython("import worker; worker.warm()");
    await keep((pyodide as unknown as Keeping).makeMemorySnapshot());
  }
  return serving(pyodide, false);
}

/** What Pyodide's types call private. */
interface Keeping {
  makeMemorySnapshot(): Uint8Array;
}

/** Begins to compile at once, while the rest is read; browsers keep what they compiled as it came in. */
async function compiled(wasm: Part): Promise<WebAssembly.Module> {
  if (wasm instanceof Uint8Array) {
    return WebAssembly.compile(wasm as Uint8Array<ArrayBuffer>);
  }
  return WebAssembly.compileStreaming(fetch(wasm)).catch(async () =>
    WebAssembly.compile(await (await fetch(wasm)).arrayBuffer()),
  );
}

interface Given {
  readonly wasm: Part;
  /** undefined: Pyodide reads and compiles the file itself. */
  readonly code: Promise<WebAssembly.Module> | undefined;
  readonly archive: Promise<Uint8Array>;
}

function load(given: Given, options: PyodideConfig): Promise<PyodideAPI> {
  const { wasm } = given;
  return served(given, () =>
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

function serving(pyodide: PyodideAPI, isKept: boolean): Python {
  const { answer, take, pending } = pyodide.pyimport("worker") as Pick<Python, "answer" | "take" | "pending">;
  return { answer, take, pending, isKept, mirror: (files) => mirror(pyodide.FS, files) };
}

/** No package is ever loaded; the lock file of those that could be has to be there all the same. */
const LOCK = { info, packages: {} } as Lockfile;

/** The zip in an archive; some servers and browsers have unpacked it before it comes here. */
async function unpacked(archive: Part): Promise<Uint8Array> {
  const bytes = archive instanceof Uint8Array ? archive : new Uint8Array(await (await fetch(archive)).arrayBuffer());
  if (bytes[0] !== 0x1f) {
    return bytes;
  }
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Runs `task` while what Pyodide asks for is what is at hand; where that fails, Pyodide alone would wait for ever. */
async function served<T>({ code, archive }: Given, task: () => Promise<T>): Promise<T> {
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
      const made = instantiate(imports);
      made.catch(reject);
      return made;
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

/** A file that cannot be is left out: it has gone already, or another lies where its folder would. */
function attempt(change: () => void): void {
  try {
    change();
  } catch {}
}
