/** What the status bar offers: a release, a world size or a reader, written to the settings file. */

import { type QuickPickItem, Uri, window, workspace, WorkspaceEdit, Range, type WorkspaceFolder } from "vscode";
import type { Extension } from "./extension";
import { type Circumstances, sizeOf } from "./status";
import { withSetting } from "./toml";

const FILE = "dsconfig.toml";
const READERS = ["deepspeed", "transformers", "accelerate", "lightning", "elastic"];
const RELEASES = __RELEASES__;

export async function choose(extension: Extension): Promise<void> {
  const folder = folderOf();
  if (!folder) {
    window.showInformationMessage("Open a folder first: the choice is kept in its dsconfig.toml.");
    return;
  }
  const [key, value] = (await asked(extension.status.told)) ?? [];
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

/** A key of the settings file and its value in TOML; an empty value takes the key out. */
async function asked(now: Circumstances | null): Promise<[string, string] | undefined> {
  const what = await window.showQuickPick(
    [
      { label: "Release", description: now ? `${now.target} (${now.targetOrigin})` : "" },
      { label: "World size", description: now ? sizeOf(now) : "" },
      { label: "Reader", description: now ? `${now.reader} (${now.readerWhy})` : "" },
    ],
    { title: "Check for which …?" },
  );
  switch (what?.label) {
    case "Release": {
      const release = await among("Release, or a range such as >=0.14,<0.19.8", RELEASES);
      return release === undefined ? undefined : ["target", release && JSON.stringify(release)];
    }
    case "World size": {
      const size = await window.showInputBox({
        title: "Number of GPUs",
        prompt: "Empty: only what fails at every number is an error",
        validateInput: (text) => (/^([1-9]\d{0,8})?$/.test(text) ? undefined : "a whole number above 0"),
      });
      return size === undefined ? undefined : ["world-size", size];
    }
    case "Reader": {
      const reader = await among("Who reads the config", READERS);
      return reader === undefined ? undefined : ["consumer", reader && JSON.stringify(reader)];
    }
    default:
      return undefined;
  }
}

/** One of several values, or what is typed instead; "": none, the key is taken out. */
async function among(title: string, values: readonly string[]): Promise<string | undefined> {
  const none: QuickPickItem = { label: "Found out", description: "say nothing of it in the settings file" };
  const chosen = await picked(title, [none, ...values.map((label) => ({ label }))]);
  return chosen === none ? "" : chosen?.label;
}

/** One of several items, or an item of what is typed instead. */
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
  const isThere = await Promise.resolve(workspace.fs.stat(file)).then(
    () => true,
    () => false,
  );
  if (!isThere) {
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
