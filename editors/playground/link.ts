/** State of the page in the URL fragment, which is not sent to servers. */

import type { JobOptions, Format } from "./engine";

export interface Shown extends JobOptions {
  readonly text: string;
  readonly format: Format;
}

export async function write(shown: Shown): Promise<string> {
  const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(JSON.stringify(shown)));
  const letters = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return `#${letters.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

/** undefined: the fragment is empty or invalid. */
export async function read(fragment: string): Promise<Shown | undefined> {
  if (fragment.length < 2) {
    return undefined;
  }
  try {
    const letters = atob(fragment.slice(1).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    const shown = JSON.parse(new TextDecoder().decode(await through(new DecompressionStream("deflate-raw"), bytes)));
    return typeof shown?.text === "string" ? shown : undefined;
  } catch {
    return undefined;
  }
}

async function through(stream: CompressionStream | DecompressionStream, bytes: Uint8Array): Promise<Uint8Array> {
  const output = new Blob([bytes as BlobPart]).stream().pipeThrough(stream as CompressionStream);
  return new Uint8Array(await new Response(output).arrayBuffer());
}
