/** Output of commands: columns as a table, and a diff side by side. */

import { inline } from "./markdown";

const element = <K extends keyof HTMLElementTagNameMap>(tag: K, className = "", ...inner: (Node | string)[]): HTMLElementTagNameMap[K] => {
  const made = Object.assign(document.createElement(tag), { className });
  made.append(...inner);
  return made;
};

const COLUMNS = /^(\S+) {2,}(\S.*?) {2,}(\S.*)$/;

/** Effective values as a table of key, value and origin; other lines stay text. */
export function* values(lines: readonly string[]): Generator<HTMLElement> {
  let body: HTMLElement | undefined;
  for (const line of lines) {
    const row = COLUMNS.exec(line);
    if (!row) {
      body = undefined;
      if (line.trim()) {
        yield element("p", "", ...inline(line));
      }
      continue;
    }
    if (!body) {
      body = element("tbody");
      const heads = ["Key", "Value", "Origin"].map((each) => Object.assign(element("th", "", each), { scope: "col" }));
      yield element("table", "values", element("thead", "", element("tr", "", ...heads)), body);
    }
    const [, key = "", value = "", origin = ""] = row;
    const isDefault = /^default\b/.test(origin);
    body.append(
      element("tr", isDefault ? "default" : "", element("td", "", element("code", "", ...broken(key))),
        element("td", "", element("code", "", value)), element("td", "", ...inline(origin))),
    );
  }
}

/** A key that may break after its dots and underscores. */
function* broken(key: string): Generator<Node | string> {
  for (const part of key.split(/(?<=[._])/)) {
    yield part;
    yield document.createElement("wbr");
  }
}

/** A unified diff as two columns, before and after; lines before the first hunk stay text. */
export function* sides(lines: readonly string[]): Generator<HTMLElement> {
  let removed: string[] = [];
  let added: string[] = [];
  let table: HTMLElement | undefined;
  const cell = (text: string | undefined, kind: "del" | "ins" | "span") =>
    element("td", text === undefined ? "none" : kind, text === undefined ? "" : element(kind, "", text || " "));
  const flush = (): void => {
    for (let at = 0; at < Math.max(removed.length, added.length); at += 1) {
      table?.append(element("tr", "", cell(removed[at], "del"), cell(added[at], "ins")));
    }
    [removed, added] = [[], []];
  };
  for (const line of lines) {
    if (/^(---|\+\+\+) /.test(line)) {
      continue;
    }
    if (line.startsWith("@@")) {
      flush();
      table = element("tbody");
      const heads = ["Before", "After"].map((each) => Object.assign(element("th", "", each), { scope: "col" }));
      yield element("table", "sides", element("thead", "", element("tr", "", ...heads)), table);
    } else if (table && line.startsWith("-")) {
      removed.push(line.slice(1));
    } else if (table && line.startsWith("+")) {
      added.push(line.slice(1));
    } else if (table && line.startsWith(" ")) {
      flush();
      table.append(element("tr", "", cell(line.slice(1), "span"), cell(line.slice(1), "span")));
    } else if (line.trim()) {
      flush();
      table = undefined;
      yield element("p", "", ...inline(line));
    }
  }
  flush();
}
