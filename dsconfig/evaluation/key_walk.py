"""Walk over a config using one release's key table, and record events that rules turn into messages."""

from __future__ import annotations

from dsconfig.core.json_types import Json, JsonObject, KeyPath, NamedTuple, Spec
from dsconfig.core.releases import EVERY_RELEASE, ReleaseInterval
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.evaluation.coercion import CoercedValue, RejectedValue, coerce, is_unchanged
from dsconfig.model.key_table import KeyView, SectionView, child_section, find_type, section_view_of_release

# The walk judges nothing. It records unknown, rejected, converted, deprecated and "auto" values, and the
# effective value of every key. Rules put the events into words.


class UnreadableValue:
    """Placeholder for a value that rules must not use: it is rejected, or the consumer fills it in."""


UNREADABLE = UnreadableValue()


class KeyWalk:
    """The events and effective values from a walk over a config."""

    def __init__(self, release: int, consumer: str, unfilled: frozenset[str] = frozenset()) -> None:
        self.release, self.consumer = release, consumer
        self.unfilled = unfilled
        """Keys that this version of the consumer does not fill in yet."""
        self.equivalent: ReleaseInterval = EVERY_RELEASE
        """Releases for which the walk has the same outcome."""
        self.unknown: list[UnknownKey] = []
        self.rejected: list[RejectionEvent] = []
        self.coerced: list[CoercionEvent] = []
        self.unresolved_autos: list[KnownKey] = []
        """Keys whose "auto" value is not resolved."""
        self.duplicate_aliases: list[KnownKey] = []
        """Keys under an alias that the file also contains under another name."""
        self.deprecated: list[KnownKey] = []
        self.unused: list[KnownKey] = []
        """Keys that DeepSpeed accepts and never uses."""
        self.values: JsonObject = {}
        """Effective values of the config, nested by canonical key names."""
        self.aliases: dict[KeyPath, KeyPath] = {}
        """Paths of keys that the config spells with an alias, by their canonical paths."""
        self.is_partial = False
        """Whether some values of the config are known only at run time."""

    def view(self, name: str) -> SectionView:
        """Return a section as the release defines it, and narrow the releases for which the walk is valid."""
        section = section_view_of_release(name, self.release)
        self.equivalent = self.equivalent.intersect(section.releases)
        return section

    def section(self, name: str, data: JsonObject, path: KeyPath, canonical: KeyPath) -> JsonObject:
        """Walk over one section, and return its values by canonical key name."""
        section = self.view(name)
        lenient = section
        if _STRICT_ARGUMENT in data:
            # `strict` is an argument of the constructor, so pydantic never sees it as an unknown key.
            lenient = section._replace(unknown="ignored") if section.drops_auto else section
            if data[_STRICT_ARGUMENT]:
                section = section._replace(drops_auto=False)
        if name in _TYPED:
            section = self._section_with_params(section, data)
        values: JsonObject = {}
        # `target` is the canonical path of a key, `source` its path in the file, which may use an alias.
        for word, value in data.items():
            key = section.keys.get(word)
            if key is None:
                self.unknown.append(
                    UnknownKey((*path, word), lenient if word == _STRICT_ARGUMENT else section, value)
                )
                continue
            info = key.info
            if (
                info.hidden_by is not None
                and section.dialect == "hand"
                and _is_hidden_by_replacement(section, key, data)
            ):
                continue
            target = (*canonical, info.name)
            source = (*path, word)
            # Hot path: most keys have no event to record.
            if not info.flags and info.deprecated > self.release and is_unchanged(key.type, value):
                effective = value
            else:
                effective = self._value(KnownKey(source, section, key, value), target)
            if effective is _ABSENT:
                continue
            if info.name in values:
                alias = source if source != target else self.aliases.get(target, source)
                self.duplicate_aliases.append(KnownKey(alias, section, key, value))
            if source != target:
                self.aliases[target] = source
            values[info.name] = effective
        return values

    def _section_with_params(self, section: SectionView, data: JsonObject) -> SectionView:
        """Return the optimizer or scheduler section.

        Its `params` are those of the type, if the release knows the type.
        """
        section_type = find_type(section.name, data.get("type"))
        if section_type is None:
            return section
        self.equivalent = self.equivalent.intersect(section_type.releases.releases_on_same_side(self.release))
        if self.release not in section_type.releases or section_type.params is None:
            return section
        key = section.keys["params"]._replace(type=("section", section_type.params))
        return section._replace(keys={**section.keys, "params": key})

    def _value(self, entry: KnownKey, canonical: KeyPath) -> Json:
        _, section, key, value = entry
        info = key.info
        if "unread" in info.flags:
            self.unused.append(entry)
        elif info.deprecated <= self.release:
            self.deprecated.append(entry)
        if self.is_partial and (_contains_unknown_value(value) or _is_unknown_map(key.type, value)):
            return UNREADABLE
        if value == "auto" and isinstance(value, str):
            if self.consumer in info.fills and ".".join(map(str, canonical)) not in self.unfilled:
                return UNREADABLE
            if "auto_is_value" not in info.flags and (section.drops_auto or not _accepts_auto(key.type)):
                self.unresolved_autos.append(entry)
                if section.drops_auto:
                    return _ABSENT
        return self._read(entry, canonical)

    def _read(self, entry: KnownKey, canonical: KeyPath) -> Json:
        path, section, key, value = entry
        child = child_section(key.type)
        if child is not None and isinstance(value, dict):
            return self.section(child, value, path, canonical)
        if child is not None and section.dialect == "hand":
            return self._read_non_object(entry, child, canonical)
        if child is not None and shapes_of(value) & key.takes:
            return value
        verdict = coerce(key.type, value, section.dialect)
        if isinstance(verdict, RejectedValue):
            self.rejected.append(RejectionEvent(*entry, verdict))
            return value if section.dialect == "hand" else UNREADABLE
        if isinstance(verdict, CoercedValue):
            self.coerced.append(CoercionEvent(*entry, verdict))
            if child is not None and isinstance(verdict.value, dict):
                # pydantic 1 calls `dict(value)` in `BaseModel.validate`: a list of pairs becomes a section.
                return self.section(child, verdict.value, path, canonical)
            # `get_scalar_param` (runtime/config_utils.py) converts nothing: the code uses the value as it is.
            value = value if section.dialect == "hand" else verdict.value
        return self._nested(key.type, value, path, canonical)

    def _read_non_object(self, entry: KnownKey, child: str, canonical: KeyPath) -> Json:
        """Read a section whose value is not an object, as DeepSpeed code without validation does."""
        path, _, key, value = entry
        if shapes_of(value) & key.takes:
            as_object = as_mapping(value) if "mapping" in key.takes else None
            return value if as_object is None else self.section(child, as_object, path, canonical)
        verdict = RejectedValue("null" if value is None else "type", key.type, value)
        self.rejected.append(RejectionEvent(*entry, verdict))
        return UNREADABLE

    def _nested(self, spec: Spec, value: Json, path: KeyPath, canonical: KeyPath) -> Json:
        """Walk over the sections inside lists and maps."""
        if spec[0] == "union":
            spec = next((arm for arm in spec[1:] if arm[0] in ("list", "map")), spec)
        if spec[0] == "map" and isinstance(value, dict):
            child = child_section(spec[1])
            return {
                k: self._walk_element(spec[1], child, v, (*path, k), (*canonical, k))
                for k, v in value.items()
            }
        if spec[0] == "list" and isinstance(value, list):
            child = child_section(spec[1])
            if child is None:
                return value
            return [
                self._walk_element(spec[1], child, v, (*path, i), (*canonical, i))
                for i, v in enumerate(value)
            ]
        return value

    def _walk_element(
        self, spec: Spec, child: str | None, value: Json, path: KeyPath, canonical: KeyPath
    ) -> Json:
        if child is not None and isinstance(value, dict):
            return self.section(child, value, path, canonical)
        return self._nested(spec, value, path, canonical)


