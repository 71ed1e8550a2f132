"""Set a config value by path, merge two configs, and compare two configs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Literal

from dsconfig.core.diagnostic import dotted_path
from dsconfig.core.json_types import Json, JsonObject, KeyPath, NamedTuple
from dsconfig.model.build_section import BuildError, BuildProblem, unknown_key_message
from dsconfig.model.key_table import find_type, keys_of_section_or_base
from dsconfig.model.section import Section, to_plain_value
from dsconfig.model.to_json_value import JSON_VALUE, NotJsonError, to_json_value


class ConfigDifference(NamedTuple):
    """A key that differs between two configs; the value None stands for an absent key."""

    path: KeyPath
    kind: Literal["added", "removed", "changed"]
    before: Json
    after: Json

    @property
    def dotted(self) -> str:
        """The path as a string, such as `zero_optimization.stage`."""
        return dotted_path(self.path)


def list_differences(
    before: JsonObject, after: JsonObject, parent: KeyPath = ()
) -> Iterator[ConfigDifference]:
    """Yield the changes that turn `before` into `after`, key by key, treating a list as one value."""
    for key, old in before.items():
        path = (*parent, key)
        if key not in after:
            yield ConfigDifference(path, "removed", old, None)
        elif isinstance(old, dict) and isinstance(after[key], dict):
            yield from list_differences(old, after[key], path)
        elif _comparable_value(old) != _comparable_value(after[key]):
            yield ConfigDifference(path, "changed", old, after[key])
    for key, new in after.items():
        if key not in before:
            yield ConfigDifference((*parent, key), "added", None, new)


def config_as_json_object(config: object) -> JsonObject:
    """Return a config or mapping as a JSON object.

    Raises:
        BuildError: a value has no JSON representation.
        TypeError: the argument is neither a config nor a mapping.
    """
    if isinstance(config, Section):
        return config.to_dict()
    if not isinstance(config, Mapping):
        raise TypeError(f"expected a Config or a mapping, not {type(config).__name__}")
    converted = [_convert_value(key, value) for key, value in config.items()]
    if problems := [each for each in converted if isinstance(each, BuildProblem)]:
        raise BuildError("Config", problems)
    return {key: value for each in converted if isinstance(each, dict) for key, value in each.items()}


def _convert_value(key: object, value: object) -> JsonObject | BuildProblem:
    try:
        return {str(key): to_plain_value(item) for key, item in to_json_value({key: value}).items()}
    except NotJsonError as error:
        return BuildProblem(dotted_path(error.path), error.message, JSON_VALUE, value)


def _comparable_value(value: Json) -> object:
    """Convert a JSON value for comparison, so that `true` and 1 differ."""
    if isinstance(value, dict):
        return {key: _comparable_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_comparable_value(item) for item in value]
    return (isinstance(value, bool), value)


def set_value_by_path(section: Section, path: tuple[str, ...], value: object) -> None:
    """Set the value at a path, creating absent sections along it.

    Raises:
        BuildError: the key is unknown, or does not accept the value.
    """
    head, *rest = path
    name = _attribute_of_key(section, head)
    inner = getattr(section, name) if name else section.unknown_keys.get(head)
    if rest and isinstance(inner, Section):
        try:
            set_value_by_path(inner, tuple(rest), value)
        except BuildError as error:
            raise _error_in_outer_section(section, head, error) from None
        return
    for key in reversed(rest):
        value = {key: value}
    if rest and isinstance(inner, dict) and isinstance(value, dict):
        value = _merge_json_objects(inner, value)
    _assign_attribute(section, name, head, value)


def iter_values_with_paths(changes: object, separator: str) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield values with their paths, which may be tuples of keys or keys joined by `separator`.

    Raises:
        TypeError: the argument is not a mapping, or a path is neither a tuple nor a string.
    """
    if not isinstance(changes, Mapping):
        raise TypeError(f"expected values by path, not {type(changes).__name__}")
    for path, value in changes.items():
        keys = tuple(path.split(separator)) if isinstance(path, str) else path
        if not (isinstance(keys, tuple) and keys and all(isinstance(key, str) for key in keys)):
            raise TypeError(
                f"expected a path such as `zero_optimization.stage`, or a tuple of keys, not {path!r}"
            )
        yield keys, value


