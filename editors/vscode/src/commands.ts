/** The commands of the palette. */

import {
  commands,
  type Disposable,
  languages,
  Range,
  type TextDocument,
  Uri,
  ViewColumn,
  window,
  workspace,
  WorkspaceEdit,
} from "vscode";
import { choose } from "./choose";
import type { Extension } from "./extension";
import { registerFormatter } from "./format";
import { askModel } from "./models";
import { WorkspaceCheck } from "./workspaceCheck";

/** What the server tells in answer to a command (`dsconfig/lsp/execute_command.py`). */
interface Told {
  readonly title: string;
  readonly text: string;
  readonly language: string;
}

const SCHEME = "dsconfig";
const texts = new Map<string, string>();

export function registerCommands(extension: Extension): Disposable[] {
  const collection = languages.createDiagnosticCollection("dsconfig workspace");
  const check = new WorkspaceCheck(extension, collection);
  const register = commands.registerCommand;
  return [
    collection,
    registerFormatter(),
    workspace.onDidOpenTextDocument(({ uri }) => collection.delete(uri)),
    workspace.registerTextDocumentContentProvider(SCHEME, {
      provideTextDocumentContent: (uri) => texts.get(uri.toString()) ?? "",
    }),
    register("dsconfig.checkWorkspace", () => check.run()),
    register("dsconfig.fixFile", () => fix(extension)),
    register("dsconfig.resolveAt", async () => {
      const size = await askSize();
      return size && tell(extension, "dsconfig.resolve", size);
    }),
    register("dsconfig.showValues", () => tell(extension, "dsconfig.show")),
    register("dsconfig.showReleases", () => tell(extension, "dsconfig.compat")),
    register("dsconfig.planMemory", async () => {
      const model = await askModel(extension);
      const size = model && (await askSize());
      return size && tell(extension, "dsconfig.memory", size, model);
    }),
    register("dsconfig.choose", () => choose(extension)),
    register("dsconfig.restart", () => extension.restart()),
  ];
}

/** What a lens asks of the server: memory needs a model, which is asked for where nobody names one. */
export async function withModel(extension: Extension, command: string, args: unknown[]): Promise<unknown[] | undefined> {
  if (command !== "dsconfig.memory" || args.length > 2) {
    return args;
  }
  const model = await askModel(extension);
  return model ? [...args, model] : undefined;
}

/** Shows what the server tells beside the config. */
export async function shown({ title, text, language }: Told): Promise<void> {
  const uri = Uri.from({ scheme: SCHEME, path: `/${title}` });
  texts.set(uri.toString(), text);
  const document = await workspace.openTextDocument(uri);
  const known = await languages.getLanguages();
  if (known.includes(language)) {
    await languages.setTextDocumentLanguage(document, language);
  }
  await window.showTextDocument(document, { viewColumn: ViewColumn.Beside, preview: true, preserveFocus: true });
}

async function tell(extension: Extension, command: string, ...args: unknown[]): Promise<void> {
  const told = await asked(extension, command, ...args);
  if (told) {
    await shown(told);
  }
}

async function asked(extension: Extension, command: string, ...args: unknown[]): Promise<Told | undefined> {
  const document = window.activeTextEditor?.document;
  await extension.ready();
  if (!extension.client || !document) {
    return undefined;
  }
  const uri = extension.client.code2ProtocolConverter.asUri(document.uri);
  const params = { command, arguments: [uri, ...args] };
  try {
    return await extension.client.sendRequest<Told>("workspace/executeCommand", params);
  } catch (error) {
    window.showWarningMessage(error instanceof Error ? error.message : String(error));
    return undefined;
  }
}

async function fix(extension: Extension): Promise<void> {
  const document = window.activeTextEditor?.document;
  const told = await asked(extension, "dsconfig.fix");
  if (!document || !told) {
    return;
  }
  if (told.text !== document.getText()) {
    const edit = new WorkspaceEdit();
    edit.replace(document.uri, whole(document), told.text);
    await workspace.applyEdit(edit);
  }
  window.setStatusBarMessage(`DeepSpeed Config: ${told.title}`, 5000);
}

function whole(document: TextDocument): Range {
  return document.validateRange(new Range(0, 0, document.lineCount, 0));
}

async function askSize(): Promise<number | undefined> {
  const said = await window.showInputBox({
    title: "For how many GPUs?",
    value: String(workspace.getConfiguration("dsconfig").get<number>("worldSize") ?? 8),
    validateInput: (text) => (/^[1-9]\d{0,8}$/.test(text) ? undefined : "a whole number above 0"),
  });
  return said === undefined ? undefined : Number(said);
}
