/** Models for a memory estimate: the one of the job, those in the workspace, and well-known ones. */

import { type QuickPickItem, window, workspace } from "vscode";
import { pathOf } from "./addresses";
import { picked } from "./choose";
import type { Extension } from "./extension";
import type { StatusInfo } from "./status";

const MODELS = __MODELS__;
const FILES = "**/config.json";
const EXCLUDED = "**/{node_modules,__pycache__,site-packages,.venv,venv,wandb}/**";
const MOST = 50;

interface Offered extends QuickPickItem {
  readonly model: string;
}

/** Name of a model, or the path to its file in the server; undefined if none is chosen. */
export async function askModel(extension: Extension): Promise<string | undefined> {
  await extension.ready();
  const named = await namedModel(extension);
  const offered: Offered[] = [
    ...(named ? [{ label: named, description: "model of this config", model: named }] : []),
    ...(await ofWorkspace(extension)),
    ...MODELS.map((label) => ({ label, model: label })),
  ];
  const chosen = await picked("Model: a name, or the path to its config.json", offered);
  return chosen && ("model" in chosen ? (chosen as Offered).model : chosen.label);
}

async function namedModel({ client }: Extension): Promise<string | null | undefined> {
  const document = window.activeTextEditor?.document;
  if (!client || !document) {
    return undefined;
  }
  const uri = client.code2ProtocolConverter.asUri(document.uri);
  const status = await client.sendRequest<StatusInfo | null>("dsconfig/status", { textDocument: { uri } });
  return status?.model;
}

async function ofWorkspace({ bundled }: Extension): Promise<Offered[]> {
  const found = await workspace.findFiles(FILES, EXCLUDED, MOST);
  return found.map((uri) => ({
    label: workspace.asRelativePath(uri),
    description: "in the workspace",
    model: bundled ? pathOf(uri) : uri.fsPath,
  }));
}
