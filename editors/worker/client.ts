/** A worker as whoever started it sees it: requests that are answered, and messages that come unasked. */

import type { Message, Mirror, Start, Started } from "./messages";
import { MIRROR } from "./messages";

/** A `Worker` of a browser, or a thread of Node made to look like one. */
export interface Wire {
  postMessage(message: unknown): void;
  terminate(): void;
  onmessage: ((event: { data: Started | Message }) => void) | null;
  onerror: ((event: { message: string }) => void) | null;
}

/** What the command wrote, and its exit code. */
export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface Waiting {
  resolve(result: unknown): void;
  reject(reason: Error): void;
}

export class Client {
  /** Gets what nobody here asked for: the language server's messages. */
  onMessage: (message: Message) => void = () => {};
  /** Gets why the worker ended, where nobody ended it. */
  onEnd: (reason: Error) => void = () => {};
  private last = 0;
  private readonly waiting = new Map<string, Waiting>();

  private constructor(
    private readonly wire: Wire,
    /** Whether Python began with the memory that the browser kept. */
    readonly isKept: boolean,
  ) {}

  /** Starts Python in a worker. */
  static async start(wire: Wire, parts: Start): Promise<Client> {
    const isKept = await new Promise<boolean>((resolve, reject) => {
      wire.onerror = ({ message }) => reject(new Error(message));
      wire.onmessage = ({ data }) => {
        if ("ready" in data) {
          data.ready ? resolve(data.isKept) : reject(new Error(data.reason));
        }
      };
      wire.postMessage(parts);
    });
    const client = new Client(wire, isKept);
    wire.onmessage = ({ data }) => client.hear(data as Message);
    wire.onerror = ({ message }) => {
      client.fail(new Error(message));
      client.onEnd(new Error(message));
    };
    return client;
  }

  /** Sends a message as it is; answers to it come to `onMessage`. */
  send(message: Message): void {
    this.wire.postMessage(message);
  }

  request<Result>(method: string, params: unknown): Promise<Result> {
    const id = `dsconfig-${++this.last}`;
    return new Promise<Result>((resolve, reject) => {
      this.waiting.set(id, { resolve: resolve as Waiting["resolve"], reject });
      this.send({ jsonrpc: "2.0", id, method, params });
    });
  }

  /** Runs the command. */
  run(args: readonly string[], stdin = "", folder = "/"): Promise<Ran> {
    return this.request("dsconfig/run", { arguments: args, stdin, folder });
  }

  mirror(files: Partial<Mirror>): void {
    this.send({ jsonrpc: "2.0", method: MIRROR, params: { write: [], remove: [], ...files } });
  }

  end(): void {
    this.wire.terminate();
    this.fail(new Error("the worker has ended"));
  }

  private hear(message: Message): void {
    const waiting = message.method === undefined ? this.waiting.get(String(message.id)) : undefined;
    if (!waiting) {
      this.onMessage(message);
      return;
    }
    this.waiting.delete(String(message.id));
    if (message.error) {
      waiting.reject(new Error(message.error.message));
    } else {
      waiting.resolve(message.result);
    }
  }

  private fail(reason: Error): void {
    for (const { reject } of this.waiting.values()) {
      reject(reason);
    }
    this.waiting.clear();
  }
}
