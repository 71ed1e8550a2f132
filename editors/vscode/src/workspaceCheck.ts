/** Checks every config of the workspace, open or not, with the command line. */

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
import type { CommandOutput } from "../../worker/client";
import { pathOf } from "./addresses";
import type { Extension } from "./extension";

/** Diagnostic in the JSON output of the command. */
interface JsonDiagnostic {
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
  readonly files: readonly { readonly path: string; readonly diagnostics: readonly JsonDiagnostic[] }[];
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
    let problems = 0;
    for (const folder of workspace.workspaceFolders ?? []) {
      const { code, stdout, stderr } = await this.checked(folder);
      if (!stdout) {
        window.showErrorMessage(`${folder.name}: ${stderr.trim() || `exit code ${code}`}`);
        continue;
      }
      for (const { path, diagnostics } of (JSON.parse(stdout) as Report).files) {
        files += 1;
        problems += diagnostics.length;
        await this.show(Uri.joinPath(folder.uri, path), diagnostics);
      }
    }
    window.showInformationMessage(`${count(problems, "problem")} in ${count(files, "config")}`);
    if (problems) {
      await commands.executeCommand("workbench.actions.view.problems");
    }
  }

  private async checked(folder: WorkspaceFolder): Promise<CommandOutput> {
    const args = ["check", "--output-format", "json", "--quiet", ...settings(), "."];
    const { bundled } = this.extension;
    if (!bundled) {
      return this.extension.runOwn(args, folder.uri);
    }
    await this.extension.mirrored;
    return bundled.python.run(args, "", pathOf(folder.uri));
  }

  /** Skips open documents, whose diagnostics come from the server. */
  private async show(uri: Uri, found: readonly JsonDiagnostic[]): Promise<void> {
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

function diagnostic(document: TextDocument, found: JsonDiagnostic): Diagnostic {
  const text = found.help ? `${found.message}\nhelp: ${found.help}` : found.message;
  const result = new Diagnostic(range(document, found), text, SEVERITIES[found.severity]);
  result.source = "dsconfig";
  result.code = { value: found.code, target: Uri.parse(found.url) };
  result.tags = [
    ...(found.effect === "ignored" ? [DiagnosticTag.Unnecessary] : []),
    ...(found.effect === "deprecated" ? [DiagnosticTag.Deprecated] : []),
  ];
  return result;
}

/** Converts columns of the command (code points) to those of the editor (UTF-16). */
function range(document: TextDocument, found: JsonDiagnostic): Range {
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
