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
  async ownServer(options, log) {
    if (!workspace.isTrusted) {
      return undefined;
    }
    for (const command of await pythons()) {
      const lack = await lacking(command);
      if (lack === undefined) {
        own = command;
        const run = { command, args: [...RUN, "lsp"] };
        return new LanguageClient("dsconfig", "DeepSpeed Config", run, options);
      }
      log(`${command} does not serve: ${lack}`);
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

/** The folder that a command is started in is no place to import from: a workspace may have a `json.py`. */
const ELSEWHERE = "import sys; sys.path = [each for each in sys.path if each]; ";
const RUN = ["-c", `${ELSEWHERE}import runpy; runpy.run_module('dsconfig', run_name='__main__')`];
const PATIENCE = 60_000;

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

/** Why a Python cannot serve; undefined: it has dsconfig with what its language server needs. */
function lacking(command: string): Promise<string | undefined> {
  const asked = `${ELSEWHERE}import dsconfig.lsp.server`;
  return new Promise((resolve) => {
    execFile(command, ["-c", asked], { timeout: PATIENCE }, (error, _, stderr) =>
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
