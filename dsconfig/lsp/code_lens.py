"""Code lenses above a config: resolved batch, memory, accepting releases and effective values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.lsp.execute_command import COMPAT, MEMORY, RESOLVE, SHOW

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.lsp.workspace import Workspace


def answer_code_lens(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """Answer `textDocument/codeLens`."""
    snapshot = workspace.snapshot(params["textDocument"]["uri"])
    if snapshot is None or snapshot.report.why_not_config or snapshot.text.document.root is None:
        return []
    uri, size = snapshot.text.uri, snapshot.likely_world_size
    start, _ = snapshot.text.document.span(snapshot.report.base_path, "key")
    position = snapshot.text.lines.range_between(start, start)
    lenses = (
        (f"resolve at {size} GPU{'s' * (size > 1)}", RESOLVE, [uri, size]),
        ("memory", MEMORY, [uri, size, *([snapshot.job_model] if snapshot.job_model else [])]),
        ("compat", COMPAT, [uri]),
        ("effective values", SHOW, [uri]),
    )
    return [
        {"range": position, "command": {"title": title, "command": command, "arguments": arguments}}
        for title, command, arguments in lenses
    ]
