"""Holds a config against the key table, for one release: what is known, what is not, what becomes of each
value.

The walk judges nothing. It records events (an unknown key, a value that is refused or coerced, an "auto" that
is dropped) for the rules to put into words, and the values that DeepSpeed ends up with.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dsconfig.dialect import Coerced, Refused, read
from dsconfig.json_types import Json, JsonObject, KeyPath, Spec
from dsconfig.model.keyinfo import KeyView, SectionView, child_section, type_named, view
from dsconfig.releases import EVERY_RELEASE, Interval


class Unreadable:
    """Stands for a value that the release refuses, or that a consumer fills: no rule may reason with it."""


UNREADABLE = Unreadable()


@dataclass(slots=True)
class Event:
    """Something about one key. `key` is None where the section does not know it."""

    path: KeyPath
    section: SectionView
    key: KeyView | None
    value: Json
    verdict: Coerced | Refused | None = None


@dataclass(slots=True)
class Walk:
    """What one walk found. `values` are nested by canonical names, `spelled` leads from those to the written
    path.
    """

    release: int
    consumer: str
    alike: Interval = EVERY_RELEASE
    """Releases for which the walk finds the same."""
    unknown: list[Event] = field(default_factory=list)
    refused: list[Event] = field(default_factory=list)
    coerced: list[Event] = field(default_factory=list)
    autos: list[Event] = field(default_factory=list)
    doubles: list[Event] = field(default_factory=list)
    seen: list[Event] = field(default_factory=list)
    """Keys that are deprecated, or taken and never looked at."""
    values: JsonObject = field(default_factory=dict)
    spelled: dict[KeyPath, KeyPath] = field(default_factory=dict)

    def view(self, name: str) -> SectionView:
        """The section as the release sees it; narrows the releases for which the walk's outcome holds."""
        seen = view(name, self.release)
        self.alike = self.alike.meet(seen.releases)
        return seen

    def section(self, name: str, data: JsonObject, path: KeyPath, canonical: KeyPath) -> JsonObject:
        """Walk one object; returns its values by canonical names."""
        seen = self.view(name)
        loose = seen._replace(unknown="ignored") if seen.drops_auto else seen
        if data.get(_STRICT):
            seen = seen._replace(drops_auto=False)
        if name in _TYPED:
            seen = self._typed(seen, data)
        values: JsonObject = {}
        for word, value in data.items():
            key = seen.keys.get(word)
            if key is None:
                self.unknown.append(Event((*path, word), loose if word == _STRICT else seen, None, value))
                continue
            if seen.dialect == "hand" and _hidden(seen, key, data):
                continue
            here = (*canonical, key.info.name)
            written = (*path, word)
            found = self._value(seen, key, value, written, here)
            if found is _ABSENT:
                continue
            if key.info.name in values:
                alias = written if written != here else self.spelled.get(here, written)
                self.doubles.append(Event(alias, seen, key, value))
            if written != here:
                self.spelled[here] = written
            values[key.info.name] = found
        return values

    def _typed(self, seen: SectionView, data: JsonObject) -> SectionView:
        """The section with the params of its type, where the release knows that type."""
        kind = type_named(seen.name, data.get("type"))
        if kind is None:
            return seen
        self.alike = self.alike.meet(kind.releases.side(self.release))
        if self.release not in kind.releases or kind.params is None:
            return seen
        key = seen.keys["params"]._replace(type=("section", kind.params))
        return seen._replace(keys={**seen.keys, "params": key})

    def _value(self, seen: SectionView, key: KeyView, value: Json, path: KeyPath, canonical: KeyPath) -> Json:
        info = key.info
        event = Event(path, seen, key, value)
        if info.deprecated <= self.release or "unread" in info.flags:
            self.seen.append(event)
        if value == "auto" and isinstance(value, str):
            if self.consumer in info.fills:
                return UNREADABLE
            if seen.drops_auto and "auto_is_value" not in info.flags:
                self.autos.append(event)
                return _ABSENT
            if not info.flags & _TAKES_AUTO and key.type[1:] != ("auto",) and not _mentions_auto(key.type):
                self.autos.append(event)
        return self._read(event, key, value, path, canonical)

    def _read(self, event: Event, key: KeyView, value: Json, path: KeyPath, canonical: KeyPath) -> Json:
        inner = child_section(key.type)
        if inner is not None and isinstance(value, dict):
            return self.section(inner, value, path, canonical)
        if inner is not None and event.section.dialect == "hand":
            return self._misshapen(event, key, value, inner, canonical)
        if inner is not None and shapes_of(value) & key.takes:
            return value
        verdict = read(key.type, value, event.section.dialect)
        if inner is not None and isinstance(verdict, Coerced) and isinstance(verdict.value, dict):
            # A list of pairs, where the dialect makes an object of it.
            event.verdict = verdict
            self.coerced.append(event)
            return self.section(inner, verdict.value, path, canonical)
        if isinstance(verdict, Refused):
            event.verdict = verdict
            self.refused.append(event)
            return value if event.section.dialect == "hand" else UNREADABLE
        if verdict is not None:
            event.verdict = verdict
            self.coerced.append(event)
            # By hand nothing is converted: what is written is what the code goes on with.
            value = value if event.section.dialect == "hand" else verdict.value
        return self._within(key.type, value, path, canonical)

    def _misshapen(self, event: Event, key: KeyView, value: Json, inner: str, canonical: KeyPath) -> Json:
        """A section that is no object, where DeepSpeed opens it by hand."""
        if shapes_of(value) & key.takes:
            made = as_mapping(value) if "mapping" in key.takes else None
            return value if made is None else self.section(inner, made, event.path, canonical)
        event.verdict = Refused("null" if value is None else "type", key.type, value)
        self.refused.append(event)
        return UNREADABLE

    def _within(self, spec: Spec, value: Json, path: KeyPath, canonical: KeyPath) -> Json:
        """Sections inside lists and maps."""
        if spec[0] == "union":
            spec = next((arm for arm in spec[1:] if arm[0] in ("list", "map")), spec)
        if spec[0] == "map" and isinstance(value, dict):
            inner = child_section(spec[1])
            return {k: self._member(spec[1], inner, v, (*path, k), (*canonical, k)) for k, v in value.items()}
        if spec[0] == "list" and isinstance(value, list):
            inner = child_section(spec[1])
            if inner is None:
                return value
            return [self._member(spec[1], inner, v, (*path, i), (*canonical, i)) for i, v in enumerate(value)]
        return value

    def _member(self, spec: Spec, inner: str | None, value: Json, path: KeyPath, canonical: KeyPath) -> Json:
        if inner is not None and isinstance(value, dict):
            return self.section(inner, value, path, canonical)
        return self._within(spec, value, path, canonical)


