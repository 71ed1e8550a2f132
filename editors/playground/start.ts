/** Starts the checker, which needs seconds of processor time, once the page is painted. */

import { Client, type Transport } from "../worker/client";
import type { Start } from "../worker/messages";

const at = (name: string): string => new URL(name, import.meta.url).href;

/** Starts a worker. */
export function begin(memory: Start["memory"]): Promise<Client> {
  const parts = { wasm: at("pyodide.asm.wasm"), archive: at("python.archive"), memory };
  return Client.start(new Worker(at("worker.js")) as Transport, parts);
}

/** Resolves when the browser has painted the page and has nothing else to do. */
export async function painted(): Promise<void> {
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  // Safari has no idle callback; a hidden page gets none for a long time.
  await new Promise((resolve) => globalThis.requestIdleCallback?.(resolve, { timeout: 500 }) ?? setTimeout(resolve, 200));
}
