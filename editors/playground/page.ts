/** Playground: an editor, its diagnostics, and the output of commands. */

import { autocompletion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { json } from "@codemirror/lang-json";
import { yaml } from "@codemirror/lang-yaml";
import { type Diagnostic, linter, lintGutter } from "@codemirror/lint";
import { Compartment, EditorState, type Text } from "@codemirror/state";
import { EditorView, hoverTooltip, type ViewUpdate } from "@codemirror/view";
import { basicSetup } from "codemirror";
import type { CommandOutput } from "../worker/client";
import { type Answers, type JobOptions, Engine, type Fix, type LspDiagnostic, type Format, type Position, type TextEdit } from "./engine";
import { guessFormat } from "./format";
import { read, write } from "./link";
import { EXAMPLES } from "./examples";
import { FirstAnswers, WAITING } from "./first";
import { listed } from "./list";
import { block, inline } from "./markdown";
import { sides, values } from "./output";
import { painted } from "./start";

/** Milliseconds from the last keystroke to the next check. */
const DELAY = 10;
const SEVERITIES = ["error", "error", "warning", "info"] as const;

const SITE = new URL("../", import.meta.url).href;
const root = document.querySelector<HTMLElement>(".playground") ?? document.body;
/** Part of another page: an editor and its diagnostics only, and the address of that page stays as it is. */
const isPart = root.dataset["part"] !== undefined;

const element = <E extends HTMLElement>(id: string): E => document.getElementById(id) as E;
const control = (id: string): HTMLInputElement => element<HTMLInputElement>(id);
const language = new Compartment();
/** The text with which the page opens, unless its address has one. */
const OPENING = root.dataset["text"] ?? EXAMPLES[0]?.text ?? "";
let engine: Engine | undefined;
let first: FirstAnswers | undefined;
let tab = "show";

function jobOptions(): JobOptions {
  const size = Number(control("size").value);
  return {
    target: control("target").value.trim(),
    worldSize: Number.isInteger(size) && size > 0 ? size : null,
    consumer: control("reader").value,
  };
}

const format = (): Format => control("format").value as Format;

function offset(text: Text, { line, character }: Position): number {
  const at = text.line(Math.min(line + 1, text.lines));
  return Math.min(at.from + character, at.to);
}

function position(text: Text, at: number): Position {
  const line = text.lineAt(at);
  return { line: line.number - 1, character: at - line.from };
}

function changes(text: Text, edits: readonly TextEdit[]): { from: number; to: number; insert: string }[] {
  return edits.map(({ range, newText }) => ({
    from: offset(text, range.start),
    to: offset(text, range.end),
    insert: newText,
  }));
}

async function diagnose(view: EditorView): Promise<readonly Diagnostic[]> {
  const text = view.state.doc;
  const options = jobOptions();
  const answers: Answers | undefined = engine ?? (first?.cover(text.toString(), format(), options) ? first : undefined);
  if (!answers) {
    element("summary").textContent = WAITING;
    for (const id of ["found", "output"]) {
      document.getElementById(id)?.replaceChildren();
    }
    return [];
  }
  const found = await answers.check(text.toString(), format(), options);
  const link = await write({ text: text.toString(), format: format(), ...options });
  if (isPart) {
    document.getElementById("whole")?.setAttribute("href", `${SITE}playground/${link}`);
  } else {
    history.replaceState(null, "", link);
  }
  element("summary").textContent = summary(found);
  scheduleOutput(answers);
  const fixes = found.length
    ? await answers.fixes({ start: { line: 0, character: 0 }, end: position(text, text.length) })
    : [];
  const diagnostics = found.map((each) => ({
    from: offset(text, each.range.start),
    to: Math.max(offset(text, each.range.end), offset(text, each.range.start)),
    severity: SEVERITIES[each.severity] ?? "info",
    source: each.code,
    message: each.message,
    renderMessage: () => message(each),
    actions: fixesOf(each, fixes)
      .slice(0, 4)
      .map(({ title, edits }) => ({
        name: title.replaceAll("`", ""),
        apply: (target: EditorView) => target.dispatch({ changes: changes(target.state.doc, edits) }),
      })),
  }));
  if (view.state.doc.eq(text)) {
    element("found").replaceChildren(...listed(view, diagnostics));
  }
  return diagnostics;
}

/** The fixes of a diagnostic: of those for its rule, the ones in its lines if there are any. */
function fixesOf({ code, range }: LspDiagnostic, fixes: readonly Fix[]): readonly Fix[] {
  const same = fixes.filter(({ codes, edits }) => edits.length && codes.includes(code));
  const near = same.filter(({ edits }) => edits.some((edit) => edit.range.start.line <= range.end.line && edit.range.end.line >= range.start.line));
  return near.length ? near : same;
}

function message(found: LspDiagnostic): HTMLElement {
  const made = document.createElement("div");
  const link = document.createElement("a");
  Object.assign(link, { href: `${SITE}rules/${found.code}/`, textContent: `${found.code} ${found.data.name}`, target: "_blank" });
  link.className = "rule";
  const [text = "", ...more] = found.message.split("\n");
  made.append(...inline(text));
  for (const line of more) {
    made.append(Object.assign(document.createElement("p"), { className: "help" }));
    made.lastElementChild?.append(...inline(line));
  }
  made.append(link);
  return made;
}

function summary(found: readonly LspDiagnostic[]): string {
  const count = (severity: number): number => found.filter((each) => each.severity === severity).length;
  const counts = ["error", "warning", "info"].map((name, at) => [count(at + 1), name] as const).filter(([number]) => number);
  const words = counts.map(([number, name]) => `${number} ${name}${number === 1 || name === "info" ? "" : "s"}`);
  return words.join(" · ") || "no problems found";
}

let due: ReturnType<typeof setTimeout> | undefined;

/** Runs the command of the tab once typing pauses. */
function scheduleOutput(answers: Answers): void {
  clearTimeout(due);
  due = setTimeout(() => void show(answers), 400);
}

const MOST = 2000;
/** Message of the command about a missing file that a launch file names. */
const ELSEWHERE = /was not found from the current folder, so it is not checked: .*/g;

/** Resolves for eight ranks if the world size is unknown. */
async function resolved(answers: Answers): Promise<CommandOutput> {
  const output = await answers.command("resolve");
  return output.stderr.includes("no world size") ? answers.command("resolve", "--world-size", "8") : output;
}

async function show(answers: Answers | undefined = engine): Promise<void> {
  const shown = document.getElementById("output");
  if (!shown) {
    return;
  }
  if (!answers || (answers === first && tab !== "show")) {
    shown.replaceChildren(WAITING);
    return;
  }
  if (tab === "compat") {
    const { stdout, stderr } = await answers.command("compat", "--output-format", "json");
    shown.replaceChildren(stdout ? strip(stdout) : stderr);
    return;
  }
  const { stdout, stderr } = await (tab === "show"
    ? answers.command("show")
    : tab === "resolve"
      ? resolved(answers)
      : tab === "migrate"
        ? answers.command("migrate", "--diff", "--from", control("from").value, "--to", control("to").value)
        : answers.command("fix", "--diff"));
  const output = [stdout, stderr].filter(Boolean).join("\n").replaceAll("/project/", "");
  const text = output.replaceAll(ELSEWHERE, "is not on this page: paste or open that file to check it");
  if (text !== output && element("summary").textContent === summary([])) {
    element("summary").textContent = "the config that the launch file names is not on this page";
  }
  const lines = text.split("\n").slice(0, MOST);
  const isTable = tab === "show" ? values(lines) : tab === "fix" || tab === "migrate" ? sides(lines) : undefined;
  shown.replaceChildren(...(isTable ?? [Object.assign(document.createElement("pre"), { textContent: lines.join("\n") })]));
}

interface Stretch {
  readonly releases: readonly string[];
  readonly verdict: string;
  readonly message: string | null;
}

/** Releases from oldest to newest as a strip, with lengths by number of releases. */
function strip(stdout: string): HTMLElement {
  const made = document.createElement("ol");
  made.className = "strip";
  for (const { releases, verdict, message } of (JSON.parse(stdout) as { stretches: Stretch[] }).stretches) {
    const [first, last] = [releases[0], releases.at(-1)];
    const item = document.createElement("li");
    item.className = verdict;
    item.style.flexGrow = String(releases.length);
    item.textContent = `${first === last ? first : `${first} – ${last}`}: ${verdict}${message ? `: ${message}` : ""}`;
    made.append(item);
  }
  return made;
}

const hover = hoverTooltip(async (view, at) => {
  const text = await engine?.hover(position(view.state.doc, at));
  if (!text) {
    return null;
  }
  const dom = Object.assign(block(text), { className: "hover" });
  return { pos: at, create: () => ({ dom }) };
});

async function complete(context: CompletionContext): Promise<CompletionResult | null> {
  const word = context.matchBefore(/"?[\w.-]*/);
  if (!engine || (!context.explicit && (!word || word.from === word.to))) {
    return null;
  }
  await engine.check(context.state.doc.toString(), format(), jobOptions());
  const items = await engine.completions(position(context.state.doc, context.pos));
  const options = items.map(({ label, detail, insertText, textEdit }) => ({
    label,
    ...(detail ? { detail } : {}),
    apply: (view: EditorView) => {
      const text = (textEdit?.newText ?? insertText ?? label).replace(/\$\{\d+:?([^}]*)\}|\$\d/g, "$1");
      const from = textEdit ? offset(view.state.doc, textEdit.range.start) : (word?.from ?? context.pos);
      const to = Math.max(view.state.selection.main.head, textEdit ? offset(view.state.doc, textEdit.range.end) : 0);
      view.dispatch({ changes: { from, to, insert: text }, selection: { anchor: from + text.length } });
    },
  }));
  return { from: word && word.text.startsWith('"') ? word.from + 1 : (word?.from ?? context.pos), options };
}

/** Guesses the format of a pasted text that replaces the whole document. */
function pasted({ transactions, changes: made, state }: ViewUpdate): void {
  let inserted = 0;
  made.iterChanges((_from, _to, from, to) => (inserted += to - from));
  if (inserted && inserted === state.doc.length && transactions.some((each) => each.isUserEvent("input.paste"))) {
    control("format").value = guessFormat(state.doc.toString());
    setTimeout(() => control("format").dispatchEvent(new Event("change")));
  }
}

async function main(): Promise<void> {
  const given = isPart ? undefined : await read(location.hash);
  for (const [id, value] of Object.entries({
    target: given?.target,
    size: given?.worldSize,
    reader: given?.consumer,
    format: given?.format,
  })) {
    if (value) {
      control(id).value = String(value);
    }
  }
  if (root.dataset["answers"] && !given) {
    first = new FirstAnswers(root.dataset["answers"], OPENING, format(), jobOptions());
  }
  const syntax = () => language.reconfigure(format() === "yaml" ? yaml() : format() === "sh" ? [] : json());
  const lint = linter(diagnose, { delay: DELAY });
  const rules = new Compartment();
  element("editor").replaceChildren();
  const view = new EditorView({
    parent: element("editor"),
    state: EditorState.create({
      doc: given?.text ?? OPENING,
      extensions: [
        EditorView.cspNonce.of("codemirror"), // for its own style element; the page's policy names it
        basicSetup,
        language.of(json()),
        rules.of(lint),
        lintGutter(),
        hover,
        EditorView.updateListener.of(pasted),
        autocompletion({ override: [complete] }),
        EditorView.contentAttributes.of({ "aria-label": "DeepSpeed config", tabindex: "0" }),
      ],
    }),
  });
  const again = (): void => view.dispatch({ effects: [syntax(), rules.reconfigure(linter(diagnose, { delay: DELAY }))] });
  for (const id of ["target", "size", "reader", "format"]) {
    control(id).addEventListener("change", again);
  }
  const replace = (text: string): void => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
  if (!isPart) {
    tools(replace, again);
  }
  if (!given) {
    await painted();
  }
  engine = await Engine.start();
  document.body.dataset["memory"] = engine.fromSnapshot ? "kept" : "new";
  document.body.dataset["ready"] = String(Math.round(performance.now()));
  again();
  if (!isPart) {
    await navigator.serviceWorker?.register("offline.js");
  }
}

/** Examples, files, the link, and the tabs. */
function tools(replace: (text: string) => void, again: () => void): void {
  const examples = element<HTMLSelectElement>("examples");
  examples.append(...EXAMPLES.map(({ title }, at) => new Option(title, String(at))));
  examples.addEventListener("change", () => {
    const sample = EXAMPLES[Number(examples.value)];
    if (sample) {
      control("format").value = sample.format;
      control("size").value = sample.size ? String(sample.size) : "";
      control("target").value = sample.target ?? "";
      control("reader").value = "";
      replace(sample.text);
      again();
    }
    examples.value = "";
  });
  element("share").addEventListener("click", async ({ currentTarget }) => {
    await navigator.clipboard.writeText(location.href);
    const button = currentTarget as HTMLElement;
    button.textContent = "Link copied";
    setTimeout(() => (button.textContent = "Copy link"), 2000);
  });
  for (const id of ["from", "to"]) {
    control(id).addEventListener("change", () => void show());
  }
  control("file").addEventListener("change", async () => {
    const [file] = control("file").files ?? [];
    if (file) {
      const text = await file.text();
      control("format").value = guessFormat(text, file.name);
      replace(text);
      again();
    }
  });
  for (const button of document.querySelectorAll<HTMLButtonElement>("[data-verb]")) {
    button.addEventListener("click", () => {
      tab = button.dataset["verb"] ?? tab;
      for (const each of document.querySelectorAll("[data-verb]")) {
        each.setAttribute("aria-selected", String(each === button));
      }
      element("span").hidden = tab !== "migrate";
      void show();
    });
  }
}

main().catch((error: unknown) => {
  element("summary").textContent = `dsconfig failed to start: ${error}`;
});
