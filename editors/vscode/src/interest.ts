/** Which documents are worth a server: it looks closer, but to start it takes a core for a second. */

import { Disposable, type TextDocument, workspace } from "vscode";

/** Languages in which configs and launch files are written. */
export const LANGUAGES = ["deepspeed-json", "json", "jsonc", "hjson", "yaml", "shellscript"];
const OWN = "deepspeed-json";
/** Names of configs (`dsconfig/lsp/document_filter.py`), and words that one of our texts has (`evaluation/recognition.py`). */
const NAMES = new RegExp(__NAMES__, "i");
const WORDS = new RegExp(__WORDS__, "i");
/** Documents of other kinds are not files: a comparison's other side, a server's output. */
const VIEWS = new Set(["git", "output", "vscode", "vscode-scm", "search-editor", "dsconfig"]);

/** Whether the server is to be told of a document at all. */
export function isFile(document: TextDocument): boolean {
  return !VIEWS.has(document.uri.scheme);
}

/** Calls back once, when a document is open, or typed, that may be a config or lead to one. */
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
  const name = document.uri.path.split("/").pop() ?? "";
  return document.languageId === OWN || NAMES.test(name) || WORDS.test(document.getText());
}
