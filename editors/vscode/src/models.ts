/** Which model memory is planned for: the one that somebody names, those of the workspace, and well-known ones. */

import { type QuickPickItem, window, workspace } from "vscode";
import { pathOf } from "./addresses";
import { picked } from "./choose";
import type { Extension } from "./extension";
import type { Circumstances } from "./status";

const MODELS = __MODELS__;
const FILES = "**/config.json";
const PASSED_OVER = "**/{node_modules,__pycache__,site-packages,.venv,venv,wandb}/**";
const MOST = 50;

interface Offered extends QuickPickItem {
  readonly model: string;
}

/** A model's name, or the path of its file as the server sees it; undefined: none is chosen. */
export async function askModel(extension: Extension): Promise<string | undefined> {
  await extension.ready();
  const named = await namedModel(extension);
  const offered: Offered[] = [
    ...(named ? [{ label: named, description: "named for this config", model: named }] : []),
    ...(await ofWorkspace(extension)),
    ...MODELS.map((label) => ({ label, model: label })),
  ];
  const chosen = await picked("Memory of which model? A name, or the path of its config.json", offered);
  return chosen && ("model" in chosen ? (chosen as Offered).model : chosen.label);
}

async function namedModel({ client }: Extension): Promise<string | null | undefined> {
  const document = window.activeTextEditor?.document;
  if (!client || !document) {
    return undefined;
  }
  const uri = client.code2ProtocolConverter.asUri(document.uri);
  const told = await client.sendRequest<Circumstances | null>("dsconfig/status", { textDocument: { uri } });
  return told?.model;
}

async function ofWorkspace({ bundled }: Extension): Promise<Offered[]> {
  const found = await workspace.findFiles(FILES, PASSED_OVER, MOST);
  return found.map((uri) => ({
    label: workspace.asRelativePath(uri),
    description: "in the workspace",
    model: bundled ? pathOf(uri) : uri.fsPath,
  }));
}
