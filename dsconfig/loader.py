"""`load`: the typed model of a config, or the findings that rule it out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, TypeVar, get_args, get_origin

from dsconfig import model
from dsconfig.checking.check import check
from dsconfig.checking.report import Report
from dsconfig.evaluation.context import Context, Source
from dsconfig.model.config import Config
from dsconfig.model.keyinfo import section_keys, type_named, types_of
from dsconfig.model.section import Section, is_section
from dsconfig.model.walk import Field, arms, fields
from dsconfig.releases import NUMBERS, Target

if TYPE_CHECKING:
    from dsconfig.json_types import Json, JsonObject

S = TypeVar("S", bound=Section)


class ConfigError(ValueError):
    """DeepSpeed refuses the config; `report` holds every finding."""

    def __init__(self, report: Report) -> None:
        refusals = report.refusals() or report.refusals(silenced=True)
        first = refusals[0]
        more = f" (and {len(refusals) - 1} more)" if len(refusals) > 1 else ""
        super().__init__(f"{report.name}: {first.code} {first.message}{more}")
        self.report = report


def load(
    source: str | bytes | os.PathLike[str] | Mapping[str, Json],
    target: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
) -> Config:
    """Read a config into the typed model, with the eyes of the target's newest release.

    The model holds what is written, value for value, so that `.to_dict()` gives it back; keys that the model
    does not know are kept too. Attributes that are not written hold that release's defaults.

    Args:
        source: a path, text, bytes or a dict; see `check`.
        target: a release or a range; see `check`.
        world_size: number of ranks; see `check`.
        consumer: who reads the file; see `check`.

    Raises:
        ConfigError: DeepSpeed refuses the config in one of the target's releases, and the config does not
            silence that finding itself.
        OSError: the path cannot be read.
    """
    report = check(source, target, world_size, consumer)
    assert report.document is not None
    release = NUMBERS[report.target.releases[-1]]
    seen = Context(Source(report.document, report.consumer, report.world_size), release)
    if report.refusals() or not seen.is_config:
        raise ConfigError(report)
    return construct(Config, seen.data, release)


def construct(section: type[S], data: JsonObject, release: int) -> S:
    """A section with `data` as it is, not validated, and the release's defaults for everything else."""
    known = _fields(section)
    names = _spellings(section.__name__, release)
    written: JsonObject = {}
    spelled: dict[str, str] = {}
    extra: JsonObject = {}
    for word, value in data.items():
        field = known.get(names.get(word, word))
        if field is None or (word != field.name and field.name in data):
            extra[word] = value
            continue
        written[field.attribute] = _typed(field, value, data, release)
        if word != field.name:
            spelled[field.attribute] = word
    made = section.model_construct(_fields_set=set(written), **{**_defaults(section, release), **written})
    made.remember(spelled, extra)
    return made


@cache
def _fields(section: type[Section]) -> dict[str, Field]:
    return {field.name: field for field in fields(section)}


@cache
def _spellings(section: str, release: int) -> dict[str, str]:
    """The aliases that the release reads."""
    return {
        alias: info.name
        for info in section_keys(section).values()
        for alias, known in info.aliases
        if release in known
    }


def _defaults(section: type[Section], release: int) -> JsonObject:
    """The defaults that differ in the release, here or in a section that is here by default."""
    found: JsonObject = {}
    for info in section_keys(section.__name__).values():
        field = _fields(section)[info.name]
        default = section.model_fields[field.attribute].get_default(call_default_factory=True)
        if isinstance(default, Section):
            found[field.attribute] = construct(type(default), {}, release)
        elif info.defaults:
            found[field.attribute] = info.default_in(release)
    return found


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
