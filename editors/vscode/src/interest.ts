/** Documents for which the server starts: it decides precisely, but takes a second of CPU time to start. */

import { Disposable, type TextDocument, workspace } from "vscode";

/** Languages of configs and launch files. */
export const LANGUAGES = ["deepspeed-json", "json", "jsonc", "hjson", "yaml", "shellscript", "python"];
const OWN = "deepspeed-json";
/** Names of configs (`dsconfig/lsp/relevant_documents.py`), and words that configs and launch files contain. */
const NAMES = new RegExp(__NAMES__, "i");
const WORDS = new RegExp(__WORDS__, "i");
/** Words of Python sources with configs; `optimizer` alone is in every training script. */
const PROGRAM_WORDS = /deepspeed|zero_optimization|train_(micro_)?batch_size/i;
/** Schemes of documents that are not files, such as the other side of a diff, or output. */
const VIEWS = new Set(["git", "output", "vscode", "vscode-scm", "search-editor", "dsconfig"]);

/** Whether a document is sent to the server. */
export function isFile(document: TextDocument): boolean {
  return !VIEWS.has(document.uri.scheme);
}

/** Calls back once for the first open or edited document that may be a config or launch file. */
export function whenWanted(callback: (document: TextDocument) => void): Disposable {
  const look = (document: TextDocument): boolean => {
    const isWanted = mayConcern(document);
    if (isWanted) {
      listeners.dispose();
      callback(document);
    }
    return isWanted;
  };
  const listeners = Disposable.from(
    workspace.onDidOpenTextDocument(look),
    workspace.onDidChangeTextDocument(({ document }) => look(document)),
  );
  workspace.textDocuments.some(look);
  return listeners;
}

function mayConcern(document: TextDocument): boolean {
  if (!LANGUAGES.includes(document.languageId) || !isFile(document)) {
    return false;
  }
  if (document.languageId === "python") {
    return PROGRAM_WORDS.test(document.getText());
  }
  const name = document.uri.path.split("/").pop() ?? "";
  return document.languageId === OWN || NAMES.test(name) || WORDS.test(document.getText());
}
