/** Starts the worker as a thread of Node, from the files of `dist`. */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { Client, type Wire } from "./client";

export async function startThread(dist: string): Promise<Client> {
  const archive = await readFile(join(dist, "python.archive"));
  const thread = new Worker(join(dist, "worker.cjs"));
  const wire: Wire = {
    onmessage: null,
    onerror: null,
    postMessage: (message) => thread.postMessage(message),
    terminate: () => void thread.terminate(),
  };
  thread.on("message", (data) => wire.onmessage?.({ data }));
  thread.on("error", (error) => wire.onerror?.({ message: String(error) }));
  return Client.start(wire, {
    wasm: slashed(join(dist, "pyodide.asm.wasm")),
    archive,
  });
}

const slashed = (path: string): string => path.replaceAll("\\", "/");
