/**
 * The checker for a page: one text, judged as it is typed, and the command's verbs on it.
 *
 * It is the language server in a worker, so findings, fixes, hover and completion are those of an editor.
 */

import type { Client, Ran } from "../worker/client";
import { begin, first } from "./start.js";

/** For what the text is checked; what is empty is found out. */
export interface Circumstances {
  readonly target: string;
  readonly worldSize: number | null;
  readonly consumer: string;
}

/** How a text is read: JSON is Hjson to DeepSpeed, too; a shell script starts a job, and may hold its config. */
export type Format = "json" | "yaml" | "sh";

/** A place: line and UTF-16 unit, from 0. */
export interface Position {
  readonly line: number;
  readonly character: number;
}

export interface Span {
  readonly start: Position;
  readonly end: Position;
}

export interface Finding {
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
  /** The codes of the findings that it ends. */
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
  readonly diagnostics?: readonly Finding[];
  readonly edit?: { readonly changes?: Record<string, readonly TextEdit[]> };
}

/** Milliseconds after which nobody waits for the first findings any more; then the next visit is prepared. */
const REST = 2000;

const NOTHING: Circumstances = { target: "", worldSize: null, consumer: "" };

export class Engine {
  private version = 0;
  private format: Format = "json";
  private text = "";
  private circumstances = NOTHING;

  private constructor(private readonly client: Client) {}

  /** Whether Python began with the memory that the browser kept. */
  get isKept(): boolean {
    return this.client.isKept;
  }

  static async start(): Promise<Engine> {
    const client = await first;
    const engine = new Engine(client);
    if (!client.isKept) {
      setTimeout(() => begin("new").then((made) => made.end()).catch(() => {}), REST);
    }
    const capabilities = { textDocument: { diagnostic: {} }, general: { positionEncodings: ["utf-16"] } };
    await client.request("initialize", {
      capabilities,
      initializationOptions: { commands: "return", watches: true },
    });
    engine.tell("initialized", {});
    return engine;
  }

  /** What is found in a text. */
  async check(text: string, format: Format, circumstances = NOTHING): Promise<readonly Finding[]> {
    this.open(text, format, circumstances);
    const answer = await this.client.request<{ items: readonly Finding[] }>("textDocument/diagnostic", this.here());
    return answer.items;
  }

  /** The fixes for a stretch of the text that was checked last. */
  async fixes(range: Span): Promise<readonly Fix[]> {
    const params = { ...this.here(), range, context: { diagnostics: [], only: ["quickfix"] } };
    const actions = (await this.client.request<readonly CodeAction[] | null>("textDocument/codeAction", params)) ?? [];
    return actions.map(({ title, edit, diagnostics }) => ({
      title,
      edits: edit?.changes?.[this.uri] ?? [],
      codes: (diagnostics ?? []).map(({ code }) => code),
    }));
  }

  /** What is known of a key or value, in Markdown. */
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

  /** Runs a verb of the command on the text that was checked last, in its circumstances. */
  verb(name: "check" | "fix" | "show" | "resolve" | "compat" | "migrate", ...options: string[]): Promise<Ran> {
    const { target, worldSize, consumer } = this.circumstances;
    const takesTarget = name !== "compat" && name !== "migrate";
    const said = [
      ...(takesTarget && target ? ["--target", target] : []),
      ...(worldSize ? ["--world-size", String(worldSize)] : []),
      ...(consumer ? ["--consumer", consumer] : []),
    ];
    return this.client.run([name, ...said, ...options, this.path], "", "/project");
  }

  end(): void {
    this.client.end();
  }

  private open(text: string, format: Format, circumstances: Circumstances): void {
    if (JSON.stringify(circumstances) !== JSON.stringify(this.circumstances)) {
      this.circumstances = circumstances;
      this.tell("workspace/didChangeConfiguration", { settings: { dsconfig: circumstances } });
    }
    if (this.version && format === this.format) {
      if (text !== this.text) {
        const textDocument = { uri: this.uri, version: ++this.version };
        this.tell("textDocument/didChange", { textDocument, contentChanges: [{ text }] });
      }
    } else {
      if (this.version) {
        this.tell("textDocument/didClose", this.here());
      }
      this.format = format;
      const textDocument = { uri: this.uri, languageId: format === "sh" ? "shellscript" : `deepspeed-${format}`, version: ++this.version, text };
      this.tell("textDocument/didOpen", { textDocument });
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

  private tell(method: string, params: unknown): void {
    this.client.send({ jsonrpc: "2.0", method, params });
  }
}
