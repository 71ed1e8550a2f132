"""Inlay hints: effective values that differ from the values in the file, and the batch arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.batch_triplet import KEYS
from dsconfig.core.wording import quote_value
from dsconfig.lsp.commented_effective_values import effective_values_by_key
from dsconfig.lsp.completion_cursor import document_path_of_key

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.lsp.workspace import DocumentSnapshot, Workspace
    from dsconfig.resolve.values_replaced_by_deepspeed import EffectiveValue

_CHANGED = ("filled", "derived", "dropped", "converted")


def answer_inlay_hint(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """Answer `textDocument/inlayHint`."""
    snapshot = workspace.snapshot(params["textDocument"]["uri"])
    if snapshot is None or snapshot.report.why_not_config:
        return []
    start, end = snapshot.text.lines.offsets_of(params["range"])
    return [hint for at, hint in _inlay_hints(snapshot) if start <= at <= end]


def _inlay_hints(snapshot: DocumentSnapshot) -> Iterator[tuple[int, JsonObject]]:
    document = snapshot.text.document
    values = effective_values_by_key(snapshot)
    batch = _batch_arithmetic(snapshot)
    for key, value in values.items():
        path = document_path_of_key(snapshot, key)
        node = None if path is None else document.node(path)
        if node is None or node.kind in ("object", "array"):
            continue
        label = _hint_label(value, node.value)
        if batch is not None and key in KEYS:
            label, batch = f"{label} {batch}".strip(), None
        if label:
            yield (
                node.span.end,
                {
                    "position": snapshot.text.lines.position_of(node.span.end),
                    "label": label,
                    "tooltip": value.note,
                    "paddingLeft": True,
                },
            )


def _hint_label(value: EffectiveValue, literal: object) -> str:
    """Return the effective value if it differs from the value in the file, else an empty string."""
    if value.origin not in _CHANGED:
        return ""
    if value.value == literal:
        return value.note.partition(", ")[2] if value.origin == "filled" else ""
    return f"= {quote_value(value.value).strip('`')}"


def _batch_arithmetic(snapshot: DocumentSnapshot) -> str | None:
    """Return the batch arithmetic as text, or None if the world size is unknown."""
    values, size = effective_values_by_key(snapshot), snapshot.world_size
    triplet = [values[key].value for key in KEYS if key in values]
    numbers = [each for each in triplet if isinstance(each, int) and not isinstance(each, bool)]
    if size is None or len(numbers) < len(KEYS):
        return None
    whole, micro, steps = numbers
    ranks = whole / (micro * steps) if micro * steps else 0
    return f"({whole} = {micro} micro × {steps} steps × {ranks:g} ranks)"
