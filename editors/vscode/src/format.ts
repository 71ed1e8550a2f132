/** Formats configs as VS Code formats JSON, whose own formatter knows no other language id. */

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

/** The changes of white space; none where the text is no JSON with comments, but Hjson, or half written. */
function formatted(document: TextDocument, range: Range, options: FormattingOptions): TextEdit[] {
  const text = document.getText();
  const own = workspace.getConfiguration("json.format", document);
  if (own.get("enable") === false || !isJson(text)) {
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
      keepLines: own.get("keepLines") === true,
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
