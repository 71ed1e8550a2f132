"""The typed model of what is written, value for value; nothing is validated here."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeVar, get_args, get_origin

from dsconfig import model
from dsconfig.model.iter_fields import Field, arms, fields
from dsconfig.model.keyinfo import keys_of, type_named, types_of
from dsconfig.model.section import Section, is_section

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject

S = TypeVar("S", bound=Section)


def construct(section: type[S], data: JsonObject, release: int) -> S:
    """A section with `data` as it is, not validated, and the release's defaults for everything else."""
    known, names = _fields(section), _spellings(section, release)
    written: JsonObject = {}
    spelled: dict[str, str] = {}
    extra: JsonObject = {}
    for word, value in data.items():
        field = known.get(names.get(word, word))
        if field is None and word in section.model_fields:  # which somebody's own class adds
            written[word] = value
            continue
        if field is None or (word != field.name and field.name in data):
            extra[word] = value
            continue
        written[field.attribute] = _typed(field, value, data, release)
        if word != field.name:
            spelled[field.attribute] = word
    made = section.model_construct(_fields_set=set(written), **{**_defaults(section, release), **written})
    made.remember(spelled, extra, tuple(data))
    return made


@cache
def _fields(section: type[Section]) -> dict[str, Field]:
    """The fields of the model's own class, which somebody may have derived this one from."""
    own = next(cls for cls in section.__mro__ if cls.__module__.startswith("dsconfig."))
    return {field.name: field for field in fields(own)}


@cache
def _spellings(section: type[Section], release: int) -> dict[str, str]:
    """The aliases that the release reads."""
    return {
        alias: info.name
        for info in keys_of(section).values()
        for alias, known in info.aliases
        if release in known
    }


def _defaults(section: type[Section], release: int) -> JsonObject:
    """The defaults that differ in the release, here or in a section that is here by default."""
    return {
        attribute: construct(default, {}, release) if is_section(default) else default
        for attribute, default in _differing(section, release)
    }


@cache
def _differing(section: type[Section], release: int) -> tuple[tuple[str, object], ...]:
    """The attributes whose defaults are other ones in a release, or a section: those, or its class."""
    found: list[tuple[str, object]] = []
    for info in keys_of(section).values():
        attribute = _fields(section)[info.name].attribute
        default = section.model_fields[attribute].get_default(call_default_factory=True)
        if isinstance(default, Section):
            found.append((attribute, type(default)))
        elif info.defaults:
            found.append((attribute, info.default_in(release)))
    return tuple(found)


def _typed(field: Field, value: Json, beside: JsonObject, release: int) -> Json:
    """The value with objects turned into the sections that the field's type names."""
    if field.name == "params" and types_of(field.owner.__name__):
        kind = type_named(field.owner.__name__, beside.get("type"))
        if kind is None or kind.params is None or not isinstance(value, dict):
            return value  # the arguments of a class that is not DeepSpeed's are a free mapping
        return construct(getattr(model, kind.params), value, release)
    return _within(field.annotation, value, release)


def _within(annotation: object, value: Json, release: int) -> Json:
    """The value with its objects turned into the sections that the annotation names."""
    for arm in arms(annotation):
        if isinstance(value, dict) and is_section(arm):
            return construct(arm, value, release)
        if isinstance(value, list) and get_origin(arm) is list:
            return [_within(get_args(arm)[0], item, release) for item in value]
        if isinstance(value, dict) and get_origin(arm) is dict:
            return {key: _within(get_args(arm)[1], item, release) for key, item in value.items()}
    return value
