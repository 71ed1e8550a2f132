/** Differences between VS Code on a desktop and in a browser. */

import type { LanguageClientOptions } from "vscode-languageclient";
import type { BaseLanguageClient } from "vscode-languageclient/browser";
import type { Uri } from "vscode";
import type { Client, CommandOutput } from "../../worker/client";

export interface Platform {
  /** Starts the worker from the files in a directory of the extension. */
  startWorker(dist: Uri): Promise<Client>;
  /** Client of the workspace's own dsconfig; undefined if it has none or cannot run it, with the reason in the log. */
  ownServer(options: LanguageClientOptions, log: (why: string) => void): Promise<BaseLanguageClient | undefined>;
  /** Runs the dsconfig of the workspace. */
  runOwn(args: readonly string[], folder: Uri): Promise<CommandOutput>;
}
