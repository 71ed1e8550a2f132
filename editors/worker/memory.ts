/**
 * The memory of a Python that has started and checked something once, which a browser keeps: the next start copies it
 * instead of importing a few hundred modules. It holds nothing of what a user typed: a worker of its own makes it.
 */

/** Of the archive and of Pyodide: `build.mjs` writes it here. */
declare const VERSION: string;

/** A new archive, and a new browser, start anew: neither fits what was kept. */
const NAME = `dsconfig-memory-${VERSION}`;
const PREFIX = "dsconfig-memory-";

const request = (): string => new URL(`/?${encodeURIComponent(navigator.userAgent)}`, location.origin).href;

/** What was kept, which may still be read; undefined: nothing, or nothing may be kept here. */
export async function kept(): Promise<Response | undefined> {
  try {
    return await caches.match(request(), { cacheName: NAME });
  } catch {
    return undefined;
  }
}

/** Keeps a memory in place of all others. */
export async function keep(memory: Uint8Array): Promise<void> {
  const cache = await caches.open(NAME);
  const other = (await cache.keys()).filter(({ url }) => url !== request());
  await cache.put(request(), new Response(memory as Uint8Array<ArrayBuffer>));
  await Promise.all(other.map((each) => cache.delete(each)));
  await forget(NAME);
}

/** Forgets all memories, or all in caches but one. */
export async function forget(but?: string): Promise<void> {
  for (const name of (await globalThis.caches?.keys().catch(() => [])) ?? []) {
    if (name.startsWith(PREFIX) && name !== but) {
      await caches.delete(name).catch(() => false);
    }
  }
}