def _contains_unknown_value(value: Json) -> bool:
    """Return whether a value or list item is known only at run time, ignoring the keys of sections."""
    return value is UNKNOWN or (isinstance(value, list) and any(map(_contains_unknown_value, value)))


def _is_unknown_map(spec: Spec, value: Json) -> bool:
    """Return whether an object with user-defined names, such as `arg_mappings`, has an unknown value."""
    return (
        isinstance(value, dict)
        and child_section(spec) is None
        and any(map(_contains_unknown_value, value.values()))
    )


_ABSENT = object()
_TYPED = frozenset({"Optimizer", "Scheduler"})
_STRICT_ARGUMENT = "strict"
"""A constructor argument of DeepSpeed's pydantic models that a config can set; if true, every "auto" is kept
(runtime/config_utils.py, `DeepSpeedConfigModel.__init__`).
"""


def _is_hidden_by_replacement(section: SectionView, key: KeyView, data: JsonObject) -> bool:
    """Return whether DeepSpeed ignores a key because the file also sets its replacement."""
    replacement = key.info.hidden_by
    if replacement is None or replacement not in data or replacement not in section.keys:
        return False
    return not (data[replacement] is None and "null" in section.keys[replacement].takes)


def _accepts_auto(spec: Spec) -> bool:
    """Return whether a type accepts "auto", as an enumeration member or as an arbitrary string."""
    if spec[0] == "union":
        return any(_accepts_auto(arm) for arm in spec[1:])
    return spec[0] in ("any", "str", "path") or (spec[0] == "enum" and "auto" in spec[1:])


