/**
 * Checker of a page: one document that is checked while typing, and commands on it.
 *
 * It uses the language server in a worker, so diagnostics, fixes, hover and completion are the same as in an editor.
 */

import type { Client, CommandOutput } from "../worker/client";
import { begin } from "./start";

/** Target, world size and consumer of the check; empty values are auto-detected. */
export interface JobOptions {
  readonly target: string;
  readonly worldSize: number | null;
  readonly consumer: string;
}

/** Format of a document. DeepSpeed reads JSON as Hjson; a shell script starts a job and may embed its config. */
export type Format = "json" | "yaml" | "sh";

/** Line and UTF-16 code unit, from 0. */
export interface Position {
  readonly line: number;
  readonly character: number;
}

export interface Span {
  readonly start: Position;
  readonly end: Position;
}

export interface LspDiagnostic {
  readonly range: Span;
  /** 1: error, 2: warning, 3: info. */
  readonly severity: 1 | 2 | 3;
  readonly code: string;
  readonly codeDescription: { readonly href: string };
  readonly message: string;
  readonly data: { readonly name: string; readonly effect: string };
}

export interface TextEdit {
  readonly range: Span;
  readonly newText: string;
}

export interface Fix {
  readonly title: string;
  readonly edits: readonly TextEdit[];
  /** Codes of the diagnostics that it fixes. */
  readonly codes: readonly string[];
}

export interface Completion {
  readonly label: string;
  readonly detail?: string;
  readonly documentation?: { readonly value: string };
  readonly insertText?: string;
  readonly textEdit?: TextEdit;
}

interface CodeAction {
  readonly title: string;
  readonly kind?: string;
  readonly diagnostics?: readonly LspDiagnostic[];
  readonly edit?: { readonly changes?: Record<string, readonly TextEdit[]> };
}

/** Milliseconds after which the first check is done, and a snapshot for the next visit is created. */
const REST = 2000;

const DEFAULTS: JobOptions = { target: "", worldSize: null, consumer: "" };

/** Answers about the document that was checked last. */
export interface Answers {
  /** Diagnostics of a document. */
  check(text: string, format: Format, jobOptions?: JobOptions): Promise<readonly LspDiagnostic[]>;
  /** Fixes for a range. */
  fixes(range: Span): Promise<readonly Fix[]>;
  /** Output of a command, with the options of the check. */
  command(name: Command, ...options: string[]): Promise<CommandOutput>;
}

export type Command = "check" | "fix" | "show" | "resolve" | "compat" | "migrate";

export class Engine implements Answers {
  private version = 0;
  private format: Format = "json";
  private text = "";
  private jobOptions = DEFAULTS;

  private constructor(private readonly client: Client) {}

  /** Whether Python began with the memory that the browser kept. */
  get fromSnapshot(): boolean {
    return this.client.fromSnapshot;
  }

  static async start(): Promise<Engine> {
    const client = await begin("kept");
    const engine = new Engine(client);
    if (!client.fromSnapshot) {
      setTimeout(() => begin("new").then((other) => other.end()).catch(() => {}), REST);
    }
    const capabilities = { textDocument: { diagnostic: {} }, general: { positionEncodings: ["utf-16"] } };
    await client.request("initialize", {
      capabilities,
      initializationOptions: { commands: "return", watches: true },
    });
    engine.notify("initialized", {});
    return engine;
  }

  async check(text: string, format: Format, jobOptions = DEFAULTS): Promise<readonly LspDiagnostic[]> {
    this.open(text, format, jobOptions);
    const answer = await this.client.request<{ items: readonly LspDiagnostic[] }>("textDocument/diagnostic", this.here());
    return answer.items;
  }

  async fixes(range: Span): Promise<readonly Fix[]> {
    const params = { ...this.here(), range, context: { diagnostics: [], only: ["quickfix"] } };
    const actions = (await this.client.request<readonly CodeAction[] | null>("textDocument/codeAction", params)) ?? [];
    return actions.map(({ title, edit, diagnostics }) => ({
      title,
      edits: edit?.changes?.[this.uri] ?? [],
      codes: (diagnostics ?? []).map(({ code }) => code),
    }));
  }

  /** Documentation of a key or value, in Markdown. */
  async hover(position: Position): Promise<string | undefined> {
    type Hover = { contents: { value: string } } | null;
    const found = await this.client.request<Hover>("textDocument/hover", { ...this.here(), position });
    return found?.contents.value;
  }

  async completions(position: Position): Promise<readonly Completion[]> {
    type List = { items: readonly Completion[] } | readonly Completion[] | null;
    const found = await this.client.request<List>("textDocument/completion", { ...this.here(), position });
    return found ? ("items" in found ? found.items : found) : [];
  }

  command(name: Command, ...options: string[]): Promise<CommandOutput> {
    const { target, worldSize, consumer } = this.jobOptions;
    const takesTarget = name !== "compat" && name !== "migrate";
    const job = [
      ...(takesTarget && target ? ["--target", target] : []),
      ...(worldSize ? ["--world-size", String(worldSize)] : []),
      ...(consumer ? ["--consumer", consumer] : []),
    ];
    return this.client.run([name, ...job, ...options, this.path], "", "/project");
  }

  end(): void {
    this.client.end();
  }

  private open(text: string, format: Format, jobOptions: JobOptions): void {
    if (JSON.stringify(jobOptions) !== JSON.stringify(this.jobOptions)) {
      this.jobOptions = jobOptions;
      this.notify("workspace/didChangeConfiguration", { settings: { dsconfig: jobOptions } });
    }
    if (this.version && format === this.format) {
      if (text !== this.text) {
        const textDocument = { uri: this.uri, version: ++this.version };
        this.notify("textDocument/didChange", { textDocument, contentChanges: [{ text }] });
      }
    } else {
      if (this.version) {
        this.notify("textDocument/didClose", this.here());
      }
      this.format = format;
      const textDocument = { uri: this.uri, languageId: format === "sh" ? "shellscript" : `deepspeed-${format}`, version: ++this.version, text };
      this.notify("textDocument/didOpen", { textDocument });
    }
    this.text = text;
    this.client.mirror({ write: [{ path: this.path, content: text }] });
  }

  private get path(): string {
    return this.format === "sh" ? "/project/train.sh" : `/project/ds_config.${this.format}`;
  }

  private get uri(): string {
    return `file://${this.path}`;
  }

  private here(): { textDocument: { uri: string } } {
    return { textDocument: { uri: this.uri } };
  }

  private notify(method: string, params: unknown): void {
    this.client.send({ jsonrpc: "2.0", method, params });
  }
}
