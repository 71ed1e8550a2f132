/** Menu of the status bar: writes a release, world size or consumer to the settings file. */

import { type QuickPickItem, Uri, window, workspace, WorkspaceEdit, Range, type WorkspaceFolder } from "vscode";
import type { Extension } from "./extension";
import { type StatusInfo, sizeOf } from "./status";
import { withSetting } from "./toml";

const FILE = "dsconfig.toml";
const CONSUMERS = ["deepspeed", "transformers", "accelerate", "lightning", "elastic"];
const RELEASES = __RELEASES__;

export async function choose(extension: Extension): Promise<void> {
  const folder = folderOf();
  if (!folder) {
    window.showInformationMessage("Open a folder first: the choice is saved in its dsconfig.toml.");
    return;
  }
  const [key, value] = (await askSetting(extension.status.shown)) ?? [];
  if (key && value !== undefined) {
    const file = Uri.joinPath(folder.uri, FILE);
    await write(file, key, value);
    await extension.changed(file);
  }
}

function folderOf(): WorkspaceFolder | undefined {
  const active = window.activeTextEditor?.document.uri;
  return (active && workspace.getWorkspaceFolder(active)) ?? workspace.workspaceFolders?.[0];
}

/** Key of the settings file and its value in TOML; an empty value removes the key. */
async function askSetting(now: StatusInfo | null): Promise<[string, string] | undefined> {
  const what = await window.showQuickPick(
    [
      { label: "Release", description: now ? `${now.target} (${now.targetOrigin})` : "" },
      { label: "World size", description: now ? sizeOf(now) : "" },
      { label: "Consumer", description: now ? `${now.reader} (${now.readerWhy})` : "" },
    ],
    { title: "Setting to change" },
  );
  switch (what?.label) {
    case "Release": {
      const release = await among("Release, or a range such as >=0.14,<0.19.8", RELEASES);
      return release === undefined ? undefined : ["target", release && JSON.stringify(release)];
    }
    case "World size": {
      const size = await window.showInputBox({
        title: "Number of GPUs",
        prompt: "Empty: only problems at every number of GPUs are errors",
        validateInput: (text) => (/^([1-9]\d{0,8})?$/.test(text) ? undefined : "expected a whole number above 0"),
      });
      return size === undefined ? undefined : ["world-size", size];
    }
    case "Consumer": {
      const consumer = await among("Library that loads the config", CONSUMERS);
      return consumer === undefined ? undefined : ["consumer", consumer && JSON.stringify(consumer)];
    }
    default:
      return undefined;
  }
}

/** One of several values or a typed one; "" to remove the key. */
async function among(title: string, values: readonly string[]): Promise<string | undefined> {
  const none: QuickPickItem = { label: "Auto-detect", description: "remove it from the settings file" };
  const chosen = await picked(title, [none, ...values.map((label) => ({ label }))]);
  return chosen === none ? "" : chosen?.label;
}

/** One of several items, or an item with the typed text. */
export function picked<Item extends QuickPickItem>(
  title: string,
  items: readonly Item[],
): Promise<Item | QuickPickItem | undefined> {
  const pick = window.createQuickPick();
  Object.assign(pick, { title, items });
  pick.onDidChangeValue((typed) => {
    const isNew = typed && !items.some(({ label }) => label.startsWith(typed));
    pick.items = isNew ? [{ label: typed, alwaysShow: true }, ...items] : items;
  });
  return new Promise((resolve) => {
    pick.onDidAccept(() => {
      resolve(pick.selectedItems[0]);
      pick.hide();
    });
    pick.onDidHide(() => {
      resolve(undefined);
      pick.dispose();
    });
    pick.show();
  });
}

async function write(file: Uri, key: string, value: string): Promise<void> {
  const edit = new WorkspaceEdit();
  const exists = await Promise.resolve(workspace.fs.stat(file)).then(
    () => true,
    () => false,
  );
  if (!exists) {
    edit.createFile(file, { contents: new TextEncoder().encode(withSetting("", key, value)) });
    await workspace.applyEdit(edit);
    return;
  }
  const document = await workspace.openTextDocument(file);
  const all = document.validateRange(new Range(0, 0, document.lineCount, 0));
  edit.replace(file, all, withSetting(document.getText(), key, value));
  await workspace.applyEdit(edit);
  await document.save();
}