class UnknownKey(NamedTuple):
    """A key that its section does not define."""

    path: KeyPath
    section: SectionView
    value: Json


class KnownKey(NamedTuple):
    """A key that its section defines."""

    path: KeyPath
    section: SectionView
    key: KeyView
    value: Json


class RejectionEvent(NamedTuple):
    """A value that the release rejects, found by the walk."""

    path: KeyPath
    section: SectionView
    key: KeyView
    value: Json
    verdict: RejectedValue

    @property
    def rejected_path(self) -> KeyPath:
        """The path of the rejected value, or of the rejected element inside it."""
        return (*self.path, *self.verdict.at)


class CoercionEvent(NamedTuple):
    """A value that the release converts to another one, found by the walk."""

    path: KeyPath
    section: SectionView
    key: KeyView
    value: Json
    verdict: CoercedValue

    @property
    def changes_value(self) -> bool:
        """Whether conversion changes the value, unlike 4.0 to 4, which only changes the type."""
        original, value = self.value, self.verdict.value
        numbers = isinstance(original, int | float) and isinstance(value, int | float)
        is_equal = numbers and isinstance(original, bool) == isinstance(value, bool) and original == value
        return not is_equal


# Shapes: what a value can stand for where a section is expected and no object is written.

_JSON_TYPES = (type(None), bool, int, float, str, list, tuple, dict)


def shapes_of(value: Json) -> frozenset[str]:
    """Return the shapes (`dsconfig.model.key.Shape`) under which DeepSpeed may accept a non-object as a section."""
    shapes = {_shape_of(value)}
    if isinstance(value, _JSON_TYPES) and not value:  # numpy raises for the truth value of an array
        shapes.add("falsy")
    if isinstance(value, list | str) and value in ([], "auto"):
        shapes.add("auto" if value else "[]")
    if as_mapping(value) is not None:
        shapes.add("mapping")
    return frozenset(shapes)


def _shape_of(value: Json) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return "string" if isinstance(value, str) else "list" if isinstance(value, list) else "number"


def as_mapping(value: Json) -> dict[Json, Json] | None:
    """Return `dict(value)` for a list or string, like pydantic 1, or None if that fails."""
    if not isinstance(value, list | str):
        return None
    try:
        return dict(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
