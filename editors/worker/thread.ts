/** Starts the worker as a Node thread, from the files in `dist`. */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { Client, type Transport } from "./client";

export async function startThread(dist: string): Promise<Client> {
  const archive = await readFile(join(dist, "python.archive"));
  const thread = new Worker(join(dist, "worker.cjs"));
  const transport: Transport = {
    onmessage: null,
    onerror: null,
    postMessage: (message) => thread.postMessage(message),
    terminate: () => void thread.terminate(),
  };
  thread.on("message", (data) => transport.onmessage?.({ data }));
  thread.on("error", (error) => transport.onerror?.({ message: String(error) }));
  return Client.start(transport, {
    wasm: slashed(join(dist, "pyodide.asm.wasm")),
    archive,
  });
}

const slashed = (path: string): string => path.replaceAll("\\", "/");