def merge_into_section(section: Section, other: Section | Mapping[str, object]) -> None:
    """Merge `other` into a section, key by key also in inner sections; `other` takes precedence.

    Params belong to a type: if the type changes, the old params are removed. The values of a mapping are validated;
    those of a section are not, because it may come from a file.

    Raises:
        BuildError: a key is unknown, or does not accept its value.
        TypeError: `other` is neither a section nor a mapping.
    """
    if not isinstance(other, Section | Mapping):
        raise TypeError(f"expected a Config or a mapping, not {type(other).__name__}")
    set_keys = other.set_keys() if isinstance(other, Section) else None
    values = dict(other) if set_keys is None else {key: value for key, (_, value) in set_keys.items()}
    if _changes_params_type(section, values.get("type")) and "params" in section.model_fields_set:
        section.unset("params")
    # The type comes first, because it determines how params are read.
    for key in sorted(values, key=lambda key: key != "type"):
        value, name = values[key], _attribute_of_key(section, key)
        inner = section.__dict__.get(name) if name else section.unknown_keys.get(key)
        if isinstance(inner, Section) and isinstance(value, Section | Mapping):
            try:
                merge_into_section(inner, value)
            except BuildError as error:
                raise _error_in_outer_section(section, key, error) from None
            section.model_fields_set.add(name or key)
        elif isinstance(inner, dict) and isinstance(value, Mapping) and (set_keys is None or not name):
            _assign_attribute(section, name, key, _merge_json_objects(inner, value))
        elif set_keys is not None and name:
            if isinstance(inner, dict) and isinstance(value, Mapping):
                value = _merge_json_objects(inner, value)
            section.set_unvalidated(name, deepcopy(value), key)
        elif set_keys is not None:
            section.unknown_keys[key] = deepcopy(value)
        else:
            _assign_attribute(section, name, key, value)


def _changes_params_type(section: Section, new: object) -> bool:
    old = getattr(section, "type", None)
    old_kind, new_kind = (find_type(type(section).__name__, each) for each in (old, new))
    return isinstance(new, str) and (old_kind != new_kind if old_kind or new_kind else new != old)


def _merge_json_objects(below: Mapping[str, Json], above: Mapping[str, Json]) -> JsonObject:
    """Merge two JSON objects; the values in `above` take precedence."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = (
            _merge_json_objects(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
        )
    return merged


def _attribute_of_key(section: Section, key: str) -> str | None:
    """Return the attribute for a key, given its name or an alias."""
    if not isinstance(key, str):
        raise BuildError(
            type(section).__name__,
            (BuildProblem("", f"must have strings as keys, not `{key!r}`", None, key),),
        )
    if key in type(section).model_fields:
        return key
    keys = keys_of_section_or_base(type(section)).values()
    return next((info.name for info in keys if any(key == alias for alias, _ in info.aliases)), None)


def _assign_attribute(section: Section, name: str | None, key: str, value: object) -> None:
    if name is not None:
        setattr(section, name, value)
    elif section.allows(key):
        section.unknown_keys.update(config_as_json_object({key: value}))
    else:
        message, similar = unknown_key_message(key, keys_of_section_or_base(type(section)))
        raise BuildError(type(section).__name__, (BuildProblem(key or '""', message, None, value, similar),))


def _error_in_outer_section(section: Section, key: str, error: BuildError) -> BuildError:
    """Convert an error about an inner section to one about the outer section, with full paths."""
    problems = (each._replace(path=f"{key}.{each.path}") for each in error.problems)
    return BuildError(type(section).__name__, problems)
