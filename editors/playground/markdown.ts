/** Inline Markdown of messages and hovers: code, bold text and links. Nothing of it becomes HTML by itself. */

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\((https?:[^)\s]+)\)/g;

/** Nodes of one line. */
export function inline(text: string): (HTMLElement | string)[] {
  const made: (HTMLElement | string)[] = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    made.push(text.slice(at, match.index));
    const [whole, code, bold, label, href] = match;
    if (code !== undefined) {
      made.push(Object.assign(document.createElement("code"), { textContent: code }));
    } else if (bold !== undefined) {
      made.push(Object.assign(document.createElement("strong"), { textContent: bold }));
    } else {
      made.push(Object.assign(document.createElement("a"), { textContent: label, href, target: "_blank", rel: "noopener" }));
    }
    at = match.index + whole.length;
  }
  made.push(text.slice(at));
  return made.filter((each) => each !== "");
}

/** A paragraph for each line, and a list for lines that begin with a dash. */
export function block(text: string): HTMLElement {
  const made = document.createElement("div");
  let list: HTMLElement | undefined;
  for (const line of text.split("\n")) {
    const item = /^\s*[-*] (.*)/.exec(line);
    if (item) {
      list ??= made.appendChild(document.createElement("ul"));
      list.appendChild(document.createElement("li")).append(...inline(item[1] ?? ""));
    } else {
      list = undefined;
      if (line.trim()) {
        made.appendChild(document.createElement("p")).append(...inline(line));
      }
    }
  }
  return made;
}
