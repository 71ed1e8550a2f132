"""Configs made of others: one value put in its place, one config laid over another, what differs in two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Literal

from dsconfig.core.diagnostic import dotted
from dsconfig.core.json_types import Json, JsonObject, KeyPath, NamedTuple
from dsconfig.model.build_section import BuildError, Problem, not_a_key
from dsconfig.model.keyinfo import keys_of, type_named
from dsconfig.model.section import Section, plain
from dsconfig.model.to_json_value import SAYABLE, NotJsonError, in_json


class Difference(NamedTuple):
    """One place at which two configs differ; None stands for what is not there."""

    path: KeyPath
    kind: Literal["added", "removed", "changed"]
    before: Json
    after: Json

    @property
    def dotted(self) -> str:
        """The path as people write it."""
        return dotted(self.path)


def differences(before: JsonObject, after: JsonObject, above: KeyPath = ()) -> Iterator[Difference]:
    """What has to be done to one config for it to be the other: object by object, lists as a whole."""
    for key, old in before.items():
        path = (*above, key)
        if key not in after:
            yield Difference(path, "removed", old, None)
        elif isinstance(old, dict) and isinstance(after[key], dict):
            yield from differences(old, after[key], path)
        elif _kinds(old) != _kinds(after[key]):
            yield Difference(path, "changed", old, after[key])
    for key, new in after.items():
        if key not in before:
            yield Difference((*above, key), "added", None, new)


def written(given: object) -> JsonObject:
    """What a config or a mapping writes, a value that JSON has for each of Python's.

    Raises:
        BuildError: JSON has nothing for a value.
        TypeError: it is neither.
    """
    if isinstance(given, Section):
        return given.to_dict()
    if not isinstance(given, Mapping):
        raise TypeError(f"expected a Config or a mapping, not {type(given).__name__}")
    found = [_said(key, value) for key, value in given.items()]
    if problems := [each for each in found if isinstance(each, Problem)]:
        raise BuildError("Config", problems)
    return {key: value for each in found if isinstance(each, dict) for key, value in each.items()}


def _said(key: object, value: object) -> JsonObject | Problem:
    try:
        return {str(key): plain(item) for key, item in in_json({key: value}).items()}
    except NotJsonError as error:
        return Problem(dotted(error.path), error.says, SAYABLE, value)


def _kinds(value: Json) -> object:
    """A value that equals another one only where both write the same: `true` is not 1."""
    if isinstance(value, dict):
        return {key: _kinds(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_kinds(item) for item in value]
    return (isinstance(value, bool), value)


def put(section: Section, path: tuple[str, ...], value: object) -> None:
    """Set one value, however deep; sections on the way come into being.

    Raises:
        BuildError: there is no such key, or it does not take the value.
    """
    head, *rest = path
    name = _attribute(section, head)
    inner = getattr(section, name) if name else section.remembered.get(head)
    if rest and isinstance(inner, Section):
        try:
            put(inner, tuple(rest), value)
        except BuildError as error:
            raise _from_above(section, head, error) from None
        return
    for key in reversed(rest):
        value = {key: value}
    if rest and isinstance(inner, dict) and isinstance(value, dict):
        value = _laid_over(inner, value)
    _assign(section, name, head, value)


def by_path(changes: object, mark: str) -> Iterator[tuple[tuple[str, ...], object]]:
    """Values by the keys that lead to them: a path is a tuple of them, or has `mark` between them.

    Raises:
        TypeError: these are no values by path.
    """
    if not isinstance(changes, Mapping):
        raise TypeError(f"expected values by path, not {type(changes).__name__}")
    for path, value in changes.items():
        keys = tuple(path.split(mark)) if isinstance(path, str) else path
        if not (isinstance(keys, tuple) and keys and all(isinstance(key, str) for key in keys)):
            raise TypeError(
                f"expected a path such as `zero_optimization.stage`, or a tuple of keys, not {path!r}"
            )
        yield keys, value


def lay_over(section: Section, other: Section | Mapping[str, object]) -> None:
    """Write everything of `other` into a section: the later wins, sections key by key.

    Params are those of one type: where the type changes, they are not mixed. What another section holds is
    taken as it is, since a file may have it so; what a mapping holds is validated.

    Raises:
        BuildError: there is no such key, or it does not take the value.
        TypeError: `other` is neither a section nor a mapping.
    """
    if not isinstance(other, Section | Mapping):
        raise TypeError(f"expected a Config or a mapping, not {type(other).__name__}")
    held = other.written() if isinstance(other, Section) else None
    given = dict(other) if held is None else {word: value for word, (_, value) in held.items()}
    if _other_type(section, given.get("type")) and "params" in section.model_fields_set:
        section.forget("params")
    for word in sorted(given, key=lambda word: word != "type"):  # by which params are read
        value, name = given[word], _attribute(section, word)
        inner = section.__dict__.get(name) if name else section.remembered.get(word)
        if isinstance(inner, Section) and isinstance(value, Section | Mapping):
            try:
                lay_over(inner, value)
            except BuildError as error:
                raise _from_above(section, word, error) from None
            section.model_fields_set.add(name or word)
        elif isinstance(inner, dict) and isinstance(value, Mapping) and (held is None or not name):
            _assign(section, name, word, _laid_over(inner, value))
        elif held is not None and name:
            if isinstance(inner, dict) and isinstance(value, Mapping):
                value = _laid_over(inner, value)
            section.adopt(name, deepcopy(value), word)
        elif held is not None:
            section.remembered[word] = deepcopy(value)
        else:
            _assign(section, name, word, value)


def _other_type(section: Section, word: object) -> bool:
    old = getattr(section, "type", None)
    kind, other = (type_named(type(section).__name__, each) for each in (old, word))
    return isinstance(word, str) and (kind != other if kind or other else word != old)


def _laid_over(below: Mapping[str, Json], above: Mapping[str, Json]) -> JsonObject:
    """Plain objects, one over the other."""
    made = dict(below)
    for key, value in above.items():
        old = made.get(key)
        made[key] = _laid_over(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
    return made


def _attribute(section: Section, word: str) -> str | None:
    """The attribute that holds a key, whichever of its names is used."""
    if not isinstance(word, str):
        raise BuildError(
            type(section).__name__, (Problem("", f"takes keys that are strings, not `{word!r}`", None, word),)
        )
    if word in type(section).model_fields:
        return word
    keys = keys_of(type(section)).values()
    return next((info.name for info in keys if any(word == alias for alias, _ in info.aliases)), None)


def _assign(section: Section, name: str | None, word: str, value: object) -> None:
    if name is not None:
        setattr(section, name, value)
    elif section.keeps(word):
        section.remembered.update(written({word: value}))
    else:
        says, meant = not_a_key(word, keys_of(type(section)))
        raise BuildError(type(section).__name__, (Problem(word or '""', says, None, value, meant),))


def _from_above(section: Section, key: str, error: BuildError) -> BuildError:
    """The error as the section above tells it: with the whole path."""
    problems = (each._replace(path=f"{key}.{each.path}") for each in error.problems)
    return BuildError(type(section).__name__, problems)
