/** Extension on a desktop or for a remote workspace, in Node. */

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type ExtensionContext, extensions, workspace } from "vscode";
import { startThread } from "../../worker/thread";
import { Extension } from "./extension";
import type { Platform } from "./platform";

const platform: Platform = {
  startWorker: (dist) => startThread(dist.fsPath),
  async ownServer(options, log) {
    if (!workspace.isTrusted) {
      return undefined;
    }
    for (const command of await pythons()) {
      const error = await serverError(command);
      if (error === undefined) {
        own = command;
        const { LanguageClient } = await import("vscode-languageclient/node");
        const run = { command, args: [...RUN, "lsp"] };
        return new LanguageClient("dsconfig", "DeepSpeed Config", run, options);
      }
      log(`${command} cannot run the server: ${error}`);
    }
    return undefined;
  },
  runOwn: (args, folder) =>
    new Promise((resolve) => {
      const options = { cwd: folder.fsPath, maxBuffer: 1 << 30 };
      execFile(own, [...RUN, ...args], options, (error, stdout, stderr) =>
        resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
      );
    }),
};

/** Removes the working directory from the import path: a workspace may have a `json.py`. */
const CLEAN_PATH = "import sys; sys.path = [each for each in sys.path if each]; ";
const RUN = ["-c", `${CLEAN_PATH}import runpy; runpy.run_module('dsconfig', run_name='__main__')`];
const PATIENCE = 60_000;

/** Python whose dsconfig runs the server. */
let own = "python3";

/** Pythons of the workspace: the configured one, or the candidates. */
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

/** Python that is selected in Microsoft's Python extension, if installed. */
async function chosenPython(): Promise<string | undefined> {
  const python = extensions.getExtension<PythonExtension>("ms-python.python");
  const { environments } = (await python?.activate()) ?? {};
  const path = environments?.getActiveEnvironmentPath().path;
  return path && existsSync(path) ? path : undefined;
}

/** Why a Python cannot run the server; undefined if it can. */
function serverError(command: string): Promise<string | undefined> {
  const script = `${CLEAN_PATH}import dsconfig.lsp.stdio_server`;
  return new Promise((resolve) => {
    execFile(command, ["-c", script], { timeout: PATIENCE }, (error, _, stderr) =>
      resolve(error ? stderr.trim().split("\n").pop() || error.message : undefined),
    );
  });
}

let extension: Extension | undefined;

export function activate(context: ExtensionContext): void {
  extension = new Extension(context, platform);
}

export async function deactivate(): Promise<void> {
  await extension?.stop();
}
