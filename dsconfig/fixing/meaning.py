"""What a config means to an old release, which a later one is to understand as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.checking.patches import same
from dsconfig.diagnostic import Diagnostic, Fix, Remove, Set
from dsconfig.dialect import Coerced
from dsconfig.evaluation.context import Context
from dsconfig.words import quoted

if TYPE_CHECKING:
    from dsconfig.json_types import Json, KeyPath


class Meaning:
    """What the old release makes of the values."""

    def __init__(self, context: Context) -> None:
        self.release = context.release_name
        self.read = {
            event.path: event.verdict.value
            for event in context.walk.coerced
            if isinstance(event.verdict, Coerced)
        }
        self.unread = {event.path for event in context.walk.unknown}

    def fix(self, found: Diagnostic) -> Fix | None:
        """Write what the old release read; drop what it did not read."""
        for length in range(len(found.path), 0, -1):
            path = found.path[:length]
            if path in self.read:
                value = self.read[path]
                return Fix(f"write {quoted(value)}, as {self.release} reads it", (Set(path, value),))
            if path in self.unread:
                return Fix(f"drop `{path[-1]}`, which {self.release} does not read", (Remove(path),))
        return None

    def differs(self, found: Diagnostic, new: Context) -> bool:
        """Whether both releases turn the value into another one, and not into the same."""
        if found.path not in self.read:
            return False
        later = [
            event.verdict.value
            for event in new.walk.coerced
            if event.path == found.path and isinstance(event.verdict, Coerced)
        ]
        return bool(later) and not same(later[0], self.read[found.path])


def had_effect(context: Context, path: KeyPath) -> bool:
    """Whether the old release reads the key, and the key switches something on."""
    if any(event.path == path[: len(event.path)] for event in context.walk.unknown):
        return False
    value: Json = context.data
    for part in path:
        value = value.get(part) if isinstance(value, dict) else value[int(part)]
    return not (value in (None, False) or (isinstance(value, dict) and value.get("enabled") is False))
