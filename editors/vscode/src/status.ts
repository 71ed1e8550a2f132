/** Status bar: release, number of GPUs and consumer for which the config in the editor is checked. */

import { commands, type Disposable, type StatusBarItem, StatusBarAlignment, window, workspace } from "vscode";
import type { BaseLanguageClient } from "vscode-languageclient/browser";

/** Response to `dsconfig/status`; null if the document is not a config. */
export interface StatusInfo {
  readonly target: string;
  readonly targetOrigin: string;
  readonly worldSize: number | null;
  readonly reader: string;
  readonly readerWhy: string;
  /** Which version is checked in place of an unknown one; null if the version is known. */
  readonly readerNote: string | null;
  /** Model of the job; null if unknown. */
  readonly model: string | null;
}

const QUIET = 300;

export class Status implements Disposable {
  /** Displayed status; null if the document is not a config. */
  shown: StatusInfo | null = null;
  private readonly item: StatusBarItem = window.createStatusBarItem("dsconfig", StatusBarAlignment.Right, 90);
  private readonly listeners: Disposable[];
  private due: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly client: () => BaseLanguageClient | undefined) {
    this.item.name = "DeepSpeed Config";
    this.item.command = "dsconfig.choose";
    this.listeners = [
      window.onDidChangeActiveTextEditor(() => this.refresh()),
      workspace.onDidChangeTextDocument(() => this.refresh()),
      workspace.onDidSaveTextDocument(() => this.refresh()),
      workspace.onDidChangeConfiguration(() => this.refresh()),
    ];
  }

  /** Requests the status once nothing has changed for a moment. */
  refresh(): void {
    clearTimeout(this.due);
    this.due = setTimeout(() => this.ask().catch(() => this.show(null)), QUIET);
  }

  dispose(): void {
    clearTimeout(this.due);
    for (const each of [this.item, ...this.listeners]) {
      each.dispose();
    }
  }

  private async ask(): Promise<void> {
    const document = window.activeTextEditor?.document;
    const client = this.client();
    if (!document || !client?.isRunning()) {
      return this.show(null);
    }
    const uri = client.code2ProtocolConverter.asUri(document.uri);
    const status = await client.sendRequest<StatusInfo | null>("dsconfig/status", { textDocument: { uri } });
    return this.show(document === window.activeTextEditor?.document ? status : null);
  }

  private async show(status: StatusInfo | null): Promise<void> {
    this.shown = status;
    await commands.executeCommand("setContext", "dsconfig.isConfig", status !== null);
    if (!status) {
      return this.item.hide();
    }
    this.item.text = `DeepSpeed ${status.target} · ${sizeOf(status)} · ${status.reader}`;
    const note = status.readerNote ? `\n${status.readerNote}` : "";
    this.item.tooltip = `Release: ${status.targetOrigin}\nConsumer: ${status.readerWhy}${note}\n\nClick to change`;
    this.item.show();
  }
}

/** World size as text. */
export function sizeOf({ worldSize }: StatusInfo): string {
  return worldSize === null ? "any world size" : `${worldSize} GPU${worldSize === 1 ? "" : "s"}`;
}
