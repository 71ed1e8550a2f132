/** The status bar: for which release, how many GPUs and which reader the config in the editor is checked. */

import { commands, type Disposable, type StatusBarItem, StatusBarAlignment, window, workspace } from "vscode";
import type { BaseLanguageClient } from "vscode-languageclient/browser";

/** The server's answer to `dsconfig/status`; null: the document is no config. */
export interface Circumstances {
  readonly target: string;
  readonly targetOrigin: string;
  readonly worldSize: number | null;
  readonly reader: string;
  readonly readerWhy: string;
  /** The model that somebody names; null: nobody does. */
  readonly model: string | null;
}

const QUIET = 300;

export class Status implements Disposable {
  /** What is shown; null: the document is no config. */
  told: Circumstances | null = null;
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

  /** Asks again once nothing has changed for a moment. */
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
    const told = await client.sendRequest<Circumstances | null>("dsconfig/status", { textDocument: { uri } });
    return this.show(document === window.activeTextEditor?.document ? told : null);
  }

  private async show(told: Circumstances | null): Promise<void> {
    this.told = told;
    await commands.executeCommand("setContext", "dsconfig.isConfig", told !== null);
    if (!told) {
      return this.item.hide();
    }
    this.item.text = `DeepSpeed ${told.target} · ${sizeOf(told)} · ${told.reader}`;
    this.item.tooltip = `Release: ${told.targetOrigin}\nReader: ${told.readerWhy}\n\nClick to change`;
    this.item.show();
  }
}

/** The world size in words. */
export function sizeOf({ worldSize }: Circumstances): string {
  return worldSize === null ? "any world size" : `${worldSize} GPU${worldSize === 1 ? "" : "s"}`;
}
