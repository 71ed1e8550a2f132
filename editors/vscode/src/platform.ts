/** What differs between VS Code on a desktop and in a browser. */

import type { LanguageClientOptions } from "vscode-languageclient";
import type { BaseLanguageClient } from "vscode-languageclient/browser";
import type { Uri } from "vscode";
import type { Client, Ran } from "../../worker/client";

export interface Platform {
  /** Starts the worker from the files below a folder of the extension. */
  startWorker(dist: Uri): Promise<Client>;
  /** A client of the workspace's own dsconfig; undefined where it has none, or none can be run,
   * and the log says why. */
  ownServer(options: LanguageClientOptions, log: (why: string) => void): Promise<BaseLanguageClient | undefined>;
  /** Runs the command of the workspace's own dsconfig. */
  runOwn(args: readonly string[], folder: Uri): Promise<Ran>;
}
