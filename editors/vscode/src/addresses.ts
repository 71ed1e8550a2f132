/** Maps documents to paths in the worker, which has every workspace below one root, whatever its file system. */

import { Uri } from "vscode";

const ELSEWHERE = "/@";

/** Path of a file in the worker. */
export function pathOf(uri: Uri): string {
  return uri.scheme === "file" ? uri.path : `${ELSEWHERE}${uri.scheme}/${encodeURIComponent(uri.authority)}${uri.path}`;
}

/** URI of a document in the worker. */
export function toWorker(uri: Uri): string {
  return uri.scheme === "untitled" ? uri.toString() : Uri.file(pathOf(uri)).toString();
}

/** Document of a URI in the worker. */
export function fromWorker(address: string): Uri {
  const uri = Uri.parse(address);
  if (uri.scheme !== "file" || !uri.path.startsWith(ELSEWHERE)) {
    return uri;
  }
  const [scheme = "", authority = "", ...path] = uri.path.slice(ELSEWHERE.length).split("/");
  return Uri.from({ scheme, authority: decodeURIComponent(authority), path: `/${path.join("/")}` });
}
