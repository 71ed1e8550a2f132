"""The keys of a config one by one, those that are written and the defaults of those that are not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.model.keyinfo import ROOT, KeyView, SectionView, child_section, type_named, view
from dsconfig.resolve.replaced_values import Origins, Value

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, Spec

_HIDDEN = frozenset({"internal", "not_json", "unread"})
_DEEPEST = 6
"""Sections nested deeper than any real one: a section that holds its own kind would never end."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Which keys are listed: the written ones, and defaults by `every` and `keys`; see `effective`."""

    origins: Origins
    every: bool
    keys: tuple[str, ...]

    def values(self) -> Iterator[Value]:
        """The values asked for, sections in the order of the file and then of the model."""
        root = view(ROOT, self._release)
        return (value for value in self._section(root, self.origins.data, ()) if self._wanted(value.key))

    @property
    def _release(self) -> int:
        return self.origins.written.release

    def _wanted(self, key: str) -> bool:
        return not self.keys or any(f"{key}.".startswith(f"{name}.") for name in self.keys)

    def _section(
        self, section: SectionView, data: Mapping[str, Json], path: tuple[str, ...]
    ) -> Iterator[Value]:
        canonical = set()
        for word, value in data.items():
            key = section.keys.get(word)
            if key is None:
                yield self.origins.of_unknown(section, value, (*path, word))
            else:
                canonical.add(key.info.name)
                yield from self._written(key, value, (*path, word), data)
        for name in dict.fromkeys(key.info.name for key in section.keys.values()):
            if name not in canonical:
                yield from self._default(section.keys[name], (*path, name))

    def _written(
        self, key: KeyView, value: Json, path: tuple[str, ...], siblings: Mapping[str, Json]
    ) -> Iterator[Value]:
        kind = type_named(key.info.section, siblings.get("type")) if path[-1] == "params" else None
        inner = (kind.params if kind else None) or child_section(key.type)
        if inner is not None and isinstance(value, dict) and path not in self.origins.verdicts:
            yield from self._section(view(inner, self._release), value, path)
            return
        named = _section_of_each(key.type)
        if named is not None and isinstance(value, dict) and value and path not in self.origins.verdicts:
            for name, item in value.items():
                if isinstance(item, dict):
                    yield from self._section(view(named, self._release), item, (*path, name))
                else:
                    yield self.origins.of_key(key, item, (*path, name))
            return
        found = self.origins.of_key(key, value, path)
        yield found
        if inner is not None and found.origin == "written":
            yield from self._default(key, path)

    def _default(self, key: KeyView, path: tuple[str, ...]) -> Iterator[Value]:
        """The key that is not written; at the top and in sections of their own only where asked for.

        What is derived from something that is written is listed in any case.
        """
        asked = self.every or any(_within(path, name) for name in self.keys)
        if key.info.flags & _HIDDEN or key.info.deprecated <= self._release:
            return
        inner = child_section(key.type)
        if inner is None:
            found = self.origins.of_default(key, path)
            if asked or len(path) > 1 or found.origin == "derived":
                yield found
        elif len(path) < _DEEPEST and (asked or self.origins.leads_to(path)):
            values = self._section(view(inner, self._release), {}, path)
            yield from (value for value in values if asked or value.origin == "derived")


def _section_of_each(spec: Spec) -> str | None:
    """The section class of the entries of a map, whose keys are names of one's own."""
    arms = spec[1:] if spec[0] == "union" else (spec,)
    return next((child_section(arm[1]) for arm in arms if arm[0] == "map"), None)


def _within(path: tuple[str, ...], name: str) -> bool:
    """Whether one of the two keys is the other, or in it."""
    dotted = ".".join(path)
    return f"{dotted}.".startswith(f"{name}.") or f"{name}.".startswith(f"{dotted}.")
