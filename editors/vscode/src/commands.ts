/** Commands of the palette. */

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

/** Result of a server command (`dsconfig/lsp/execute_command.py`). */
interface CommandResult {
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
      return size && showCommand(extension, "dsconfig.resolve", size);
    }),
    register("dsconfig.showValues", () => showCommand(extension, "dsconfig.show")),
    register("dsconfig.showReleases", () => showCommand(extension, "dsconfig.compat")),
    register("dsconfig.planMemory", async () => {
      const model = await askModel(extension);
      const size = model && (await askSize());
      return size && showCommand(extension, "dsconfig.memory", size, model);
    }),
    register("dsconfig.choose", () => choose(extension)),
    register("dsconfig.restart", () => extension.restart()),
  ];
}

/** Arguments of a code lens command: memory needs a model, which the user is asked for if it is unknown. */
export async function withModel(extension: Extension, command: string, args: unknown[]): Promise<unknown[] | undefined> {
  if (command !== "dsconfig.memory" || args.length > 2) {
    return args;
  }
  const model = await askModel(extension);
  return model ? [...args, model] : undefined;
}

/** Shows a result next to the config. */
export async function showResult({ title, text, language }: CommandResult): Promise<void> {
  const uri = Uri.from({ scheme: SCHEME, path: `/${title}` });
  texts.set(uri.toString(), text);
  const document = await workspace.openTextDocument(uri);
  const known = await languages.getLanguages();
  if (known.includes(language)) {
    await languages.setTextDocumentLanguage(document, language);
  }
  await window.showTextDocument(document, { viewColumn: ViewColumn.Beside, preview: true, preserveFocus: true });
}

async function showCommand(extension: Extension, command: string, ...args: unknown[]): Promise<void> {
  const result = await executeCommand(extension, command, ...args);
  if (result) {
    await showResult(result);
  }
}

async function executeCommand(extension: Extension, command: string, ...args: unknown[]): Promise<CommandResult | undefined> {
  const document = window.activeTextEditor?.document;
  await extension.ready();
  if (!extension.client || !document) {
    return undefined;
  }
  const uri = extension.client.code2ProtocolConverter.asUri(document.uri);
  const params = { command, arguments: [uri, ...args] };
  try {
    return await extension.client.sendRequest<CommandResult>("workspace/executeCommand", params);
  } catch (error) {
    window.showWarningMessage(error instanceof Error ? error.message : String(error));
    return undefined;
  }
}

async function fix(extension: Extension): Promise<void> {
  const document = window.activeTextEditor?.document;
  const result = await executeCommand(extension, "dsconfig.fix");
  if (!document || !result) {
    return;
  }
  if (result.text !== document.getText()) {
    const edit = new WorkspaceEdit();
    edit.replace(document.uri, whole(document), result.text);
    await workspace.applyEdit(edit);
  }
  window.setStatusBarMessage(`DeepSpeed Config: ${result.title}`, 5000);
}

function whole(document: TextDocument): Range {
  return document.validateRange(new Range(0, 0, document.lineCount, 0));
}

async function askSize(): Promise<number | undefined> {
  const input = await window.showInputBox({
    title: "Number of GPUs",
    value: String(workspace.getConfiguration("dsconfig").get<number>("worldSize") ?? 8),
    validateInput: (text) => (/^[1-9]\d{0,8}$/.test(text) ? undefined : "expected a whole number above 0"),
  });
  return input === undefined ? undefined : Number(input);
}
