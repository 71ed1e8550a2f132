/** The extension in a browser. */

import { type ExtensionContext, Uri, workspace } from "vscode";
import { Client, type Wire } from "../../worker/client";
import { Extension } from "./extension";
import type { Platform } from "./platform";

const platform: Platform = {
  /** The worker gets bytes: an extension's files may have addresses that no worker can fetch. */
  async startWorker(dist) {
    const read = (name: string) => workspace.fs.readFile(Uri.joinPath(dist, name));
    const [code, wasm, archive] = await Promise.all(
      ["worker.js", "pyodide.asm.wasm", "python.archive"].map(read),
    );
    const script = URL.createObjectURL(new Blob([code as BlobPart], { type: "text/javascript" }));
    return Client.start(new Worker(script) as Wire, { wasm: wasm as Uint8Array, archive: archive as Uint8Array });
  },
  ownServer: async () => undefined,
  runOwn: () => Promise.reject(new Error("a browser runs no command")),
};

let extension: Extension | undefined;

export function activate(context: ExtensionContext): void {
  extension = new Extension(context, platform);
}

export async function deactivate(): Promise<void> {
  await extension?.stop();
}
