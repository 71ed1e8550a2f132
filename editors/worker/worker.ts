/**
 * The worker: starts Python, and goes between it and the other end.
 *
 * Notifications are taken in as they come; what takes time begins once nothing more is waiting. So of ten
 * keystrokes in a row the last one is judged, and a request that is cancelled meanwhile is not answered.
 */

import { forget } from "./memory";
import { MIRROR, type Message, type Mirror, type Start, type Started } from "./messages";
import { type Python, start } from "./python";

/** The other end: a page or extension in a browser, or a thread of Node. */
export interface Port {
  post(message: Started | Message): void;
  listen(listener: (message: Start | Message) => void): void;
}

/** Serves the other end until it ends the worker. */
export function serve(port: Port): void {
  let server: Server | undefined;
  port.listen((message) => {
    if (!("wasm" in message)) {
      server?.hear(message);
      return;
    }
    start(message).then(
      (python) => {
        server = new Server(python, port);
        port.post({ ready: true, isKept: python.isKept });
      },
      (reason: unknown) => port.post({ ready: false, reason: String(reason) }),
    );
  });
}

/** `LSPErrorCodes.RequestCancelled`. */
const CANCELLED = -32800;

class Server {
  private readonly asked = new Map<Message["id"], Message>();
  private isDue = false;

  constructor(
    private readonly python: Python,
    private readonly port: Port,
  ) {}

  hear(message: Message): void {
    if (message.method === MIRROR) {
      this.python.mirror(message.params as Mirror);
    } else if (message.method === "$/cancelRequest") {
      this.cancel((message.params as { id: Message["id"] }).id);
    } else if (message.method === undefined) {
      return; // the answer to something that the server asked: it waits for none
    } else if (message.id !== undefined) {
      this.asked.set(message.id, message);
    } else {
      this.python.take(JSON.stringify(message));
    }
    this.later();
  }

  private cancel(id: Message["id"]): void {
    if (this.asked.delete(id)) {
      this.port.post({ jsonrpc: "2.0", id, error: { code: CANCELLED, message: "cancelled" } });
    }
  }

  private later(): void {
    if (!this.isDue) {
      this.isDue = true;
      setTimeout(() => this.attempt());
    }
  }

  /** Python answers whatever goes wrong; where it cannot any more, the memory that it began with may be why. */
  private attempt(): void {
    try {
      this.work();
    } catch (error) {
      void forget();
      throw error;
    }
  }

  /** Answers one request; where there is none, tells one piece of news. */
  private work(): void {
    this.isDue = false;
    const [request] = this.asked.values();
    if (request) {
      this.asked.delete(request.id);
      this.tell(this.python.answer(JSON.stringify(request)));
    } else {
      this.tell(this.python.pending());
    }
  }

  private tell(text: string | undefined): void {
    if (text !== undefined) {
      this.port.post(JSON.parse(text));
      this.later();
    }
  }
}
