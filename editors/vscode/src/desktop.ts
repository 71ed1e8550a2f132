/** The extension on a desktop, or beside a remote workspace: in Node. */

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type ExtensionContext, extensions, workspace } from "vscode";
import { LanguageClient } from "vscode-languageclient/node";
import { startThread } from "../../worker/thread";
import { Extension } from "./extension";
import type { Platform } from "./platform";

const platform: Platform = {
  startWorker: (dist) => startThread(dist.fsPath),
  async ownServer(options) {
    if (!workspace.isTrusted) {
      return undefined;
    }
    for (const command of await pythons()) {
      if (await serves(command)) {
        own = command;
        const run = { command, args: ["-m", "dsconfig", "lsp"] };
        return new LanguageClient("dsconfig", "DeepSpeed Config", run, options);
      }
    }
    return undefined;
  },
  runOwn: (args, folder) =>
    new Promise((resolve) => {
      const options = { cwd: folder.fsPath, maxBuffer: 1 << 30 };
      execFile(own, ["-m", "dsconfig", ...args], options, (error, stdout, stderr) =>
        resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
      );
    }),
};

/** The Python whose dsconfig serves. */
let own = "python3";

/** The Pythons of the workspace: the one that is named, or those that it may be. */
async function pythons(): Promise<string[]> {
  const named = workspace.getConfiguration("dsconfig").get<string>("python");
  if (named) {
    return [named];
  }
  const chosen = await chosenPython();
  const inside = process.platform === "win32" ? ["Scripts", "python.exe"] : ["bin", "python"];
  const folders = (workspace.workspaceFolders ?? []).map(({ uri }) => uri.fsPath);
  const own = folders.flatMap((folder) => [".venv", "venv"].map((name) => join(folder, name, ...inside)));
  return [...(chosen ? [chosen] : []), ...own.filter((path) => existsSync(path))];
}

interface PythonExtension {
  environments: { getActiveEnvironmentPath(): { path: string } };
}

/** The Python that is chosen in Microsoft's extension, where that is installed. */
async function chosenPython(): Promise<string | undefined> {
  const python = extensions.getExtension<PythonExtension>("ms-python.python");
  const { environments } = (await python?.activate()) ?? {};
  const path = environments?.getActiveEnvironmentPath().path;
  return path && existsSync(path) ? path : undefined;
}

/** Whether a Python has dsconfig with what its language server needs. */
function serves(command: string): Promise<boolean> {
  return new Promise((resolve) => {
    execFile(command, ["-c", "import dsconfig.lsp.server"], { timeout: 20_000 }, (error) => resolve(!error));
  });
}

let extension: Extension | undefined;

export async function activate(context: ExtensionContext): Promise<void> {
  extension = new Extension(context, platform);
  await extension.start();
}

export async function deactivate(): Promise<void> {
  await extension?.stop();
}
