// Keeps the playground for use without a network: its own files once per version, and what its page needs besides them.
const PREFIX = "dsconfig-page-";
const CACHE = `${PREFIX}__VERSION__`;
const FILES = ["page.js", "page.css", "worker.js", "pyodide.asm.wasm", "python.archive"];
const OWN = new Set(FILES.map((name) => new URL(name, self.location).href));

self.addEventListener("install", (event) => {
  event.waitUntil(keep().then(() => self.skipWaiting()));
});

/** Keeps the own files, and the styles and scripts that the page names. */
async function keep() {
  const cache = await caches.open(CACHE);
  const page = await fetch("./");
  const text = await page.clone().text();
  await cache.put("./", page);
  await cache.addAll(FILES);
  const named = [...text.matchAll(/(?:src|href)="?([^"\s>]+\.(?:js|css|svg))["\s>]/g)].map((match) => new URL(match[1], self.location).href);
  const others = [...new Set(named)].filter((each) => each.startsWith(self.location.origin) && !OWN.has(each));
  await Promise.all(others.map((each) => cache.add(each).catch(() => {}))); // the page works without one of them
}

self.addEventListener("activate", (event) => {
  const old = (name) => name.startsWith(PREFIX) && name !== CACHE;
  event.waitUntil(
    caches.keys().then((names) => Promise.all(names.filter(old).map((name) => caches.delete(name))))
      .then(() => self.clients.claim()),
  );
});

self.addEventListener("fetch", (event) => {
  const kept = () => caches.open(CACHE).then((cache) => cache.match(event.request, { ignoreSearch: true }));
  // The page and the theme may change while the own files do not, so the network comes first for them.
  event.respondWith(
    OWN.has(event.request.url)
      ? kept().then((found) => found ?? fetch(event.request))
      : fetch(event.request).catch(async (error) => (await kept()) ?? Promise.reject(error)),
  );
});
