/** What is found, as a list below the editor: read without hovering, mended by a tap. */

import type { Diagnostic } from "@codemirror/lint";
import type { EditorView } from "@codemirror/view";

/** All are marked in the text; so many are listed. */
const MOST = 50;

export function listed(view: EditorView, found: readonly Diagnostic[]): HTMLElement[] {
  return found.slice(0, MOST).map((each) => {
    const item = document.createElement("li");
    item.className = each.severity;
    const place = button(`line ${view.state.doc.lineAt(each.from).number}`, () => {
      view.dispatch({ selection: { anchor: each.from }, scrollIntoView: true });
      view.focus();
    });
    item.append(place, each.renderMessage?.(view) ?? each.message);
    for (const { name, apply } of each.actions ?? []) {
      if (!name.startsWith("ignore ")) {
        item.append(button(name, () => apply(view, each.from, each.to)));
      }
    }
    return item;
  });
}

function button(textContent: string, pressed: () => void): HTMLButtonElement {
  const made = Object.assign(document.createElement("button"), { textContent, type: "button" });
  made.addEventListener("click", pressed);
  return made;
}
