/** Diagnostics as a list below the editor, readable without hovering and fixable by a tap. */

import type { Diagnostic } from "@codemirror/lint";
import type { EditorView } from "@codemirror/view";

/** Limit of the list; all diagnostics are marked in the text. */
const MOST = 50;

export function listed(view: EditorView, diagnostics: readonly Diagnostic[]): HTMLElement[] {
  return diagnostics.slice(0, MOST).map((each) => {
    const item = document.createElement("li");
    item.className = each.severity;
    const place = button(`line ${view.state.doc.lineAt(each.from).number}`, () => {
      view.dispatch({ selection: { anchor: each.from }, scrollIntoView: true });
      view.focus();
    });
    item.append(Object.assign(document.createElement("b"), { textContent: each.severity }), place, each.renderMessage?.(view) ?? each.message);
    for (const { name, apply } of each.actions ?? []) {
      if (!name.startsWith("Ignore ")) {
        item.append(button(name, () => apply(view, each.from, each.to)));
      }
    }
    return item;
  });
}

function button(textContent: string, onClick: () => void): HTMLButtonElement {
  const result = Object.assign(document.createElement("button"), { textContent, type: "button" });
  result.addEventListener("click", onClick);
  return result;
}
