/** Messages between a worker and its client: one to start it, then JSON-RPC. */

/** File to load: its bytes or URL; in Node, its path with slashes. */
export type Part = Uint8Array | string;

/** First message: the files that the worker runs. */
export interface Start {
  /** `pyodide.asm.wasm`; a URL has to end in this name. */
  readonly wasm: Part;
  /** `python.archive`; in Node, its bytes. */
  readonly archive: Part;
  /** "kept": start from the cached snapshot, if any; "new": create and cache one. */
  readonly memory?: "kept" | "new";
}

/** First response of the worker. */
export type Started =
  | { readonly ready: true; readonly fromSnapshot: boolean }
  | { readonly ready: false; readonly reason: string };

/** JSON-RPC message in either direction. */
export interface Message {
  readonly jsonrpc: "2.0";
  readonly id?: number | string;
  readonly method?: string;
  readonly params?: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string };
}

/** Files to add to the worker's file system, and paths to remove from it. */
export interface Mirror {
  readonly write: readonly { readonly path: string; readonly content: Uint8Array | string }[];
  readonly remove: readonly string[];
}

/** Notification with a `Mirror`. */
export const MIRROR = "dsconfig/mirror";
