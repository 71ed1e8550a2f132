/** Extension: one server for all workspace folders, and the features besides those of the server. */

import {
  type Disposable,
  type ExtensionContext,
  type LogOutputChannel,
  Uri,
  window,
  workspace,
} from "vscode";
import type { LanguageClientOptions } from "vscode-languageclient";
import type { BaseLanguageClient } from "vscode-languageclient/browser";
import type { CommandOutput } from "../../worker/client";
import type { BundledClient } from "./bundled";
import { registerCommands, showResult, withModel } from "./commands";
import { isFile, LANGUAGES, whenWanted } from "./interest";
import { Mirror } from "./mirror";
import type { Platform } from "./platform";
import { Status } from "./status";

/** Milliseconds within which a server that ended is not restarted again. */
const PATIENCE = 60_000;

export class Extension {
  client: BaseLanguageClient | undefined;
  /** Set if the bundled server is used. */
  bundled: BundledClient | undefined;
  /** Settled once the bundled server has the files of the workspace. */
  mirrored: Promise<void> = Promise.resolve();
  private readonly log: LogOutputChannel;
  readonly status: Status;
  private running: Disposable[] = [];
  /** Settled once the server runs or has failed; undefined if it was not needed yet. */
  private started: Promise<void> | undefined;
  private mirror: Mirror | undefined;
  /** Time at which the bundled server last ended. */
  private endedAt = Number.NEGATIVE_INFINITY;

  constructor(
    readonly context: ExtensionContext,
    private readonly platform: Platform,
  ) {
    this.log = window.createOutputChannel("DeepSpeed Config", { log: true });
    this.status = new Status(() => this.client);
    context.subscriptions.push(this.log, this.status, ...registerCommands(this));
    context.subscriptions.push(
      workspace.onDidChangeConfiguration(async (change) => {
        const isOther = change.affectsConfiguration("dsconfig.server") || change.affectsConfiguration("dsconfig.python");
        if (isOther && this.started) {
          await this.restart();
        }
      }),
      workspace.onDidGrantWorkspaceTrust(() => this.started && this.restart()),
      whenWanted(({ uri }) => {
        this.log.info(`started for ${uri}`);
        return this.ready();
      }),
    );
    if (!this.started) {
      this.log.info("no open document is a config; the server starts with the first one");
    }
  }

  /** Starts the server for the first document that may be a config, or for a command. */
  ready(): Promise<void> {
    this.started ??= this.start();
    return this.started;
  }

  private async start(): Promise<void> {
    const began = Date.now();
    try {
      this.client = (await this.ownServer()) ?? (await this.bundledServer());
      this.log.info(`${this.bundled ? "bundled" : "workspace"} dsconfig started after ${Date.now() - began} ms`);
    } catch (error) {
      this.log.error(String(error));
      window.showErrorMessage(`DeepSpeed Config failed to start: ${error}`);
    }
    this.status.refresh();
  }

  async stop(): Promise<void> {
    for (const each of this.running.splice(0)) {
      each.dispose();
    }
    const { client, bundled } = this;
    this.client = this.bundled = this.mirror = undefined;
    await client?.stop().catch(() => {});
    bundled?.python.end();
  }

  async restart(): Promise<void> {
    await this.stop();
    this.started = this.start();
    await this.started;
  }

  /** Notifies the server of a file that was written here. */
  async changed(file: Uri): Promise<void> {
    const { client, mirror } = this;
    if (mirror) {
      return mirror.changed(file);
    }
    const uri = client?.code2ProtocolConverter.asUri(file);
    await client?.sendNotification("workspace/didChangeWatchedFiles", { changes: [{ uri, type: 2 }] });
  }

  /** Runs the dsconfig of the workspace. */
  runOwn(args: readonly string[], folder: Uri): Promise<CommandOutput> {
    return this.platform.runOwn(args, folder);
  }

  private async ownServer(): Promise<BaseLanguageClient | undefined> {
    const server = workspace.getConfiguration("dsconfig").get<string>("server");
    if (server === "bundled") {
      return undefined;
    }
    const client = await this.platform.ownServer(this.options({}), (why) => this.log.info(why));
    if (!client && server === "workspace") {
      throw new Error("the Python of the workspace has no `deepspeed-config[lsp]` installed");
    }
    try {
      await client?.start();
      return client;
    } catch (error) {
      if (server === "workspace") {
        throw error;
      }
      this.log.warn(`the dsconfig of the workspace failed to start: ${error}`);
      return undefined;
    }
  }

  private async bundledServer(): Promise<BaseLanguageClient> {
    const worker = await this.platform.startWorker(Uri.joinPath(this.context.extensionUri, "dist"));
    worker.onEnd = (reason) => this.again(reason);
    // Evaluated for the first config only: most JSON and Python files that activate the extension are none.
    const { BundledClient } = await import("./bundled");
    const client = new BundledClient(worker, this.options({ watches: true }));
    const mirror = new Mirror(worker, (method, params) => client.sendNotification(method, params));
    await mirror.roots();
    await client.start();
    this.bundled = client;
    this.running.push(mirror);
    this.mirror = mirror;
    this.mirrored = mirror.fill().catch((error: unknown) => this.log.warn(String(error)));
    return client;
  }

  /** Restarts the bundled server, unless it ended shortly before. */
  private async again(reason: Error): Promise<void> {
    this.log.error(`the server has ended: ${reason.message}`);
    const before = this.endedAt;
    this.endedAt = Date.now();
    if (this.endedAt - before > PATIENCE) {
      return this.restart();
    }
    await this.stop();
    window.showErrorMessage(`DeepSpeed Config ended twice: ${reason.message}`);
  }

  private options(more: Record<string, unknown>): LanguageClientOptions {
    const settings = workspace.getConfiguration().get<Record<string, unknown>>("dsconfig") ?? {};
    return {
      documentSelector: LANGUAGES.map((language) => ({ language })),
      initializationOptions: { ...settings, ...more, commands: "return" },
      synchronize: { configurationSection: "dsconfig" },
      outputChannel: this.log,
      middleware: {
        didOpen: async (document, next) => (isFile(document) ? next(document) : undefined),
        // Called again whenever a file that affects a config changes, such as its settings file.
        provideDiagnostics: (document, previous, token, next) => {
          this.status.refresh();
          return next(document, previous, token);
        },
        executeCommand: async (command, args, next) => {
          const complete = await withModel(this, command, args);
          const result = complete && (await next(command, complete));
          return !result || command === "dsconfig.fix" ? result : showResult(result);
        },
      },
    };
  }
}
