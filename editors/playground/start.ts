/** Starts the checker before the page has loaded, since that takes longer. */

import { Client, type Transport } from "../worker/client";
import type { Start } from "../worker/messages";

const at = (name: string): string => new URL(name, import.meta.url).href;

/** Starts a worker. */
export function begin(memory: Start["memory"]): Promise<Client> {
  const parts = { wasm: at("pyodide.asm.wasm"), archive: at("python.archive"), memory };
  return Client.start(new Worker(at("worker.js")) as Transport, parts);
}

/** Worker of the page. */
export const first = begin("kept");
