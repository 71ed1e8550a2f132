// A real VS Code, in its browser build and Chromium: the extension from dist/dsconfig.vsix does there what it is for.
//   node vscode/test/run.mjs CODE_SERVER [web|node|own|poor|first] [PICTURES [PYTHON]]
// CODE_SERVER is the folder in which npm installed code-server, and node where it needs another than this one;
// `web` runs the extension in the page's worker, `node` beside the server; so does `own`, in a workspace with a
// dsconfig of its own, that of PYTHON, and `poor`, where that lacks pygls. `first` ends with the list of problems, for
// `make journeys`. The pictures are for people to look at.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const [home = "", kind = "web", pictures = "", python = "python3"] = process.argv.slice(2);
const vsix = fileURLToPath(new URL("../../dist/dsconfig.vsix", import.meta.url));
const own = join(home, "node_modules/node/bin/node");
const node = existsSync(own) ? own : process.execPath;
const server = join(home, "node_modules/code-server/out/node/entry.js");
/** Milliseconds for what is to be seen: a busy machine is slow. */
const PATIENCE = 240_000;
/** Milliseconds of activation before a user notices. */
const MOST_ACTIVATION = 150;
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
const TWO = '{"train_batch_size": 16,"zero_optimization": {"stage": 2,"reduce_bucket_sise": 5e8}}\n';
const PACKAGES = "import sysconfig; print(sysconfig.get_path('purelib'))";
const LAUNCH = "deepspeed train.py --deepspeed_config ds_config.json\n";
const SETTINGS = {
  "security.workspace.trust.enabled": false,
  "workbench.startupEditor": "none",
  "workbench.colorTheme": "Default Light Modern",
  "remote.extensionKind": { "dsconfig.dsconfig": [kind === "web" ? "web" : "workspace"] },
  "dsconfig.server": kind === "own" || kind === "poor" ? "auto" : "bundled",
  "chat.commandCenter.enabled": false,
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "workbench.tips.enabled": false,
};

mkdirSync(join(folder, ".git"), { recursive: true });
mkdirSync(join(work, "data/User"), { recursive: true });
writeFileSync(join(folder, "ds_config.json"), CONFIG);
writeFileSync(join(folder, "ds_config_two.json"), TWO);
writeFileSync(join(folder, "train.sh"), LAUNCH);
writeFileSync(join(folder, "package.json"), '{ "name": "nobody-s-config" }\n');
writeFileSync(join(folder, "zero3.json"), "");
if (kind === "own" || kind === "poor") {
  environment();
}
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

/** A virtual environment in the workspace, over the packages of PYTHON; beside it a module that must not be taken. */
function environment() {
  const told = (code) => spawnSync(python, ["-c", code], { encoding: "utf8" }).stdout.trim();
  spawnSync(python, ["-m", "venv", "--without-pip", join(folder, ".venv")]);
  const packages = spawnSync(join(folder, ".venv/bin/python"), ["-c", PACKAGES], { encoding: "utf8" }).stdout.trim();
  const elsewhere = told("import sys; print(*[each for each in sys.path if each], sep='\\n')");
  writeFileSync(join(packages, "others.pth"), `${elsewhere}\n`);
  writeFileSync(join(folder, "json.py"), "raise SystemExit('the workspace has a module of this name')\n");
  if (kind === "poor") {
    writeFileSync(join(packages, "pygls.py"), "raise ModuleNotFoundError('No module named pygls', name='pygls')\n");
  }
}

/** Waits until the extension's log says something. */
async function logged(what) {
  const name = /DeepSpeed Config\.log$/;
  for (let left = 300; left; left -= 1) {
    const logs = join(work, "data/logs");
    const found = existsSync(logs) ? readdirSync(logs, { recursive: true, encoding: "utf8" }) : [];
    const said = found.filter((path) => name.test(path)).map((path) => readFileSync(join(logs, path), "utf8"));
    if (said.some((text) => what.test(text))) {
      return console.log(`logged: ${what}`);
    }
    await page.waitForTimeout(500);
  }
  throw new Error(`not logged: ${what}`);
}

/** Waits for what must be seen, and keeps a picture of it. */
async function see(what, locator, timeout = PATIENCE) {
  const began = Date.now();
  await locator.first().waitFor({ timeout });
  console.log(`${what}: ${Date.now() - began} ms`);
  await picture(what);
}

