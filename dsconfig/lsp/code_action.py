"""Code actions: fix of a diagnostic, all safe fixes, a suppression. Every offered fix was verified."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from dsconfig.check.check import recheck
from dsconfig.lsp.diagnostics import lsp_diagnostic
from dsconfig.lsp.text_edit import line_edits, text_edits, workspace_edit

if TYPE_CHECKING:
    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.core.json_types import JsonObject
    from dsconfig.document.text_edit import Edit
    from dsconfig.lsp.workspace import Snapshot, Workspace

KINDS = FIX, FIX_ALL = "quickfix", "source.fixAll.dsconfig"


def answer(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """Answer `textDocument/codeAction`."""
    snapshots = workspace.snapshots(params["textDocument"]["uri"])
    only = params.get("context", {}).get("only")
    actions: list[JsonObject] = []
    for snapshot in snapshots if _is_requested(FIX, only) else ():
        numbers = snapshot.between(*snapshot.text.lines.offsets(params["range"]))
        actions += _quick_fixes(workspace, snapshot, numbers)
    if _is_requested(FIX_ALL, only) and (action := _fix_all(workspace, snapshots)) is not None:
        actions.append(action)
    return actions


def _is_requested(kind: str, only: list[str] | None) -> bool:
    """Whether the editor asks for a kind of actions, by its name or a prefix."""
    return only is None or any(f"{kind}.".startswith(f"{each}.") for each in only)


def _quick_fixes(workspace: Workspace, snapshot: Snapshot, numbers: list[int]) -> Iterator[JsonObject]:
    diagnostics = snapshot.verified(numbers)
    for number, diagnostic in zip(numbers, diagnostics, strict=True):
        edits = snapshot.report.edits(diagnostic)
        if diagnostic.fix is not None and edits:
            yield {
                "title": diagnostic.fix.title if diagnostic.fix.safe else f"{diagnostic.fix.title} (unsafe)",
                "kind": FIX,
                "diagnostics": [lsp_diagnostic(snapshot, number)],
                "isPreferred": diagnostic.fix.safe,
                "edit": workspace_edit(workspace, snapshot.text, edits),
            }
    for number, diagnostic in zip(numbers, diagnostics, strict=True):
        yield from _suppressions(workspace, snapshot, number, diagnostic)


def _suppressions(
    workspace: Workspace, snapshot: Snapshot, number: int, diagnostic: Diagnostic
) -> Iterator[JsonObject]:
    from dsconfig.fix.write_suppressions import accepts_comments, add_suppressions

    document = snapshot.text.document
    suppressed = add_suppressions(
        document, [diagnostic], comments=accepts_comments(document, snapshot.report.consumer)
    )
    if not suppressed.unsuppressed and suppressed.text != document.text:
        yield {
            "title": f"Ignore {diagnostic.code} ({diagnostic.name}) here",
            "kind": FIX,
            "diagnostics": [lsp_diagnostic(snapshot, number)],
            "edit": workspace_edit(workspace, snapshot.text, line_edits(document.text, suppressed.text)),
        }


def _fix_all(workspace: Workspace, snapshots: list[Snapshot]) -> JsonObject | None:
    edits = [edit for snapshot in snapshots for edit in fix_all_edits(snapshot)]
    if not edits:
        return None
    return {
        "title": "Apply all safe fixes",
        "kind": FIX_ALL,
        "edit": workspace_edit(workspace, snapshots[0].text, edits),
    }


def on_save(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """Answer `textDocument/willSaveWaitUntil`: the safe fixes, if the editor's settings enable them."""
    snapshots = workspace.snapshots(params["textDocument"]["uri"])
    if not workspace.configuration.fix_on_save:
        return []
    return [edit for each in snapshots for edit in text_edits(each.text, fix_all_edits(each))]


def fix_all_edits(snapshot: Snapshot) -> list[Edit]:
    """Edits of all safe fixes, applied until none is left."""
    if not any(diagnostic.fix and diagnostic.fix.safe for diagnostic in snapshot.report):
        return []
    from dsconfig.fix.fix import fix_document

    document = snapshot.text.document
    result = fix_document(document, partial(recheck, snapshot.report))
    return line_edits(document.text, result.text)
