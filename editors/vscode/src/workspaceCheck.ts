/** Checks every config of the workspace, open or not, as the command does. */

import {
  commands,
  Diagnostic,
  type DiagnosticCollection,
  DiagnosticSeverity,
  DiagnosticTag,
  Range,
  type TextDocument,
  Uri,
  window,
  workspace,
  type WorkspaceFolder,
} from "vscode";
import type { Ran } from "../../worker/client";
import { pathOf } from "./addresses";
import type { Extension } from "./extension";

/** A finding in the command's JSON. */
interface Found {
  readonly code: string;
  readonly effect: string;
  readonly severity: "error" | "warning" | "info";
  readonly message: string;
  readonly help: string | null;
  readonly line: number | null;
  readonly column: number;
  readonly end_line: number;
  readonly end_column: number;
  readonly url: string;
}

interface Report {
  readonly files: readonly { readonly path: string; readonly diagnostics: readonly Found[] }[];
}

const SEVERITIES = {
  error: DiagnosticSeverity.Error,
  warning: DiagnosticSeverity.Warning,
  info: DiagnosticSeverity.Information,
};

export class WorkspaceCheck {
  constructor(
    private readonly extension: Extension,
    private readonly collection: DiagnosticCollection,
  ) {}

  async run(): Promise<void> {
    this.collection.clear();
    await this.extension.ready();
    let files = 0;
    let findings = 0;
    for (const folder of workspace.workspaceFolders ?? []) {
      const { code, stdout, stderr } = await this.checked(folder);
      if (!stdout) {
        window.showErrorMessage(`${folder.name}: ${stderr.trim() || `exit code ${code}`}`);
        continue;
      }
      for (const { path, diagnostics } of (JSON.parse(stdout) as Report).files) {
        files += 1;
        findings += diagnostics.length;
        await this.show(Uri.joinPath(folder.uri, path), diagnostics);
      }
    }
    window.showInformationMessage(`${count(findings, "finding")} in ${count(files, "config")}`);
    if (findings) {
      await commands.executeCommand("workbench.actions.view.problems");
    }
  }

  private async checked(folder: WorkspaceFolder): Promise<Ran> {
    const args = ["check", "--output-format", "json", "--quiet", ...settings(), "."];
    const { bundled } = this.extension;
    if (!bundled) {
      return this.extension.runOwn(args, folder.uri);
    }
    await this.extension.mirrored;
    return bundled.python.run(args, "", pathOf(folder.uri));
  }

  /** Those of open documents are told by the server, as they are now. */
  private async show(uri: Uri, found: readonly Found[]): Promise<void> {
    if (found.length && !workspace.textDocuments.some((open) => open.uri.toString() === uri.toString())) {
      const document = await workspace.openTextDocument(uri);
      this.collection.set(uri, found.map((each) => diagnostic(document, each)));
    }
  }
}

function settings(): string[] {
  const own = workspace.getConfiguration("dsconfig");
  const options = [
    ["--target", own.get<string>("target")],
    ["--world-size", own.get<number | null>("worldSize")],
    ["--consumer", own.get<string>("consumer")],
    ["--model", own.get<string>("model")],
    ["--select", own.get<string[]>("select")?.join(",")],
    ["--ignore", own.get<string[]>("ignore")?.join(",")],
  ];
  return options.flatMap(([name, value]) => (value ? [String(name), String(value)] : []));
}

function diagnostic(document: TextDocument, found: Found): Diagnostic {
  const text = found.help ? `${found.message}\nhelp: ${found.help}` : found.message;
  const made = new Diagnostic(range(document, found), text, SEVERITIES[found.severity]);
  made.source = "dsconfig";
  made.code = { value: found.code, target: Uri.parse(found.url) };
  made.tags = [
    ...(found.effect === "ignored" ? [DiagnosticTag.Unnecessary] : []),
    ...(found.effect === "deprecated" ? [DiagnosticTag.Deprecated] : []),
  ];
  return made;
}

/** Columns of the command count code points, those of the editor UTF-16. */
function range(document: TextDocument, found: Found): Range {
  if (found.line === null) {
    return new Range(0, 0, 0, 1);
  }
  const at = (line: number, column: number): [number, number] => {
    const text = line <= document.lineCount ? document.lineAt(line - 1).text : "";
    return [line - 1, [...text].slice(0, column - 1).join("").length];
  };
  return new Range(...at(found.line, found.column), ...at(found.end_line, found.end_column));
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}
