// A real VS Code, in its browser build and Chromium: the extension from dist/dsconfig.vsix does there what it is for.
//   node vscode/test/run.mjs CODE_SERVER [web|node] [PICTURES]
// CODE_SERVER is the folder in which npm installed code-server, and node where it needs another than this one;
// `web` runs the extension in the page's worker, `node` beside the server. The pictures are for people to look at.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const [home = "", kind = "web", pictures = ""] = process.argv.slice(2);
const vsix = fileURLToPath(new URL("../../dist/dsconfig.vsix", import.meta.url));
const own = join(home, "node_modules/node/bin/node");
const node = existsSync(own) ? own : process.execPath;
const server = join(home, "node_modules/code-server/out/node/entry.js");
/** Milliseconds for what is to be seen: a busy machine is slow. */
const PATIENCE = 240_000;
const port = 20_000 + (process.pid % 20_000);
const work = mkdtempSync(join(tmpdir(), "dsconfig-vscode-"));
const folder = join(work, "project");

const CONFIG = `{
  "train_batch_size": 8,
  "zero_optimization": {
    "stage": 2,
    "reduce_bucket_sise": 5e8
  },
  "fp16": { "enabled": true }
}
`;
const LAUNCH = "deepspeed train.py --deepspeed_config ds_config.json\n";
const SETTINGS = {
  "security.workspace.trust.enabled": false,
  "workbench.startupEditor": "none",
  "workbench.colorTheme": "Default Light Modern",
  "remote.extensionKind": { "dsconfig.dsconfig": [kind === "web" ? "web" : "workspace"] },
  "dsconfig.server": "bundled",
  "chat.commandCenter.enabled": false,
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "workbench.tips.enabled": false,
};

mkdirSync(join(folder, ".git"), { recursive: true });
mkdirSync(join(work, "data/User"), { recursive: true });
writeFileSync(join(folder, "ds_config.json"), CONFIG);
writeFileSync(join(folder, "train.sh"), LAUNCH);
writeFileSync(join(work, "data/User/settings.json"), JSON.stringify(SETTINGS));
const places = ["--user-data-dir", join(work, "data"), "--extensions-dir", join(work, "extensions")];
const installed = spawnSync(node, [server, ...places, "--install-extension", vsix], { encoding: "utf8" });
if (installed.status !== 0) {
  throw new Error(installed.stdout + installed.stderr);
}
const quiet = ["--auth", "none", "--disable-telemetry", "--disable-update-check", "--disable-workspace-trust"];
const running = spawn(node, [server, ...places, ...quiet, "--bind-addr", `127.0.0.1:${port}`], { stdio: "ignore" });
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });

let step = 0;
let page;

/** Waits for what must be seen, and keeps a picture of it. */
async function see(what, locator, timeout = PATIENCE) {
  const began = Date.now();
  await locator.first().waitFor({ timeout });
  console.log(`${what}: ${Date.now() - began} ms`);
  await picture(what);
}

/** Presses keys until what they open is seen: a busy machine loses some. */
async function open(what, keys, locator) {
  for (let left = 8; left; left -= 1) {
    await press(...keys);
    const isSeen = await locator.first().waitFor({ timeout: 30_000 }).then(
      () => true,
      () => false,
    );
    if (isSeen || left === 1) {
      return see(what, locator, 1000);
    }
    await press("Escape");
  }
}

async function picture(what) {
  if (pictures) {
    await page.screenshot({ path: join(pictures, `${kind}-${++step}-${what.replaceAll(" ", "-")}.png`) });
  }
}

async function press(...keys) {
  for (const key of keys) {
    await page.keyboard.press(key);
    await page.waitForTimeout(400);
  }
}

/** Runs a command of the palette. */
async function command(name) {
  await press("F1");
  await page.keyboard.type(name);
  await page.waitForTimeout(800);
  await press("Enter");
}

async function goTo(line, column) {
  await press("Control+g");
  await page.keyboard.type(`${line}:${column}`);
  await press("Enter");
}

async function saved() {
  await press("Control+s");
  await page.waitForTimeout(500);
  return readFileSync(join(folder, "ds_config.json"), "utf8");
}

function must(condition, what) {
  if (!condition) {
    throw new Error(`not so: ${what}`);
  }
}

async function tour() {
  page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  for (let left = 50; ; left -= 1) {
    try {
      await page.goto(`http://127.0.0.1:${port}/?folder=${folder}`, { waitUntil: "load" });
      break;
    } catch (error) {
      if (!left) {
        throw error;
      }
      await page.waitForTimeout(300);
    }
  }
  await page.waitForSelector(".monaco-workbench", { timeout: PATIENCE });
  await page.locator(".explorer-folders-view").getByText("ds_config.json").dblclick({ timeout: PATIENCE });
  await see("first finding", page.locator(".squiggly-warning, .squiggly-error, .squiggly-inline-unnecessary"));
  await see("status bar", page.getByText(/DeepSpeed \d+\.\d+\.\d+ · /));

  await goTo(5, 8);
  await open("hover of a finding", ["Control+k", "Control+i"], page.locator(".monaco-hover").getByText("reduce_bucket_sise"));
  await press("Escape");
  await open("quick fixes", ["Control+."], page.locator(".action-widget").getByText(/reduce_bucket_size/));
  await press("Enter");
  await page.waitForTimeout(1500);
  await picture("fixed");
  must((await saved()).includes('"reduce_bucket_size"'), "the quick fix is made");

  await goTo(4, 6);
  await open("hover of a key", ["Control+k", "Control+i"], page.locator(".monaco-hover").getByText(/ZeRO|stage/i));
  await press("Escape");

  await goTo(4, 16);
  await press("Enter");
  await page.keyboard.type('"overl');
  await open("completion", ["Control+Space"], page.locator(".suggest-widget").getByText("overlap_comm"));
  await press("Enter");
  await page.waitForTimeout(500);
  must((await saved()).includes("overlap_comm"), "the completion is made");

  await command("DeepSpeed Config: Show Effective Values");
  await see("effective values", page.getByText(/effective values/));
  await command("DeepSpeed Config: Check Workspace");
  await see("check of the workspace", page.getByText(/finding.* in \d+ config/));
}

try {
  await tour();
} catch (error) {
  await picture("failure");
  console.error(String(error));
  process.exitCode = 1;
} finally {
  await browser.close();
  running.kill();
  rmSync(work, { recursive: true, force: true, maxRetries: 5 });
}
