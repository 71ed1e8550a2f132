/** Copies files of the workspace to the worker: configs, and files that may name their consumer. */

import { type Disposable, FileType, RelativePattern, Uri, workspace } from "vscode";
import type { Client } from "../../worker/client";
import { pathOf, toWorker } from "./addresses";

const FILES = "**/{*.{toml,json,jsonc,hjson,yaml,yml,sh,bash,slurm,sbatch,py,ipynb,md,mk,txt},Makefile}";
const EXCLUDED = "**/{node_modules,__pycache__,site-packages,.venv,venv,wandb,checkpoints}/**";
const MOST = 4000;
const LARGEST = 256 * 1024;
const CREATED = 1;
const CHANGED = 2;
const DELETED = 3;

export class Mirror implements Disposable {
  private readonly watchers: Disposable[] = [];

  constructor(
    private readonly client: Client,
    private readonly notify: (method: string, params: unknown) => void,
  ) {}

  /** Marks the folders that are repositories, which limit the worker's search around a config. */
  async roots(): Promise<void> {
    for (const { uri } of workspace.workspaceFolders ?? []) {
      if (await exists(Uri.joinPath(uri, ".git"))) {
        this.client.mirror({ write: [{ path: `${pathOf(uri)}/.git/HEAD`, content: "" }] });
      }
    }
  }

  /** Copies existing files, and changes from now on. */
  async fill(): Promise<void> {
    // Watchers may take a second to report saved documents.
    this.watchers.push(workspace.onDidSaveTextDocument(({ uri }) => this.copied([uri], CHANGED)));
    for (const folder of workspace.workspaceFolders ?? []) {
      const watcher = workspace.createFileSystemWatcher(new RelativePattern(folder, FILES));
      watcher.onDidCreate((uri) => this.copied([uri], CREATED));
      watcher.onDidChange((uri) => this.copied([uri], CHANGED));
      watcher.onDidDelete((uri) => this.removed(uri));
      this.watchers.push(watcher);
    }
    await this.copied(await workspace.findFiles(FILES, EXCLUDED, MOST), CREATED);
  }

  /** Copies a file that was written here, which watchers report late or never. */
  changed(uri: Uri): Promise<void> {
    return this.copied([uri], CHANGED);
  }

  dispose(): void {
    for (const watcher of this.watchers) {
      watcher.dispose();
    }
  }

  private async copied(uris: readonly Uri[], type: number): Promise<void> {
    const write = (await Promise.all(uris.map(read))).filter((file) => file !== undefined);
    if (write.length) {
      this.client.mirror({ write });
      this.report(uris, type);
    }
  }

  private removed(uri: Uri): void {
    this.client.mirror({ remove: [pathOf(uri)] });
    this.report([uri], DELETED);
  }

  private report(uris: readonly Uri[], type: number): void {
    const changes = uris.map((uri) => ({ uri: toWorker(uri), type }));
    this.notify("workspace/didChangeWatchedFiles", { changes });
  }
}

async function exists(uri: Uri): Promise<boolean> {
  return Promise.resolve(workspace.fs.stat(uri)).then(
    () => true,
    () => false,
  );
}

async function read(uri: Uri): Promise<{ path: string; content: Uint8Array } | undefined> {
  try {
    const { size, type } = await workspace.fs.stat(uri);
    const isWanted = size <= LARGEST && (type & FileType.File) !== 0;
    return isWanted ? { path: pathOf(uri), content: await workspace.fs.readFile(uri) } : undefined;
  } catch {
    return undefined; // removed in the meantime, or not readable
  }
}
