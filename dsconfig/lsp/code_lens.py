"""Code lenses above a config: what it comes to at a world size, which releases take it, what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.lsp.execute_command import COMPAT, MEMORY, RESOLVE, SHOW

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.lsp.workspace import Workspace


def answer(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """`textDocument/codeLens`."""
    judged = workspace.judged(params["textDocument"]["uri"])
    if judged is None or judged.report.why_not_config or judged.text.document.root is None:
        return []
    uri, size = judged.text.uri, judged.likely_world_size
    start, _ = judged.text.document.span(judged.report.base_path, "key")
    place = judged.text.lines.range(start, start)
    lenses = (
        (f"resolve at {size} GPU{'s' * (size > 1)}", RESOLVE, [uri, size]),
        ("memory", MEMORY, [uri, size, *([judged.model] if judged.model else [])]),
        ("compat", COMPAT, [uri]),
        ("effective values", SHOW, [uri]),
    )
    return [
        {"range": place, "command": {"title": title, "command": command, "arguments": arguments}}
        for title, command, arguments in lenses
    ]
