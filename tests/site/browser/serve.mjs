// The built site on loopback, as a server of static files has it: compressed, below an address of several parts.

import { existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const BUILT = fileURLToPath(new URL("../../../site/_build", import.meta.url));
const BELOW = "/en/stable/";
const TYPES = {
  ".css": "text/css",
  ".html": "text/html",
  ".js": "text/javascript",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".wasm": "application/wasm",
};
const STORED = new Set([".archive", ".png", ".gz"]);

/** Serves; `sent` are the bytes of bodies, `asked` the requests as they came. */
export async function serve() {
  if (!existsSync(join(BUILT, "playground", "worker.js"))) {
    throw new Error("`make docs` first, with npm: the site or its playground is not built");
  }
  const packed = new Map();
  for (const name of ["page.js", "worker.js", "pyodide.asm.wasm"]) {
    const path = join(BUILT, "playground", name);
    packed.set(path, gzipSync(readFileSync(path), { level: 9 })); // before anybody waits for it
  }
  const told = { sent: 0, asked: [] };
  const server = createServer((request, response) => {
    const { pathname, search } = new URL(request.url, "http://x");
    told.asked.push(`${request.method} ${pathname}${search}`);
    let path = pathname.startsWith(BELOW) ? join(BUILT, decodeURIComponent(pathname.slice(BELOW.length))) : "";
    if (path && existsSync(path) && statSync(path).isDirectory()) {
      path = join(path, "index.html");
    }
    if (!path || !existsSync(path)) {
      response.writeHead(404).end();
      return;
    }
    const kind = extname(path);
    const stored = STORED.has(kind);
    const body = packed.get(path) ?? (stored ? readFileSync(path) : gzipSync(readFileSync(path), { level: 9 }));
    packed.set(path, body);
    told.sent += body.length;
    const headers = { "Content-Type": TYPES[kind] ?? "application/octet-stream", "Cache-Control": "max-age=600" };
    response.writeHead(200, stored ? headers : { ...headers, "Content-Encoding": "gzip" }).end(body);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return {
    told,
    base: `http://127.0.0.1:${server.address().port}${BELOW}`,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
