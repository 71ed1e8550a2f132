"""For what a text is checked: an editor's line of state, by a request of ours, `dsconfig/status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.lsp.workspace import Workspace


def answer(workspace: Workspace, params: JsonObject) -> JsonObject | None:
    """What is in force, and where it is from; None: the text is no business of ours."""
    judged = workspace.judged(params["textDocument"]["uri"])
    if judged is None:
        return None
    report = judged.report
    return {
        "target": report.target.text,
        "targetOrigin": report.target.origin,
        "worldSize": judged.world_size,
        "reader": report.reader.name,
        "readerWhy": report.reader.why,
        "model": judged.model,
    }
