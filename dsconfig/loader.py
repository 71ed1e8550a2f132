"""`load`: the typed model of a file, or all that speaks against it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from dsconfig.checker import Report, check
from dsconfig.diagnostic import Effect
from dsconfig.model.base import Section
from dsconfig.model.config import Config
from dsconfig.model.keyinfo import section_keys
from dsconfig.model.optimizer import OPTIMIZERS
from dsconfig.model.scheduler import SCHEDULERS
from dsconfig.model.walk import Field, fields
from dsconfig.releases import Target

S = TypeVar("S", bound=Section)


class ConfigError(ValueError):
    """DeepSpeed refuses the config; `report` holds every finding."""

    def __init__(self, report: Report) -> None:
        refusals = [found for found in report if found.effect is Effect.REJECTED]
        first = refusals[0]
        more = f" (and {len(refusals) - 1} more)" if len(refusals) > 1 else ""
        super().__init__(f"{report.name}: {first.code} {first.message}{more}")
        self.report = report


def load(
    source: str | bytes | os.PathLike[str] | Mapping[str, Any],
    target: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
) -> Config:
    """Read a config into the typed model.

    The model holds what is written, value for value, so that `.to_dict()` gives it back; keys that the model
    does not know are kept too. Attributes that are not written hold DeepSpeed's defaults.

    Args:
        source: a path, text, bytes or a dict; see `check`, as for the other arguments.

    Raises:
        ConfigError: DeepSpeed refuses the config in one of the target's releases.
        OSError: the path cannot be read.
    """
    report = check(source, target, world_size, consumer)
    if any(found.effect is Effect.REJECTED for found in report):
        raise ConfigError(report)
    assert report.document is not None
    data = report.document.value("hjson" if report.consumer == "deepspeed" else "json")
    assert isinstance(data, dict)  # anything else is refused above
    return construct(Config, data)


def construct(section: type[S], data: dict[str, Any]) -> S:
    """A section holding `data` as it is, without validation; sections inside become sections."""
    known = {field.name: field for field in fields(section)}
    canonical = {name: info.name for info in section_keys(section.__name__).values() for name in _names(info)}
    values: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for word, value in data.items():
        field = known.get(canonical.get(word, word))
        if field is None:
            extra[word] = value
        else:
            values[field.attribute] = _typed(field, value, data)
    made = section.model_construct(_fields_set=set(values), **values)
    if extra:
        object.__setattr__(made, "__pydantic_extra__", extra)
    return made


def _names(info: Any) -> list[str]:
    return [info.name, *(alias for alias, _, _ in info.aliases)]


def _typed(field: Field, value: Any, siblings: dict[str, Any]) -> Any:
    """The value with objects turned into the sections that the field's type names."""
    if field.name == "params" and isinstance(value, dict):
        chosen = _params_class(field, siblings.get("type"))
        if chosen is not None:
            return construct(chosen, value)
    return _within(field.annotation, value)


def _params_class(field: Field, kind: Any) -> type[Section] | None:
    """The params class of the type named beside, where the types have classes of their own."""
    if not isinstance(kind, str):
        return None
    known: list[tuple[str, type[Section] | None]] = [(entry.name, entry.params) for entry in OPTIMIZERS]
    known += [(entry.name, entry.params) for entry in SCHEDULERS]
    bases = tuple(_sections(field.annotation))
    named = [cls for name, cls in known if cls is not None and name.lower() == kind.lower()]
    return next((cls for cls in named if issubclass(cls, bases)), None)


def _within(annotation: Any, value: Any) -> Any:
    if isinstance(value, dict):
        sections = _sections(annotation)
        if sections:
            return construct(sections[0], value)
    if isinstance(value, list | dict):
        inner = _element(annotation, type(value))
        return value if inner is None else _each(inner, value)
    return value


def _each(inner: Any, value: list[Any] | dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_within(inner, item) for item in value]
    return {key: _within(inner, item) for key, item in value.items()}


def _sections(annotation: Any) -> list[type[Section]]:
    """Section classes that an annotation names directly, in unions too, but not inside lists and maps."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    if getattr(annotation, "__origin__", None) in (list, dict):
        return []
    return [found for arm in get_args(annotation) for found in _sections(arm)]


def _element(annotation: Any, container: type) -> Any:
    """The type of the elements of a list, or of the values of a map, that an annotation names."""
    origin = getattr(annotation, "__origin__", None)
    if origin is container:
        return get_args(annotation)[-1]
    if origin in (list, dict):
        return None
    return next((e for arm in get_args(annotation) if (e := _element(arm, container)) is not None), None)
