/** What goes between a worker and whoever started it: one message to start it, then JSON-RPC. */

/** A file to load: its bytes, or its address; in Node, its path with slashes. */
export type Part = Uint8Array | string;

/** The first message: what the worker runs. */
export interface Start {
  /** `pyodide.asm.wasm`: an address ends in this name. */
  readonly wasm: Part;
  /** `python.archive`; in Node, its bytes. */
  readonly archive: Part;
  /** "kept": begin with the memory that the browser keeps, if it does; "new": make that one, and keep it. */
  readonly memory?: "kept" | "new";
}

/** The worker's first answer. */
export type Started =
  | { readonly ready: true; readonly isKept: boolean }
  | { readonly ready: false; readonly reason: string };

/** A message of JSON-RPC, in either direction. */
export interface Message {
  readonly jsonrpc: "2.0";
  readonly id?: number | string;
  readonly method?: string;
  readonly params?: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string };
}

/** Files that the worker shall see from now on, and paths that it shall no longer see. */
export interface Mirror {
  readonly write: readonly { readonly path: string; readonly content: Uint8Array | string }[];
  readonly remove: readonly string[];
}

/** The notification that carries a `Mirror`. */
export const MIRROR = "dsconfig/mirror";
