"""Typed model of a config from any source, as one release reads it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar, get_args, get_origin

from dsconfig import model
from dsconfig.api.check import check
from dsconfig.check.check import parsed_config
from dsconfig.check.report import Report
from dsconfig.core.releases import NUMBERS, Target
from dsconfig.launch.detect_config import may_be_config
from dsconfig.model.compose import json_object
from dsconfig.model.iter_fields import Field, arms, fields
from dsconfig.model.keyinfo import keys_of, type_named, types_of
from dsconfig.model.section import Section, is_section, plain

if TYPE_CHECKING:
    from dsconfig.check.build_job import MappingSource, ModelSource
    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.launch.config_source import ConfigSource


# From a source to the typed model: what DeepSpeed would see of it, in the eyes of one release.

S = TypeVar("S", bound=Section)
_MOST = 10
"""Lines of an error's message."""
_OF_FIELDS = ("DSC0", "DSC1")
"""Rules about the text, and about keys and types: what can be told of a field without its neighbours."""


class Options(NamedTuple):
    """What `check` takes beside the source."""

    target: str | Target | None = None
    world_size: int | None = None
    consumer: str | None = None
    training_args: MappingSource = None
    model: ModelSource | None = None
    launch: str | os.PathLike[str] | None = None


class ConfigError(ValueError):
    """DeepSpeed refuses the config, or there is none in the source; `report` holds every finding."""

    def __init__(self, report: Report, errors: Iterable[Diagnostic] = ()) -> None:
        found = list(errors) or report.rejections() or report.rejections(suppressed=True)
        lines = [f"{each.code} {each.message}{f' ({each.help})' if each.help else ''}" for each in found]
        if len(lines) > _MOST:
            lines[_MOST - 1 :] = [f"and {len(lines) - _MOST + 1} more"]
        said = lines or [report.why_not_config or "no DeepSpeed config"]
        text = f" {said[0]}" if len(said) == 1 else "\n  ".join(("", *said))
        super().__init__(f"{report.name}:{text}")
        self.report = report
        self._errors = tuple(found)

    def __reduce__(self) -> tuple[type[ConfigError], tuple[Report, tuple[Diagnostic, ...]]]:
        return type(self), (self.report, self._errors)


def read_into(
    section: type[S],
    source: ConfigSource,
    options: Options,
    *,
    fields_only: bool = False,
) -> tuple[S, Report]:
    """The typed model of a source, and the report on it; that on its config, if the source is a launch file.

    Args:
        section: the class to make.
        source: see `check`.
        options: what `check` takes.
        fields_only: whether only what is wrong with a single field is an error.

    Raises:
        ConfigError: the release refuses it.
        BuildError: JSON has nothing for a value of a mapping.
        OSError: the path cannot be read.
    """
    if isinstance(source, Mapping):
        source = json_object(source)
    report = told = check(source, **options._asdict())
    if (
        fields_only
        and report.why_not_config
        and report.document is not None
        and may_be_config(report.document)
    ):
        # Most of its keys are nobody's, as they may be in a file that `to_file` has written.
        data = report.document.value()
        report = check(data, **options._asdict()) if isinstance(data, dict) else report
    while report.children and not report.rejections():
        report = report.children[0]
    assert report.document is not None
    release = NUMBERS[report.target.releases[-1]]
    root = parsed_config(report)
    errors = report.rejections()
    if fields_only:
        errors = [found for found in errors if found.code.startswith(_OF_FIELDS)]
    if errors or report.why_not_config or root is None:
        raise ConfigError(report, errors)
    return construct(section, plain(root), release), told if told.why_not_config else report


# The typed model of what is written, value for value; nothing is validated here.


def construct(section: type[S], data: JsonObject, release: int) -> S:
    """A section with `data` as it is, not validated, and the release's defaults for everything else."""
    known, names = _fields(section), _spellings(section, release)
    json_object: JsonObject = {}
    spelled: dict[str, str] = {}
    extra: JsonObject = {}
    for word, value in data.items():
        field = known.get(names.get(word, word))
        if field is None and word in section.model_fields:  # which somebody's own class adds
            json_object[word] = value
            continue
        if field is None or (word != field.name and field.name in data):
            extra[word] = value
            continue
        json_object[field.attribute] = _typed(field, value, data, release)
        if word != field.name:
            spelled[field.attribute] = word
    made = section.model_construct(
        _fields_set=set(json_object), **{**_defaults(section, release), **json_object}
    )
    made.set_spelling(spelled, extra, tuple(data))
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
