/** Extension in a browser. */

import { type ExtensionContext, Uri, workspace } from "vscode";
import { Client, type Transport } from "../../worker/client";
import { Extension } from "./extension";
import type { Platform } from "./platform";

const platform: Platform = {
  /** Passes bytes to the worker, which may be unable to fetch the URLs of an extension's files. */
  async startWorker(dist) {
    const read = (name: string) => workspace.fs.readFile(Uri.joinPath(dist, name));
    const [code, wasm, archive] = await Promise.all(
      ["worker.js", "pyodide.asm.wasm", "python.archive"].map(read),
    );
    const script = URL.createObjectURL(new Blob([code as BlobPart], { type: "text/javascript" }));
    return Client.start(new Worker(script) as Transport, { wasm: wasm as Uint8Array, archive: archive as Uint8Array });
  },
  ownServer: async () => undefined,
  runOwn: () => Promise.reject(new Error("a browser cannot run commands")),
};

let extension: Extension | undefined;

export function activate(context: ExtensionContext): void {
  extension = new Extension(context, platform);
}

export async function deactivate(): Promise<void> {
  await extension?.stop();
}
