/** The worker: starts Python, then hands every message on to it, one at a time and in their order. */

import { MIRROR, type Message, type Mirror, type Start, type Started } from "./messages";
import { type Python, start } from "./python";

/** The other end: a page or extension in a browser, or a thread of Node. */
export interface Port {
  post(message: Started | Message): void;
  listen(listener: (message: Start | Message) => void): void;
}

/** Serves the other end until it ends the worker. */
export function serve(port: Port): void {
  let python: Python | undefined;
  const waiting: Message[] = [];
  const cancelled = new Set<unknown>();

  const work = (): void => {
    const message = waiting.shift();
    if (!python || !message) {
      return;
    }
    if (waiting.length) {
      setTimeout(work); // what has arrived meanwhile is heard first: it may cancel what waits
    }
    if (message.method === MIRROR) {
      python.mirror(message.params as Mirror);
    } else if (message.id !== undefined && cancelled.delete(message.id)) {
      port.post({ jsonrpc: "2.0", id: message.id, error: { code: CANCELLED, message: "cancelled" } });
    } else {
      for (const answer of JSON.parse(python.answer(JSON.stringify(message))) as Message[]) {
        port.post(answer);
      }
    }
  };

  port.listen((message) => {
    if ("wasm" in message) {
      start(message).then(
        (started) => {
          python = started;
          port.post({ ready: true });
          work();
        },
        (reason: unknown) => port.post({ ready: false, reason: String(reason) }),
      );
      return;
    }
    if (message.method === "$/cancelRequest") {
      cancelled.add((message.params as { id: unknown }).id);
      return;
    }
    waiting.push(message);
    if (waiting.length === 1) {
      setTimeout(work);
    }
  });
}

/** `LSPErrorCodes.RequestCancelled`. */
const CANCELLED = -32800;
