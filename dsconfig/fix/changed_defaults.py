"""What changes by itself from one release to another: defaults of keys that are not written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.document.edit import same
from dsconfig.evaluation.context import Context
from dsconfig.model.keyinfo import ROOT, child_section, view

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, KeyPath


def new_defaults(old: Context, new: Context) -> Iterator[tuple[KeyPath, Json, Json]]:
    """Keys that are not written, in sections that are, with the default that was and the one that is."""
    todo: list[tuple[str, JsonObject, KeyPath]] = [(ROOT, new.data, ())]
    while todo:
        section, data, path = todo.pop(0)
        before, after = view(section, old.release).keys, view(section, new.release).keys
        for word, key in before.items():
            here = (*path, word)
            inner = child_section(key.type)
            if inner is not None and isinstance(data.get(word), dict):
                todo.append((inner, data[word], here))
            later = after.get(word)
            if word != key.info.name or later is None or inner is not None or word in data:
                continue
            if "unread" in key.info.flags or same(key.default, later.default):
                continue
            if not path and word in new.overwritten:
                continue
            if not any(alias in data for alias, seen in before.items() if seen.info is key.info):
                yield here, key.default, later.default
