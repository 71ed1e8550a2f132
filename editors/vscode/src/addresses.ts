/** The worker sees every file of a workspace below one root, whatever file system the workspace lies in. */

import { Uri } from "vscode";

const ELSEWHERE = "/@";

/** The path of a file in the worker. */
export function pathOf(uri: Uri): string {
  return uri.scheme === "file" ? uri.path : `${ELSEWHERE}${uri.scheme}/${encodeURIComponent(uri.authority)}${uri.path}`;
}

/** What the worker calls a document. */
export function toWorker(uri: Uri): string {
  return uri.scheme === "untitled" ? uri.toString() : Uri.file(pathOf(uri)).toString();
}

/** The document that the worker speaks of. */
export function fromWorker(address: string): Uri {
  const uri = Uri.parse(address);
  if (uri.scheme !== "file" || !uri.path.startsWith(ELSEWHERE)) {
    return uri;
  }
  const [scheme = "", authority = "", ...path] = uri.path.slice(ELSEWHERE.length).split("/");
  return Uri.from({ scheme, authority: decodeURIComponent(authority), path: `/${path.join("/")}` });
}
