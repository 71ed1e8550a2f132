"""What a config means to the release that it was written for: the measure of every change to it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import Diagnostic, Fix, Remove, Set
from dsconfig.core.wording import quoted
from dsconfig.document.edit import same
from dsconfig.evaluation.coercion import Coerced
from dsconfig.evaluation.context import MISSING, Context

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, KeyPath


class Meaning:
    """What a release makes of the values."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.release = context.release_name
        self.read = readings(context)
        self.unread = {event.path for event in context.walk.unknown if event.section.unknown != "kept"}

    def fix(self, found: Diagnostic, data: JsonObject, gone: set[KeyPath]) -> Fix | None:
        """Write what the old release read; drop what it did not read.

        `data` is the config as it stands, `gone` what is dropped from it for another finding already.
        """
        for path in (found.path, *(each.path for each in found.related)):
            if (unread := self.ignored(path)) is None or unread in gone:
                continue
            if self._untouched(unread, data):
                gone.add(unread)
                return Fix(f"remove `{unread[-1]}`, which {self.release} does not read", (Remove(unread),))
        for length in range(len(found.path), 0, -1):
            path = found.path[:length]
            if path in self.read and self._untouched(path, data):
                value = self.read[path]
                return Fix(f"write {quoted(value)}, as {self.release} reads it", (Set(path, value),))
        return None

    def ignored(self, path: KeyPath) -> KeyPath | None:
        """The outermost key on the way that the release does not read; None where it reads the whole path."""
        ways = (path[:length] for length in range(1, len(path) + 1))
        return next((way for way in ways if way in self.unread), None)

    def effective(self, path: KeyPath) -> bool:
        """Whether the release reads the key, and the key switches something on."""
        if self.ignored(path) is not None:
            return False
        value = at(self.context.data, path)
        off = isinstance(value, dict) and value.get("enabled") is False
        return not (value in (MISSING, None, False) or value in ({}, []) or off)

    def _untouched(self, path: KeyPath, data: JsonObject) -> bool:
        written = at(self.context.data, path)
        return written is not MISSING and same(at(data, path), written)

    @cached_property
    def values(self) -> dict[KeyPath, tuple[KeyPath, Json]]:
        """What the release ends up with and where it is written, by canonical paths to the leaves."""
        return {path: (written, value) for path, written, value in _leaves(self.context, self.read)}


def readings(context: Context) -> dict[KeyPath, Json]:
    """What the release reads where something else is written; never in place of "auto"."""
    return {
        event.path: event.verdict.value
        for event in context.walk.coerced
        if isinstance(event.verdict, Coerced) and event.value != "auto"
    }


def at(data: Json, path: KeyPath) -> Json:
    """What stands at a path; MISSING where nothing does."""
    for part in path:
        if isinstance(data, dict):
            data = data.get(part, MISSING)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return MISSING
    return data


def _leaves(context: Context, read: dict[KeyPath, Json]) -> Iterator[tuple[KeyPath, KeyPath, Json]]:
    spelled = context.walk.spelled
    todo: list[tuple[KeyPath, KeyPath, Json]] = [((), (), context.walk.values)]
    while todo:
        path, written, value = todo.pop()
        if isinstance(value, dict):
            for word, inner in value.items():
                here = (*path, word)
                todo.append((here, spelled.get(here, (*written, word)), inner))
        else:
            yield path, written, read.get(written, value)
