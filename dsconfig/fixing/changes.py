"""What a migration changes, and what changes by itself: defaults that are others in a later release."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.checking.patches import same
from dsconfig.diagnostic import dotted
from dsconfig.evaluation.context import Context
from dsconfig.model.keyinfo import ROOT, child_section
from dsconfig.model.views import view
from dsconfig.words import quoted

if TYPE_CHECKING:
    from dsconfig.json_types import JsonObject, KeyPath


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was done or is left to do: where, what, and why."""

    path: KeyPath
    what: str
    why: str


def new_defaults(old: Context, new: Context) -> Iterator[Change]:
    """Keys that are not written, in sections that are, and that now default to something else."""
    todo: list[tuple[str, JsonObject, KeyPath]] = [(ROOT, old.data, ())]
    while todo:
        section, data, path = todo.pop(0)
        before, after = view(section, old.release).keys, view(section, new.release).keys
        for word, key in before.items():
            inner = child_section(key.type)
            if inner is not None and isinstance(data.get(word), dict):
                todo.append((inner, data[word], (*path, word)))
            later = after.get(word)
            if word != key.info.name or later is None or inner is not None or word in data:
                continue
            if "unread" in key.info.flags or same(key.default, later.default):
                continue
            if not any(alias in data for alias, seen in before.items() if seen.info is key.info):
                yield Change(
                    (*path, word),
                    f"set it to {quoted(key.default)} to keep what it was",
                    f"`{dotted((*path, word))}` is not set: its default was {quoted(key.default)} in "
                    f"{old.release_name} and is {quoted(later.default)} in {new.release_name}",
                )
