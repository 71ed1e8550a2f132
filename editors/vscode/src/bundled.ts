/** Language client of the bundled worker. */

import type { LanguageClientOptions, MessageTransports } from "vscode-languageclient";
import {
  AbstractMessageReader,
  AbstractMessageWriter,
  type DataCallback,
  LanguageClient,
  type Message,
} from "vscode-languageclient/browser";
import type { Client } from "../../worker/client";
import type { Message as Sent } from "../../worker/messages";
import { fromWorker, toWorker } from "./addresses";

class Reader extends AbstractMessageReader {
  constructor(private readonly worker: Client) {
    super();
  }

  listen(callback: DataCallback): { dispose(): void } {
    this.worker.onMessage = (message) => callback(message as Message);
    return { dispose: () => {} };
  }
}

class Writer extends AbstractMessageWriter {
  constructor(private readonly worker: Client) {
    super();
  }

  /** Converts to JSON first: VS Code's own objects, such as nested settings, cannot be cloned into a worker. */
  async write(message: Message): Promise<void> {
    this.worker.send(JSON.parse(JSON.stringify(message)) as Sent);
  }

  end(): void {}
}

export class BundledClient extends LanguageClient {
  constructor(
    readonly python: Client,
    options: LanguageClientOptions,
  ) {
    const uriConverters = { code2Protocol: toWorker, protocol2Code: fromWorker };
    super("dsconfig", "DeepSpeed Config", { ...options, uriConverters }, undefined as never);
  }

  protected override async createMessageTransports(): Promise<MessageTransports> {
    return { reader: new Reader(this.python), writer: new Writer(this.python) };
  }
}
