/**
 * Snapshot of Python's memory after startup and a first check, in the browser's cache: the next start loads it instead of
 * importing hundreds of modules. A separate worker creates it, so it contains no user input.
 */

/** Version of the archive and Pyodide, inserted by `build.mjs`. */
declare const VERSION: string;

/** A snapshot only fits the same archive and browser. */
const NAME = `dsconfig-memory-${VERSION}`;
const PREFIX = "dsconfig-memory-";

const request = (): string => new URL(`/?${encodeURIComponent(navigator.userAgent)}`, location.origin).href;

/** The cached snapshot; undefined if there is none, or no cache. */
export async function kept(): Promise<Response | undefined> {
  try {
    return await caches.match(request(), { cacheName: NAME });
  } catch {
    return undefined;
  }
}

/** Caches a snapshot, and deletes all others. */
export async function keep(memory: Uint8Array): Promise<void> {
  const cache = await caches.open(NAME);
  const other = (await cache.keys()).filter(({ url }) => url !== request());
  await cache.put(request(), new Response(memory as Uint8Array<ArrayBuffer>));
  await Promise.all(other.map((each) => cache.delete(each)));
  await forget(NAME);
}

/** Deletes all snapshots, or those in all caches but one. */
export async function forget(but?: string): Promise<void> {
  for (const name of (await globalThis.caches?.keys().catch(() => [])) ?? []) {
    if (name.startsWith(PREFIX) && name !== but) {
      await caches.delete(name).catch(() => false);
    }
  }
}
