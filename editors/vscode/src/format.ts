/** Formats configs like JSON: VS Code's own formatter only supports its language ids. */

import {
  type Disposable,
  type FormattingOptions,
  languages,
  Range,
  type TextDocument,
  TextEdit,
  workspace,
} from "vscode";
import { type Edit, format, type ParseError, parse } from "jsonc-parser";

const LANGUAGE = "deepspeed-json";

export function registerFormatter(): Disposable {
  return languages.registerDocumentRangeFormattingEditProvider(LANGUAGE, {
    provideDocumentRangeFormattingEdits: (document, range, options) => formatted(document, range, options),
  });
}

/** White space edits; none if the text is not JSON with comments, such as Hjson or incomplete text. */
function formatted(document: TextDocument, range: Range, options: FormattingOptions): TextEdit[] {
  const text = document.getText();
  const settings = workspace.getConfiguration("json.format", document);
  if (settings.get("enable") === false || !isJson(text)) {
    return [];
  }
  const start = document.offsetAt(range.start);
  const edits = format(
    text,
    { offset: start, length: document.offsetAt(range.end) - start },
    {
      tabSize: options.tabSize,
      insertSpaces: options.insertSpaces,
      insertFinalNewline: text.endsWith("\n"),
      keepLines: settings.get("keepLines") === true,
    },
  );
  return edits.map((edit) => textEdit(document, edit));
}

function isJson(text: string): boolean {
  const errors: ParseError[] = [];
  parse(text, errors, { allowTrailingComma: true });
  return errors.length === 0;
}

function textEdit(document: TextDocument, { offset, length, content }: Edit): TextEdit {
  const range = new Range(document.positionAt(offset), document.positionAt(offset + length));
  return TextEdit.replace(range, content);
}
