"""Inlay hints: what a value becomes where that is not what is written, and the arithmetic of the batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.batch_triplet import KEYS
from dsconfig.core.wording import quoted
from dsconfig.lsp.cursor import config_path
from dsconfig.lsp.effective_values import by_key

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.lsp.workspace import Judged, Workspace
    from dsconfig.resolve.replaced_values import Value

_CHANGED = ("filled", "derived", "dropped", "converted")


def answer(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """`textDocument/inlayHint`."""
    judged = workspace.judged(params["textDocument"]["uri"])
    if judged is None or judged.report.why_not_config:
        return []
    start, end = judged.text.lines.offsets(params["range"])
    return [hint for at, hint in _hints(judged) if start <= at <= end]


def _hints(judged: Judged) -> Iterator[tuple[int, JsonObject]]:
    document = judged.text.document
    values = by_key(judged)
    batch = _arithmetic(judged)
    for key, value in values.items():
        path = config_path(judged, key)
        node = None if path is None else document.node(path)
        if node is None or node.kind in ("object", "array"):
            continue
        label = _label(value, node.value)
        if batch is not None and key in KEYS:
            label, batch = f"{label} {batch}".strip(), None
        if label:
            yield (
                node.span.end,
                {
                    "position": judged.text.lines.position(node.span.end),
                    "label": label,
                    "tooltip": value.note,
                    "paddingLeft": True,
                },
            )


def _label(value: Value, written: object) -> str:
    """What becomes of what is written; empty where it stays as it is."""
    if value.origin not in _CHANGED:
        return ""
    if value.value == written:
        return value.note.partition(", ")[2] if value.origin == "filled" else ""
    return f"= {quoted(value.value).strip('`')}"


def _arithmetic(judged: Judged) -> str | None:
    """The batch as it comes about, where the world size is known."""
    values, size = by_key(judged), judged.world_size
    batch = [values[key].value for key in KEYS if key in values]
    numbers = [each for each in batch if isinstance(each, int) and not isinstance(each, bool)]
    if size is None or len(numbers) < len(KEYS):
        return None
    whole, micro, steps = numbers
    ranks = whole / (micro * steps) if micro * steps else 0
    return f"({whole} = {micro} micro × {steps} steps × {ranks:g} ranks)"
