/** Client of a worker: requests with responses, and messages of the server. */

import type { Message, Mirror, Start, Started } from "./messages";
import { MIRROR } from "./messages";

/** `Worker` of a browser, or a Node thread with the same interface. */
export interface Transport {
  postMessage(message: unknown): void;
  terminate(): void;
  onmessage: ((event: { data: Started | Message }) => void) | null;
  onerror: ((event: { message: string }) => void) | null;
}

/** Output of the command, and its exit code. */
export interface CommandOutput {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface Waiting {
  resolve(result: unknown): void;
  reject(reason: Error): void;
}

export class Client {
  /** Called for messages that are not responses: those of the language server. */
  onMessage: (message: Message) => void = () => {};
  /** Called with the reason if the worker ends by itself. */
  onEnd: (reason: Error) => void = () => {};
  private last = 0;
  private readonly waiting = new Map<string, Waiting>();

  private constructor(
    private readonly transport: Transport,
    /** Whether Python started from the snapshot in the browser's cache. */
    readonly fromSnapshot: boolean,
  ) {}

  /** Starts Python in a worker. */
  static async start(transport: Transport, parts: Start): Promise<Client> {
    const fromSnapshot = await new Promise<boolean>((resolve, reject) => {
      transport.onerror = ({ message }) => reject(new Error(message));
      transport.onmessage = ({ data }) => {
        if ("ready" in data) {
          data.ready ? resolve(data.fromSnapshot) : reject(new Error(data.reason));
        }
      };
      transport.postMessage(parts);
    });
    const client = new Client(transport, fromSnapshot);
    transport.onmessage = ({ data }) => client.receive(data as Message);
    transport.onerror = ({ message }) => {
      client.fail(new Error(message));
      client.onEnd(new Error(message));
    };
    return client;
  }

  /** Sends a message unchanged; responses go to `onMessage`. */
  send(message: Message): void {
    this.transport.postMessage(message);
  }

  request<Result>(method: string, params: unknown): Promise<Result> {
    const id = `dsconfig-${++this.last}`;
    return new Promise<Result>((resolve, reject) => {
      this.waiting.set(id, { resolve: resolve as Waiting["resolve"], reject });
      this.send({ jsonrpc: "2.0", id, method, params });
    });
  }

  /** Runs the command line. */
  run(args: readonly string[], stdin = "", folder = "/"): Promise<CommandOutput> {
    return this.request("dsconfig/run", { arguments: args, stdin, folder });
  }

  mirror(files: Partial<Mirror>): void {
    this.send({ jsonrpc: "2.0", method: MIRROR, params: { write: [], remove: [], ...files } });
  }

  end(): void {
    this.transport.terminate();
    this.fail(new Error("the worker has ended"));
  }

  private receive(message: Message): void {
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
