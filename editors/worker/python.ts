/** Starts Python with the archive that `build.mjs` made, without a request that the archive could answer. */

import "./classic";
import { type Lockfile, loadPyodide } from "pyodide";
import createPyodideModule from "pyodide/pyodide.asm.mjs";
import { info } from "pyodide/pyodide-lock.json";
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
}

/** Where Pyodide looks for what is at hand as bytes: `fetch` answers instead. */
const HOME = "https://dsconfig.invalid/";

export async function start({ wasm, archive }: Start): Promise<Python> {
  const given: Record<string, Part> = {
    [`${HOME}pyodide.asm.wasm`]: wasm,
    [`${HOME}archive`]: await unpacked(archive),
  };
  const pyodide = await served(given, () =>
    loadPyodide({
      indexURL: typeof wasm === "string" ? wasm.slice(0, wasm.lastIndexOf("/") + 1) : HOME,
      stdLibURL: `${HOME}archive`,
      packageBaseUrl: HOME,
      lockFileContents: LOCK,
      createPyodideModule,
    }),
  );
  const { answer, take, pending } = pyodide.pyimport("worker") as Omit<Python, "mirror">;
  return { answer, take, pending, mirror: (files) => mirror(pyodide.FS, files) };
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

/** Runs `task` while `fetch` knows the bytes that are at hand. */
async function served<T>(given: Record<string, Part>, task: () => Promise<T>): Promise<T> {
  const { fetch } = globalThis;
  globalThis.fetch = async (request: string | URL | Request, options?: RequestInit) => {
    const part = given[String(request)];
    if (!(part instanceof Uint8Array)) {
      return fetch(request, options);
    }
    return new Response(part as Uint8Array<ArrayBuffer>, { headers: { "Content-Type": "application/wasm" } });
  };
  try {
    return await task();
  } finally {
    globalThis.fetch = fetch;
  }
}

type FileSystem = Awaited<ReturnType<typeof loadPyodide>>["FS"];

function mirror(system: FileSystem, { write, remove }: Mirror): void {
  for (const { path, content } of write) {
    system.mkdirTree(path.slice(0, path.lastIndexOf("/")) || "/");
    system.writeFile(path, content);
  }
  for (const path of remove) {
    if (system.analyzePath(path).exists) {
      system.unlink(path);
    }
  }
}
