"""Construct the typed model of a config from any source, as one release reads it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar, get_args, get_origin

from dsconfig import model
from dsconfig.api.check import check
from dsconfig.check.check import config_as_release_parses_it
from dsconfig.check.report import Report
from dsconfig.core.releases import NUMBERS, ReleaseTarget
from dsconfig.launch.classify_config_file import may_be_config
from dsconfig.model.config_operations import config_as_json_object
from dsconfig.model.iterate_model_fields import ModelField, iter_fields_of_section, union_arms
from dsconfig.model.key_table import find_type, keys_of_section_or_base, types_of_section
from dsconfig.model.section import Section, is_section, to_plain_value

if TYPE_CHECKING:
    from dsconfig.check.build_job import MappingSource, ModelSource
    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.launch.config_source import ConfigSource


# From a source to the typed model.

S = TypeVar("S", bound=Section)
_MAX_LINES = 10
"""Maximal number of lines of an error message."""
_FIELD_RULES = ("DSC0", "DSC1")
"""Code prefixes of rules about the text, keys and types, which need no other keys."""


class CheckArguments(NamedTuple):
    """The arguments of `check` other than the source."""

    target: str | ReleaseTarget | None = None
    world_size: int | None = None
    consumer: str | None = None
    training_args: MappingSource = None
    model: ModelSource | None = None
    launch: str | os.PathLike[str] | None = None
    job: int | None = None


class ConfigError(ValueError):
    """DeepSpeed rejects the config, or the source contains none; `report` has every diagnostic."""

    def __init__(self, report: Report, errors: Iterable[Diagnostic] = ()) -> None:
        diagnostics = list(errors) or report.rejections() or report.rejections(suppressed=True)
        lines = [
            f"{each.code} {each.message}{f' ({each.help})' if each.help else ''}" for each in diagnostics
        ]
        if len(lines) > _MAX_LINES:
            lines[_MAX_LINES - 1 :] = [f"and {len(lines) - _MAX_LINES + 1} more"]
        messages = lines or [report.why_not_config or "no DeepSpeed config"]
        text = f" {messages[0]}" if len(messages) == 1 else "\n  ".join(("", *messages))
        super().__init__(f"{report.name}:{text}")
        self.report = report
        self._errors = tuple(diagnostics)

    def __reduce__(self) -> tuple[type[ConfigError], tuple[Report, tuple[Diagnostic, ...]]]:
        return type(self), (self.report, self._errors)


def read_typed_config(
    section: type[S],
    source: ConfigSource,
    options: CheckArguments,
    *,
    fields_only: bool = False,
) -> tuple[S, Report]:
    """Return the typed model of a source, and the report on its config.

    Args:
        section: class to instantiate.
        source: see `check`.
        options: arguments of `check`.
        fields_only: whether only problems of single fields are errors.

    Raises:
        ConfigError: the release rejects the config.
        BuildError: JSON cannot represent a value of a mapping.
        OSError: the path cannot be read.
    """
    if isinstance(source, Mapping):
        source = config_as_json_object(source)
    report = source_report = _report_on_one_job(check(source, **options._asdict()))
    if (
        fields_only
        and report.why_not_config
        and report.document is not None
        and may_be_config(report.document)
    ):
        # Most of its keys are unknown, which `to_file` can write: check it as a dict, without detection.
        data = report.document.value()
        report = check(data, **options._asdict()) if isinstance(data, dict) else report
    while report.children and not report.rejections():
        report = report.children[0]
    assert report.document is not None
    release = NUMBERS[report.target.releases[-1]]
    root = config_as_release_parses_it(report)
    errors = report.rejections()
    if fields_only:
        errors = [diagnostic for diagnostic in errors if diagnostic.code.startswith(_FIELD_RULES)]
    if errors or report.why_not_config or root is None:
        raise ConfigError(report, errors)
    return construct_section(
        section, to_plain_value(root), release
    ), source_report if source_report.why_not_config else report


def _report_on_one_job(report: Report) -> Report:
    """Return the report on the first job with a config; warn if there are several jobs."""
    if not report.jobs:
        return report
    number, first = next(
        ((index, each) for index, each in enumerate(report.jobs, 1) if not each.why_not_config),
        (1, report.jobs[0]),
    )
    warnings.warn(
        f"{report.name} has {len(report.jobs)} jobs; this is the config of job {number}, `job` selects another one",
        stacklevel=4,
    )
    return first


# Typed model of the written values, without validation.


def construct_section(section: type[S], data: JsonObject, release: int) -> S:
    """Build a section from `data` without validation; absent keys get the release's defaults."""
    known_fields, names = _model_fields(section), _aliases_read_by_release(section, release)
    values: JsonObject = {}
    spelled: dict[str, str] = {}
    extra: JsonObject = {}
    for word, value in data.items():
        field = known_fields.get(names.get(word, word))
        if field is None and word in section.model_fields:  # added by a user's subclass
            values[word] = value
            continue
        if field is None or (word != field.name and field.name in data):
            extra[word] = value
            continue
        values[field.attribute] = _to_field_type(field, value, data, release)
        if word != field.name:
            spelled[field.attribute] = word
    instance = section.model_construct(
        _fields_set=set(values), **{**_defaults_of_release(section, release), **values}
    )
    instance.set_spelling(spelled, extra, tuple(data))
    return instance