_ABSENT = object()
_TYPED = frozenset({"Optimizer", "Scheduler"})
_STRICT = "strict"
"""An argument of the constructor of DeepSpeed's pydantic sections, which a config can set: true keeps every
"auto" (runtime/config_utils.py, `DeepSpeedConfigModel.__init__`).
"""
_TAKES_AUTO = frozenset({"auto_is_value"})


def _hidden(seen: SectionView, key: KeyView, data: JsonObject) -> bool:
    """Whether the key is not looked at, because another one is written beside it."""
    other = key.info.hidden_by
    if other is None or other not in data or other not in seen.keys:
        return False
    return not (data[other] is None and "null" in seen.keys[other].takes)


def _mentions_auto(spec: Spec) -> bool:
    """Whether "auto" is one of the values of the type, or any text is."""
    if spec[0] == "union":
        return any(_mentions_auto(arm) for arm in spec[1:])
    return spec[0] in ("any", "str", "path") or (spec[0] == "enum" and "auto" in spec[1:])


def shapes_of(value: Json) -> frozenset[str]:
    """The names (`dsconfig.model.key.Shape`) under which a value may be taken for a section."""
    shapes = {_shape(value)}
    if not value:
        shapes.add("falsy")
    if value in ([], "auto"):
        shapes.add("auto" if value else "[]")
    if as_mapping(value) is not None:
        shapes.add("mapping")
    return frozenset(shapes)


def _shape(value: Json) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return "string" if isinstance(value, str) else "list" if isinstance(value, list) else "number"


def as_mapping(value: Json) -> dict[Json, Json] | None:
    """What Python's `dict()` makes of a list or a string, as pydantic 1 calls it; None where it refuses."""
    if not isinstance(value, list | str):
        return None
    try:
        return dict(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
