"""Effective values of a config and the origin of each, also as a config of their own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dsconfig.launch.located_config import locate
from dsconfig.lsp.cursor import scope
from dsconfig.resolve.effective_values import Shown, effective_in
from dsconfig.resolve.errors import ResolveError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dsconfig.lsp.workspace import Judged
    from dsconfig.resolve.replaced_values import Value


# What the values of a config come to: the effective ones, and where each comes from.


def shown(judged: Judged, *, every: bool = False) -> Shown | None:
    """The effective values of the config in a text; None where they cannot be told."""
    job = judged.report.job
    try:
        return job and effective_in(locate(judged.text.document), job, every=every)
    except (ResolveError, OSError, ValueError):
        return None


def by_key(judged: Judged) -> Mapping[str, Value]:
    """The effective values by their dotted keys, told once of each version of a text."""
    if judged.values is None:
        found = None if scope(judged) is None else shown(judged)
        judged.values = {} if found is None else {value.key: value for value in found.values}
    return judged.values


# Effective values as a config of their own: each behind its key, with a remark of where it comes from.

_WIDEST = 48
"""Characters of an entry behind which its remark is not aligned with the others."""


def nested(values: Iterable[Value]) -> str:
    """The values as JSON with comments, sections within each other."""
    rows: list[tuple[str, str]] = [("{", "")]
    around: list[str] = []
    for each in values:
        *path, word = each.key.split(".")
        common = _common(around, path)
        _close(rows, len(around), common)
        rows += [(f"{'  ' * (at + 1)}{json.dumps(path[at])}: {{", "") for at in range(common, len(path))]
        around = path
        written = json.dumps(each.value, ensure_ascii=False, default=str)
        rows.append((f"{'  ' * (len(path) + 1)}{json.dumps(word)}: {written},", each.note))
    _close(rows, len(around), -1)
    rows[-1] = ("}", "")
    wide = max((len(text) for text, note in rows if note and len(text) <= _WIDEST), default=0)
    return "".join(f"{text:{wide}}  // {note}\n" if note else f"{text}\n" for text, note in rows)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many parts two paths begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (mine, its) in pairs if mine != its), min(len(one), len(other)))


def _close(rows: list[tuple[str, str]], depth: int, until: int) -> None:
    """End the sections below a depth; the last entry of each has no comma."""
    for level in range(depth, until, -1):
        text, note = rows[-1]
        rows[-1] = text.removesuffix(","), note
        rows.append((f"{'  ' * level}}},", ""))
