// Chromium and Firefox, as Debian has them; whatever they ask for beyond loopback is refused, and told.

import { createServer } from "node:http";
import puppeteer from "puppeteer-core";

const EXECUTABLES = { chrome: process.env.CHROMIUM ?? "/usr/bin/chromium", firefox: process.env.FIREFOX ?? "/usr/bin/firefox-esr" };

/** What browsers ask of their makers. */
const OWN = /\b(google|googleapis|gstatic|gvt1|mozilla|firefox|mozgcp)\.(com|net|org)\b/;

/** Stands in for the rest of the internet. */
async function elsewhere() {
  const asked = [];
  const refuse = (request, end) => {
    if (!OWN.test(request.url)) {
      asked.push(request.url);
    }
    end.end("HTTP/1.1 403 Forbidden\r\n\r\n");
  };
  const server = createServer((request, response) => refuse(request, response.socket));
  server.on("connect", refuse);
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { asked, port: server.address().port, server };
}

/** Starts a browser, `chrome` or `firefox`. */
export async function start(name) {
  const { asked, port, server } = await elsewhere();
  const browser = await puppeteer.launch({
    browser: name,
    executablePath: EXECUTABLES[name],
    headless: true,
    args: name === "chrome" ? ["--no-sandbox", "--disable-gpu", `--proxy-server=127.0.0.1:${port}`] : [],
    extraPrefsFirefox: {
      "network.proxy.type": 1,
      "network.proxy.http": "127.0.0.1",
      "network.proxy.http_port": port,
      "network.proxy.ssl": "127.0.0.1",
      "network.proxy.ssl_port": port,
    },
  });
  const errors = [];
  return {
    /** Hosts that were asked for, and errors of pages. */
    asked,
    errors,
    /** A page that shares nothing with earlier ones, unless told whose visitor it has. */
    async page(visitor, { width = 1400, height = 850, scheme } = {}) {
      const page = await visitor.newPage();
      await page.setViewport({ width, height });
      if (scheme) {
        await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      }
      page.on("request", (each) => {
        const { protocol, hostname } = new URL(each.url());
        if (protocol.startsWith("http") && hostname !== "127.0.0.1") {
          asked.push(each.url());
        }
      });
      page.on("pageerror", (error) => errors.push(`${page.url()}: ${error.message ?? error}`));
      page.on("console", (each) => each.type() === "error" && errors.push(`${page.url()}: ${each.text()}`));
      return page;
    },
    visitor: () => browser.createBrowserContext(),
    async end() {
      await browser.close();
      server.close();
      server.closeAllConnections();
    },
  };
}

/** Waits, in steps, until a page answers with something. */
export async function until(what, ask, seconds = 60) {
  for (const end = Date.now() + seconds * 1000; Date.now() < end; ) {
    const found = await ask();
    if (found) {
      return found;
    }
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`not so within ${seconds} s: ${what}`);
}

export function must(condition, what) {
  if (!condition) {
    throw new Error(`not so: ${what}`);
  }
  console.log(`ok: ${what}`);
}

/** Runs parts one after another, and ends with what failed. */
export async function run(parts) {
  for (const [name, part] of parts) {
    try {
      console.log(`-- ${name}`);
      await part();
    } catch (error) {
      console.error(`FAILED: ${name}: ${error.message ?? error}`);
      process.exitCode = 1;
    }
  }
}
