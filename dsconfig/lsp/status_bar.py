"""Answer `dsconfig/status`: a document's target, world size and consumer, for an editor's status bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.job.consumers.consumer_versions import unknown_version_note

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.lsp.workspace import Workspace


def answer_status(workspace: Workspace, params: JsonObject) -> JsonObject | None:
    """Answer `dsconfig/status`, or None if the document is not a config."""
    snapshot = workspace.snapshot(params["textDocument"]["uri"])
    if snapshot is None:
        return None
    report = snapshot.report
    return {
        "target": report.target.text,
        "targetOrigin": report.target.origin,
        "worldSize": snapshot.world_size,
        "reader": report.reader.name,
        "readerWhy": report.reader.why,
        "readerNote": unknown_version_note(report.reader.name, report.reader.version),
        "model": snapshot.job_model,
    }
