/** Starts the checker before the page is there: it takes longer. */

import { Client, type Wire } from "../worker/client";
import type { Start } from "../worker/messages";

const at = (name: string): string => new URL(name, location.href).href;

/** Starts a worker beside the page. */
export function begin(memory: Start["memory"]): Promise<Client> {
  const parts = { wasm: at("pyodide.asm.wasm"), archive: at("python.archive"), memory };
  return Client.start(new Worker(at("worker.js")) as Wire, parts);
}

/** The page's own. */
export const first = begin("kept");