/** Presses keys until what they open is seen: a busy machine loses some. */
async function open(what, keys, locator) {
  const began = Date.now();
  for (let left = 8; left; left -= 1) {
    await press(...keys);
    const isSeen = await locator.first().waitFor({ timeout: 30_000 }).then(
      () => true,
      () => false,
    );
    if (isSeen) {
      console.log(`${what}: ${Date.now() - began} ms`);
      return picture(what);
    }
    await press("Escape");
  }
  throw new Error(`not seen: ${what}`);
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

/** Saves until a file holds a text: a busy machine makes an edit late. */
async function written(text, name = "ds_config.json") {
  const file = join(folder, name);
  for (let left = 100; !existsSync(file) || !readFileSync(file, "utf8").includes(text); left -= 1) {
    if (!left) {
      throw new Error(`not written to ${name}: ${text}`);
    }
    await press("Control+s");
    await page.waitForTimeout(600);
  }
  console.log(`written to ${name}: ${text.trim()}`);
}

/** Types into what has been opened above the editor, and accepts it. */
async function answer(title, text) {
  await see(title, page.locator(".quick-input-widget").getByText(title), PATIENCE);
  await page.waitForTimeout(400);
  if (text) {
    await page.keyboard.press("Control+a");
    await page.keyboard.type(text);
    await page.waitForTimeout(800);
  }
  await press("Enter");
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
  if (kind === "poor") {
    await page.locator(".explorer-folders-view").getByText("package.json").dblclick({ timeout: PATIENCE });
    await logged(/no open document is a config/);
  }
  await page.locator(".explorer-folders-view").getByText("ds_config.json").dblclick({ timeout: PATIENCE });
  await see("first finding", page.locator(".squiggly-warning, .squiggly-error, .squiggly-inline-unnecessary"));
  await see("status bar", page.getByText(/DeepSpeed \d+\.\d+\.\d+ · /));

  if (kind === "first") {
    return problems();
  }
  if (kind === "own") {
    await logged(/workspace dsconfig started after/);
  } else if (kind === "poor") {
    await logged(/cannot run the server: ModuleNotFoundError: No module named pygls[^]*bundled dsconfig started after/);
  }
  if (kind !== "poor") {
    await edits();
    await beginning();
    await verbs();
    await choices();
  }
  await activation();
}

/** Prints the list of problems. */
async function problems() {
  const rows = page.locator(".markers-panel .monaco-list-row");
  await open("problems", ["Control+Shift+m"], rows);
  for (const text of await rows.allInnerTexts()) {
    console.log(text.replace(/\s*\n\s*/g, " "));
  }
}

/** What VS Code measured for the extension's activation, which delays the editor. */
async function activation() {
  await page.setViewportSize({ width: 1280, height: 3000 }); // the list has rows only for what is seen, the slowest first
  await command("Developer: Show Running Extensions");
  const row = page.locator(".runtime-extensions-editor .monaco-list-row").filter({ hasText: "DeepSpeed Config" });
  const shown = await row.getByText(/Activation: \d+ms/).first().innerText({ timeout: PATIENCE });
  const isBusy = loadavg()[0] > cpus().length; // time says nothing then
  console.log(`${shown.trim()}${isBusy ? ", on a busy machine" : ""}`);
  await picture("activation");
  const measured = Number(/Activation: (\d+)ms/.exec(shown)?.[1]);
  if (!(measured <= MOST_ACTIVATION || isBusy)) {
    throw new Error(`activation took ${measured} ms, more than ${MOST_ACTIVATION}`);
  }
}

/** A hover, a quick fix and a completion. */
async function edits() {
  await goTo(5, 8);
  await open("hover of a finding", ["Control+k", "Control+i"], page.locator(".monaco-hover").getByText("reduce_bucket_sise"));
  await press("Escape");
  await open("quick fixes", ["Control+."], page.locator(".action-widget").getByText(/reduce_bucket_size/));
  await press("Enter");
  await written('"reduce_bucket_size"');

  await goTo(4, 6);
  await open("hover of a key", ["Control+k", "Control+i"], page.locator(".monaco-hover").getByText(/ZeRO|stage/i));
  await press("Escape");

  await goTo(4, 16);
  await press("Enter");
  await page.keyboard.type('"overl');
  await open("completion", ["Control+Space"], page.locator(".suggest-widget").getByText("overlap_comm"));
  await press("Enter");
  await written('"overlap_comm"');
}

/** A new file, of which nothing but the name says what it is to be. */
async function beginning() {
  await page.locator(".explorer-folders-view").getByText("zero3.json").dblclick();
  await page.locator(".tab.active").getByText("zero3.json").waitFor();
  await page.keyboard.type("{");
  await press("Enter");
  await page.keyboard.type('"bf');
  await open("first key of a new file", ["Control+Space"], page.locator(".suggest-widget").getByText("bf16"));
  await press("Enter");
  await written('"bf16": {}', "zero3.json");
}

/** The commands, on a second config. */
async function verbs() {
  await page.locator(".explorer-folders-view").getByText("ds_config_two.json").dblclick();
  await see("finding in the second config", page.locator(".squiggly-warning, .squiggly-error"));
  await command("DeepSpeed Config: Fix File");
  await written('"reduce_bucket_size"', "ds_config_two.json");
  await command("Format Document");
  await written('{\n    "train_batch_size": 16,\n', "ds_config_two.json");
  await command("DeepSpeed Config: Resolve for a Number of GPUs");
  await answer("Number of GPUs", "4");
  await see("resolved", page.getByText(/ds_config_two.json at world size 4/));
  await command("DeepSpeed Config: Estimate Memory");
  await answer("Model: a name, or the path of its config.json", "llama-3-8b");
  await answer("Number of GPUs", "8");
  await see("memory", page.getByText(/llama-3-8b at world size 8/));
  await page.locator(".codelens-decoration").getByText("memory", { exact: true }).first().click();
  await answer("Model: a name, or the path of its config.json", "qwen2.5-7b");
  await see("memory by the lens", page.getByText(/qwen2.5-7b at world size/));
  await command("DeepSpeed Config: Show Effective Values");
  await see("effective values", page.getByText(/effective values/));
  await command("DeepSpeed Config: Check Workspace");
  await see("check of the workspace", page.getByText(/\d+ problems? in \d+ config/));
}

/** The status bar's menu, which writes the settings file. */
async function choices() {
  const bar = page.getByText(/DeepSpeed \d+\.\d+\.\d+ · /).first();
  await bar.click();
  await answer("Setting to change", "World size");
  await answer("Number of GPUs", "4");
  await written("world-size = 4\n", "dsconfig.toml");
  await see("status bar with a world size", page.getByText(/DeepSpeed \d+\.\d+\.\d+ · 4 GPUs/));
  await bar.click();
  await answer("Setting to change", "Release");
  await answer("Release, or a range", "0.16.9");
  await written('target = "0.16.9"\n', "dsconfig.toml");
  await see("status bar with a release", page.getByText(/DeepSpeed 0\.16\.9 · 4 GPUs/));
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
