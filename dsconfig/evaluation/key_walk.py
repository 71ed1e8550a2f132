"""Walk over a config beside the key table of one release, and the events that rules put into words."""

from __future__ import annotations

from dsconfig.core.json_types import Json, JsonObject, KeyPath, NamedTuple, Spec
from dsconfig.core.releases import EVERY_RELEASE, Interval
from dsconfig.document.tree import UNKNOWN
from dsconfig.evaluation.coercion import Coerced, Refused, read
from dsconfig.model.keyinfo import KeyView, SectionView, child_section, type_named, view

# Walks a config beside the key table of one release, and notes what becomes of each key and value.
#
# The walk judges nothing. It notes what is unknown, refused, coerced, "auto" or out of date, for the rules
# to put into words, and the values that DeepSpeed ends up with.


class Unreadable:
    """Stands for a value that the release refuses, or that a consumer fills: no rule may reason with it."""


UNREADABLE = Unreadable()


class Walk:
    """What one walk found."""

    def __init__(self, release: int, consumer: str, unfilled: frozenset[str] = frozenset()) -> None:
        self.release, self.consumer = release, consumer
        self.unfilled = unfilled
        """Keys that the consumer's version does not fill yet."""
        self.alike: Interval = EVERY_RELEASE
        """Releases for which the walk finds the same."""
        self.unknown: list[UnknownKey] = []
        self.refused: list[Refusal] = []
        self.coerced: list[Coercion] = []
        self.autos: list[KnownKey] = []
        """Values "auto" that nobody fills."""
        self.doubles: list[KnownKey] = []
        """Aliases of a key that is written under another name too."""
        self.deprecated: list[KnownKey] = []
        self.unread: list[KnownKey] = []
        """Keys that are taken, and never looked at."""
        self.values: JsonObject = {}
        """What the release ends up with, nested by canonical names."""
        self.spelled: dict[KeyPath, KeyPath] = {}
        """The paths as written of keys under an alias, by their canonical paths."""
        self.is_partial = False
        """Whether some values are only known at run time."""

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
                self.unknown.append(UnknownKey((*path, word), loose if word == _STRICT else seen, value))
                continue
            if seen.dialect == "hand" and _hidden(seen, key, data):
                continue
            here = (*canonical, key.info.name)
            written = (*path, word)
            found = self._value(KnownKey(written, seen, key, value), here)
            if found is _ABSENT:
                continue
            if key.info.name in values:
                alias = written if written != here else self.spelled.get(here, written)
                self.doubles.append(KnownKey(alias, seen, key, value))
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

    def _value(self, entry: KnownKey, canonical: KeyPath) -> Json:
        _, seen, key, value = entry
        info = key.info
        if "unread" in info.flags:
            self.unread.append(entry)
        elif info.deprecated <= self.release:
            self.deprecated.append(entry)
        if self.is_partial and _holds_unknown(value):
            return UNREADABLE
        if value == "auto" and isinstance(value, str):
            if self.consumer in info.fills and ".".join(map(str, canonical)) not in self.unfilled:
                return UNREADABLE
            if "auto_is_value" not in info.flags and (seen.drops_auto or not _takes_auto(key.type)):
                self.autos.append(entry)
                if seen.drops_auto:
                    return _ABSENT
        return self._read(entry, canonical)

    def _read(self, entry: KnownKey, canonical: KeyPath) -> Json:
        path, seen, key, value = entry
        inner = child_section(key.type)
        if inner is not None and isinstance(value, dict):
            return self.section(inner, value, path, canonical)
        if inner is not None and seen.dialect == "hand":
            return self._misshapen(entry, inner, canonical)
        if inner is not None and shapes_of(value) & key.takes:
            return value
        verdict = read(key.type, value, seen.dialect)
        if isinstance(verdict, Refused):
            self.refused.append(Refusal(*entry, verdict))
            return value if seen.dialect == "hand" else UNREADABLE
        if isinstance(verdict, Coerced):
            self.coerced.append(Coercion(*entry, verdict))
            if inner is not None and isinstance(verdict.value, dict):
                # A list of pairs, where the dialect makes an object of it.
                return self.section(inner, verdict.value, path, canonical)
            # By hand nothing is converted: what is written is what the code goes on with.
            value = value if seen.dialect == "hand" else verdict.value
        return self._within(key.type, value, path, canonical)

    def _misshapen(self, entry: KnownKey, inner: str, canonical: KeyPath) -> Json:
        """A section that is not an object, where DeepSpeed opens it by hand."""
        path, _, key, value = entry
        if shapes_of(value) & key.takes:
            made = as_mapping(value) if "mapping" in key.takes else None
            return value if made is None else self.section(inner, made, path, canonical)
        verdict = Refused("null" if value is None else "type", key.type, value)
        self.refused.append(Refusal(*entry, verdict))
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


def _holds_unknown(value: Json) -> bool:
    """Whether a value, or an entry of a list, is only known at run time; a section is looked into key by key."""
    return value is UNKNOWN or (isinstance(value, list) and any(map(_holds_unknown, value)))


_ABSENT = object()
_TYPED = frozenset({"Optimizer", "Scheduler"})
_STRICT = "strict"
"""An argument of the constructor of DeepSpeed's pydantic sections, which a config can set: true keeps every
"auto" (runtime/config_utils.py, `DeepSpeedConfigModel.__init__`).
"""


def _hidden(seen: SectionView, key: KeyView, data: JsonObject) -> bool:
    """Whether the key is not looked at, because another one is written beside it."""
    other = key.info.hidden_by
    if other is None or other not in data or other not in seen.keys:
        return False
    return not (data[other] is None and "null" in seen.keys[other].takes)


def _takes_auto(spec: Spec) -> bool:
    """Whether "auto" is one of the values of the type, or any text is."""
    if spec[0] == "union":
        return any(_takes_auto(arm) for arm in spec[1:])
    return spec[0] in ("any", "str", "path") or (spec[0] == "enum" and "auto" in spec[1:])


# What the walk notes of a key, for the rules to put into words.


class UnknownKey(NamedTuple):
    """A key that the section does not know."""

    path: KeyPath
    section: SectionView
    value: Json


class KnownKey(NamedTuple):
    """A key that the section knows."""

    path: KeyPath
    section: SectionView
    key: KeyView
    value: Json


class Refusal(NamedTuple):
    """A value that the release does not take."""

    path: KeyPath
    section: SectionView
    key: KeyView
    value: Json
    verdict: Refused

    @property
    def place(self) -> KeyPath:
        """The path of the very part that is refused: the value, or something in it."""
        return (*self.path, *self.verdict.at)


class Coercion(NamedTuple):
    """A value that the release takes as another one."""

    path: KeyPath
    section: SectionView
    key: KeyView
    value: Json
    verdict: Coerced

    @property
    def changes_value(self) -> bool:
        """Whether the release goes on with another value: 4.0 for 4 is the same number in another type."""
        written, value = self.value, self.verdict.value
        numbers = isinstance(written, int | float) and isinstance(value, int | float)
        alike = numbers and isinstance(written, bool) == isinstance(value, bool) and written == value
        return not alike


# Shapes of values: what stands where a section belongs and is no object, and a copy that never raises.

_OF_JSON = (type(None), bool, int, float, str, list, tuple, dict)


def shapes_of(value: Json) -> frozenset[str]:
    """The names (`dsconfig.model.key.Shape`) under which a value may be taken for a section."""
    shapes = {_shape(value)}
    if isinstance(value, _OF_JSON) and not value:  # of an array of numpy the truth value raises
        shapes.add("falsy")
    if isinstance(value, list | str) and value in ([], "auto"):
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
