"""Where a key that a section does not know was meant to stand."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from dsconfig.diagnostic import dotted
from dsconfig.model.keyinfo import ROOT, child_section, section_keys, types_of, view
from dsconfig.rules._similar import SHORT

if TYPE_CHECKING:
    from dsconfig.json_types import KeyPath


@lru_cache(maxsize=8)
def _homes(release: int) -> dict[str, list[str]]:
    """Every key name that the release reads, with its dotted paths; free-form objects are left out."""
    homes: dict[str, list[str]] = {}

    def visit(section: str, path: tuple[str, ...]) -> None:
        for word, key in view(section, release).keys.items():
            if word == key.info.name:
                homes.setdefault(word, []).append(".".join((*path, word)))
                inner = child_section(key.type)
                if inner:
                    visit(inner, (*path, word))

    visit(ROOT, ())
    return homes


def home_of(word: str, parent: KeyPath, release: int) -> str | None:
    """The one place where the release reads a key of this name; of several, that inside or above `parent`."""
    inside = _param_of_type(word, parent, release)
    if inside is not None:
        return inside
    found = _homes(release).get(word, [])
    if len(found) > 1:
        above = dotted(parent)
        near = [
            path
            for path in found
            if path.startswith(f"{above}.") or above.startswith(path.rpartition(".")[0])
        ]
        found = near if len(near) == 1 and len(word) > SHORT else []
    return found[0] if len(found) == 1 and word not in _COMMON else None


_WITH_TYPES: dict[KeyPath, str] = {("optimizer",): "Optimizer", ("scheduler",): "Scheduler"}


def _param_of_type(word: str, parent: KeyPath, release: int) -> str | None:
    """The place of a key beside `type` that belongs among the params of an optimizer or a scheduler."""
    section = _WITH_TYPES.get(parent)
    for kind in types_of(section).values() if section else ():
        key = section_keys(kind.params).get(word) if kind.params else None
        if key is not None and key.read_in(release):
            return f"{dotted(parent)}.params.{word}"
    return None


_COMMON = frozenset({"enabled", "type", "params", "name", "names", "config", "version", "size", "mode"})
