"""Code actions: the fix of a finding, all safe fixes, a suppression. What is offered was tried."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from dsconfig.check.check import recheck
from dsconfig.lsp.diagnostics import item
from dsconfig.lsp.text_edit import between, text_edits, workspace_edit

if TYPE_CHECKING:
    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.core.json_types import JsonObject
    from dsconfig.document.text_edit import Edit
    from dsconfig.lsp.workspace import Judged, Workspace

KINDS = FIX, FIX_ALL = "quickfix", "source.fixAll.dsconfig"


def answer(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """`textDocument/codeAction`."""
    judged = workspace.judged(params["textDocument"]["uri"])
    if judged is None:
        return []
    only = params.get("context", {}).get("only")
    found: list[JsonObject] = []
    if _is_wanted(FIX, only):
        numbers = judged.between(*judged.text.lines.offsets(params["range"]))
        found += _of_findings(workspace, judged, numbers)
    if _is_wanted(FIX_ALL, only) and (action := _all(workspace, judged)) is not None:
        found.append(action)
    return found


def _is_wanted(kind: str, only: list[str] | None) -> bool:
    """Whether actions of a kind are asked for: by its name or the start of it."""
    return only is None or any(f"{kind}.".startswith(f"{each}.") for each in only)


def _of_findings(workspace: Workspace, judged: Judged, numbers: list[int]) -> Iterator[JsonObject]:
    shown = judged.proven(numbers)
    for number, found in zip(numbers, shown, strict=True):
        edits = judged.report.edits(found)
        if found.fix is not None and edits:
            yield {
                "title": found.fix.title if found.fix.safe else f"{found.fix.title} (unsafe)",
                "kind": FIX,
                "diagnostics": [item(judged, number)],
                "isPreferred": found.fix.safe,
                "edit": workspace_edit(workspace, judged.text, edits),
            }
    for number, found in zip(numbers, shown, strict=True):
        yield from _suppressions(workspace, judged, number, found)


def _suppressions(
    workspace: Workspace, judged: Judged, number: int, found: Diagnostic
) -> Iterator[JsonObject]:
    from dsconfig.fix.write_suppressions import accepts_comments, add_suppressions

    document = judged.text.document
    done = add_suppressions(document, [found], comments=accepts_comments(document, judged.report.consumer))
    if not done.unsuppressed and done.text != document.text:
        yield {
            "title": f"ignore {found.code} ({found.name}) here",
            "kind": FIX,
            "diagnostics": [item(judged, number)],
            "edit": workspace_edit(workspace, judged.text, between(document.text, done.text)),
        }


def _all(workspace: Workspace, judged: Judged) -> JsonObject | None:
    edits = fixed(judged)
    if not edits:
        return None
    return {
        "title": "fix all that dsconfig can fix safely",
        "kind": FIX_ALL,
        "edit": workspace_edit(workspace, judged.text, edits),
    }


def on_save(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """`textDocument/willSaveWaitUntil`: the safe fixes, where the editor's settings wish for them."""
    judged = workspace.judged(params["textDocument"]["uri"])
    if judged is None or not workspace.configuration.fix_on_save:
        return []
    return text_edits(judged.text, fixed(judged))


def fixed(judged: Judged) -> list[Edit]:
    """The edits that make every safe fix, until nothing is left to fix."""
    if not any(found.fix and found.fix.safe for found in judged.report):
        return []
    from dsconfig.fix.fix import fix_document

    document = judged.text.document
    done = fix_document(document, partial(recheck, judged.report))
    return between(document.text, done.text)
