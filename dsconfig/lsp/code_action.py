"""Code actions: apply a verified fix, apply all safe fixes, or add a suppression."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from dsconfig.check.check import recheck_text
from dsconfig.lsp.diagnostics import to_lsp_diagnostic
from dsconfig.lsp.workspace import line_by_line_edits, to_text_edits, to_workspace_edit

if TYPE_CHECKING:
    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.core.json_types import JsonObject
    from dsconfig.document.text_edit import TextEdit
    from dsconfig.lsp.workspace import DocumentSnapshot, Workspace

KINDS = FIX, FIX_ALL = "quickfix", "source.fixAll.dsconfig"


def answer_code_action(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """Answer `textDocument/codeAction`."""
    snapshots = workspace.snapshots(params["textDocument"]["uri"])
    only = params.get("context", {}).get("only")
    actions: list[JsonObject] = []
    for snapshot in snapshots if _is_kind_requested(FIX, only) else ():
        numbers = snapshot.diagnostics_between(*snapshot.text.lines.offsets_of(params["range"]))
        actions += _quick_fix_actions(workspace, snapshot, numbers)
    if _is_kind_requested(FIX_ALL, only) and (action := _fix_all_action(workspace, snapshots)) is not None:
        actions.append(action)
    return actions


def _is_kind_requested(kind: str, only: list[str] | None) -> bool:
    """Return whether the editor requests a kind of code action, by its name or a prefix of it."""
    return only is None or any(f"{kind}.".startswith(f"{each}.") for each in only)


def _quick_fix_actions(
    workspace: Workspace, snapshot: DocumentSnapshot, numbers: list[int]
) -> Iterator[JsonObject]:
    diagnostics = snapshot.verified_diagnostics(numbers)
    for number, diagnostic in zip(numbers, diagnostics, strict=True):
        edits = snapshot.report.edits(diagnostic)
        if diagnostic.fix is not None and edits:
            yield {
                "title": diagnostic.fix.title if diagnostic.fix.safe else f"{diagnostic.fix.title} (unsafe)",
                "kind": FIX,
                "diagnostics": [to_lsp_diagnostic(snapshot, number)],
                "isPreferred": diagnostic.fix.safe,
                "edit": to_workspace_edit(workspace, snapshot.text, edits),
            }
    for number, diagnostic in zip(numbers, diagnostics, strict=True):
        yield from _suppression_actions(workspace, snapshot, number, diagnostic)


def _suppression_actions(
    workspace: Workspace, snapshot: DocumentSnapshot, number: int, diagnostic: Diagnostic
) -> Iterator[JsonObject]:
    from dsconfig.fix.write_suppressions import add_suppressions, file_accepts_comments

    document = snapshot.text.document
    suppressed = add_suppressions(
        document, [diagnostic], comments=file_accepts_comments(document, snapshot.report.consumer)
    )
    if not suppressed.unsuppressed and suppressed.text != document.text:
        yield {
            "title": f"Ignore {diagnostic.code} ({diagnostic.name}) here",
            "kind": FIX,
            "diagnostics": [to_lsp_diagnostic(snapshot, number)],
            "edit": to_workspace_edit(
                workspace, snapshot.text, line_by_line_edits(document.text, suppressed.text)
            ),
        }


def _fix_all_action(workspace: Workspace, snapshots: list[DocumentSnapshot]) -> JsonObject | None:
    edits = [edit for snapshot in snapshots for edit in fix_all_edits(snapshot)]
    if not edits:
        return None
    return {
        "title": "Apply all safe fixes",
        "kind": FIX_ALL,
        "edit": to_workspace_edit(workspace, snapshots[0].text, edits),
    }


def answer_will_save(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """Answer `textDocument/willSaveWaitUntil` with the safe fixes, if enabled in the editor's settings."""
    snapshots = workspace.snapshots(params["textDocument"]["uri"])
    if not workspace.configuration.fix_on_save:
        return []
    return [edit for each in snapshots for edit in to_text_edits(each.text, fix_all_edits(each))]


def fix_all_edits(snapshot: DocumentSnapshot) -> list[TextEdit]:
    """Return the edits that apply all safe fixes."""
    if not any(diagnostic.fix and diagnostic.fix.safe for diagnostic in snapshot.report):
        return []
    from dsconfig.fix.apply_fixes import fix_document

    document = snapshot.text.document
    result = fix_document(document, partial(recheck_text, snapshot.report))
    return line_by_line_edits(document.text, result.text)
