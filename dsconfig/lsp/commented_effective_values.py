"""Compute the effective values of a config, and render them as JSON with their origins as comments."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dsconfig.launch.located_config import locate_config
from dsconfig.lsp.completion_cursor import config_scope_of
from dsconfig.resolve.effective_values import EffectiveValues, effective_values_of_job
from dsconfig.resolve.errors import ResolveError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dsconfig.lsp.workspace import DocumentSnapshot
    from dsconfig.resolve.values_replaced_by_deepspeed import EffectiveValue


def effective_values(snapshot: DocumentSnapshot, *, every: bool = False) -> EffectiveValues | None:
    """Return the effective values of the config in a document, or None if unknown."""
    job = snapshot.report.job
    try:
        return job and effective_values_of_job(locate_config(snapshot.text.document), job, every=every)
    except (ResolveError, OSError, ValueError):
        return None


def effective_values_by_key(snapshot: DocumentSnapshot) -> Mapping[str, EffectiveValue]:
    """Return the effective values by dotted key, cached per document version."""
    if snapshot.values is None:
        # A program may change its config, so the values in the source need not be the effective ones.
        is_known = config_scope_of(snapshot) is not None and not snapshot.text.document.is_in_program
        result = effective_values(snapshot) if is_known else None
        snapshot.values = {} if result is None else {value.key: value for value in result.values}
    return snapshot.values


# Effective values as commented JSON.

_WIDEST = 48
"""Maximal length of an entry after which comments are still aligned."""


def values_as_commented_json(values: Iterable[EffectiveValue]) -> str:
    """Return the values as nested JSON, with the origin of each as a comment."""
    rows: list[tuple[str, str]] = [("{", "")]
    parent: list[str] = []
    for value in values:
        *path, word = value.key.split(".")
        common = _common_prefix_length(parent, path)
        _close_sections(rows, len(parent), common)
        rows += [(f"{'  ' * (at + 1)}{json.dumps(path[at])}: {{", "") for at in range(common, len(path))]
        parent = path
        text = json.dumps(value.value, ensure_ascii=False, default=str)
        rows.append((f"{'  ' * (len(path) + 1)}{json.dumps(word)}: {text},", value.note))
    _close_sections(rows, len(parent), -1)
    rows[-1] = ("}", "")
    column = max((len(text) for text, note in rows if note and len(text) <= _WIDEST), default=0)
    return "".join(f"{text:{column}}  // {note}\n" if note else f"{text}\n" for text, note in rows)


def _common_prefix_length(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of leading keys that two paths share."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (left, right) in pairs if left != right), min(len(one), len(other)))


def _close_sections(rows: list[tuple[str, str]], depth: int, until: int) -> None:
    """Close all sections deeper than `depth`, dropping the comma after the last entry of each."""
    for level in range(depth, until, -1):
        text, note = rows[-1]
        rows[-1] = text.removesuffix(","), note
        rows.append((f"{'  ' * level}}},", ""))
