/**
 * Worker: starts Python, and passes messages between it and the client.
 *
 * Notifications are handled at once, requests only when no more messages wait. So of ten keystrokes in a row only the
 * last is checked, and a cancelled request is not answered.
 */

import { forget } from "./memory";
import { MIRROR, type Message, type Mirror, type Start, type Started } from "./messages";
import { type Python, start } from "./python";

/** Connection to the client: a page or extension in a browser, or a Node process. */
export interface Port {
  post(message: Started | Message): void;
  listen(listener: (message: Start | Message) => void): void;
}

/** Serves the client until it ends the worker. */
export function serve(port: Port): void {
  let server: Server | undefined;
  port.listen((message) => {
    if (!("wasm" in message)) {
      server?.receive(message);
      return;
    }
    start(message).then(
      (python) => {
        server = new Server(python, port);
        port.post({ ready: true, fromSnapshot: python.fromSnapshot });
      },
      (reason: unknown) => port.post({ ready: false, reason: String(reason) }),
    );
  });
}

/** `LSPErrorCodes.RequestCancelled`. */
const CANCELLED = -32800;

class Server {
  private readonly requests = new Map<Message["id"], Message>();
  private isScheduled = false;

  constructor(
    private readonly python: Python,
    private readonly port: Port,
  ) {}

  receive(message: Message): void {
    if (message.method === MIRROR) {
      this.python.mirror(message.params as Mirror);
    } else if (message.method === "$/cancelRequest") {
      this.cancel((message.params as { id: Message["id"] }).id);
    } else if (message.method === undefined) {
      return; // a response to a request of the server, which does not wait for it
    } else if (message.id !== undefined) {
      this.requests.set(message.id, message);
    } else {
      this.python.take(JSON.stringify(message));
    }
    this.schedule();
  }

  private cancel(id: Message["id"]): void {
    if (this.requests.delete(id)) {
      this.port.post({ jsonrpc: "2.0", id, error: { code: CANCELLED, message: "cancelled" } });
    }
  }

  private schedule(): void {
    if (!this.isScheduled) {
      this.isScheduled = true;
      setTimeout(() => this.attempt());
    }
  }

  /** Python reports its own errors; if even that fails, the snapshot may be broken. */
  private attempt(): void {
    try {
      this.work();
    } catch (error) {
      void forget();
      throw error;
    }
  }

  /** Answers one request, or sends one message of the server. */
  private work(): void {
    this.isScheduled = false;
    const [request] = this.requests.values();
    if (request) {
      this.requests.delete(request.id);
      this.post(this.python.answer(JSON.stringify(request)));
    } else {
      this.post(this.python.pending());
    }
  }

  private post(text: string | undefined): void {
    if (text !== undefined) {
      this.port.post(JSON.parse(text));
      this.schedule();
    }
  }
}