@cache
def _model_fields(section: type[Section]) -> dict[str, ModelField]:
    """Return the fields of the model class that `section` is or derives from."""
    base = next(cls for cls in section.__mro__ if cls.__module__.startswith("dsconfig."))
    return {field.name: field for field in iter_fields_of_section(base)}


@cache
def _aliases_read_by_release(section: type[Section], release: int) -> dict[str, str]:
    """Return the aliases of a section's keys that the release accepts."""
    return {
        alias: info.name
        for info in keys_of_section_or_base(section).values()
        for alias, releases in info.aliases
        if release in releases
    }


def _defaults_of_release(section: type[Section], release: int) -> JsonObject:
    """Return the release's defaults where they differ from the model's, including those of nested sections."""
    return {
        attribute: construct_section(default, {}, release) if is_section(default) else default
        for attribute, default in _differing_defaults(section, release)
    }


@cache
def _differing_defaults(section: type[Section], release: int) -> tuple[tuple[str, object], ...]:
    """Return the attributes whose default may differ in a release, with that default or its section class."""
    result: list[tuple[str, object]] = []
    for info in keys_of_section_or_base(section).values():
        attribute = _model_fields(section)[info.name].attribute
        default = section.model_fields[attribute].get_default(call_default_factory=True)
        if isinstance(default, Section):
            result.append((attribute, type(default)))
        elif info.defaults:
            result.append((attribute, info.default_in(release)))
    return tuple(result)


def _to_field_type(field: ModelField, value: Json, siblings: JsonObject, release: int) -> Json:
    """Convert the objects in a value to sections according to the field's type."""
    if field.name == "params" and types_of_section(field.owner.__name__):
        params_type = find_type(field.owner.__name__, siblings.get("type"))
        if params_type is None or params_type.params is None or not isinstance(value, dict):
            return value  # the arguments of a class that is not DeepSpeed's are a free mapping
        return construct_section(getattr(model, params_type.params), value, release)
    return _objects_to_sections(field.annotation, value, release)


def _objects_to_sections(annotation: object, value: Json, release: int) -> Json:
    """Convert the objects in a value to the sections named by an annotation."""
    for arm in union_arms(annotation):
        if isinstance(value, dict) and is_section(arm):
            return construct_section(arm, value, release)
        if isinstance(value, list) and get_origin(arm) is list:
            return [_objects_to_sections(get_args(arm)[0], item, release) for item in value]
        if isinstance(value, dict) and get_origin(arm) is dict:
            return {key: _objects_to_sections(get_args(arm)[1], item, release) for key, item in value.items()}
    return value
