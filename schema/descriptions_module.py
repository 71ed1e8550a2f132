"""Generate `descriptions.py`: docstrings of keys, meanings of values, and where DeepSpeed reads each key."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from dsconfig.model import iterate_model_fields
from dsconfig.model.optimizer import OPTIMIZERS, OptimizerTypeInfo
from dsconfig.model.scheduler import SCHEDULERS, SchedulerTypeInfo
from dsconfig.model.section import Section

_HEAD = '''"""Generated from dsconfig/model by `make generate`; do not edit."""

from typing import Any
'''


def render(*roots: type[Section]) -> str:
    """Return the source of the module for the roots of the model."""
    sections = list(
        dict.fromkeys(each for root in roots for each in iterate_model_fields.iter_sections(root))
    )
    tables = (
        _key_docstrings(sections),
        _declaring_classes(sections),
        _value_meanings(sections),
        _source_locations(sections),
    )
    return "\n".join([_HEAD, *("\n".join([*table, "}", ""]) for table in tables)])


def _key_docstrings(sections: list[type[Section]]) -> Iterator[str]:
    """Yield the docstrings of keys by the class that declares them."""
    owners = {
        field.owner: None
        for section in sections
        for field in iterate_model_fields.iter_fields_of_section(section)
    }
    yield "PROSE: dict[str, dict[str, str]] = {"
    for owner in owners:
        yield f"    {owner.__name__!r}: {{"
        for key, text in iterate_model_fields.field_docstrings(owner).items():
            if any(
                field.owner is owner and field.name == key
                for field in iterate_model_fields.iter_fields_of_section(owner)
            ):
                yield f"        {key!r}: {text!r},"
        yield "    },"


def _declaring_classes(sections: list[type[Section]]) -> Iterator[str]:
    """Yield, for sections that inherit keys, the classes that declare them."""
    yield "OWNERS: dict[str, tuple[str, ...]] = {"
    for section in sections:
        names = tuple(
            dict.fromkeys(
                field.owner.__name__ for field in iterate_model_fields.iter_fields_of_section(section)
            )
        )
        if names not in ((), (section.__name__,)):
            yield f"    {section.__name__!r}: {names!r},"


def _value_meanings(sections: list[type[Section]]) -> Iterator[str]:
    """Yield the values of keys with their meanings, by section and key."""
    yield "MEANINGS: dict[str, dict[str, tuple[tuple[Any, str], ...]]] = {"
    for section in sections:
        meanings = {
            field.name: tuple(field.key.means)
            for field in iterate_model_fields.iter_fields_of_section(section)
        }
        if section.__name__ == "Optimizer":
            meanings["type"] = tuple((kind.name, _docstring_of_params(kind)) for kind in OPTIMIZERS)
        elif section.__name__ == "Scheduler":
            meanings["type"] = tuple((kind.name, _docstring_of_params(kind)) for kind in SCHEDULERS)
        documented = {key: values for key, values in meanings.items() if values}
        if documented:
            yield f"    {section.__name__!r}: {documented!r},"


def _docstring_of_params(kind: OptimizerTypeInfo | SchedulerTypeInfo) -> str:
    """Return the docstring of a params class on one line."""
    return " ".join((inspect.getdoc(kind.params) or "").split()) if kind.params else kind.notes


def _source_locations(sections: list[type[Section]]) -> Iterator[str]:
    """Yield the DeepSpeed sources that read each section, and the keys that are read elsewhere."""
    yield "SOURCES: dict[str, tuple[str, dict[str, str]]] = {"
    for section in sections:
        of_keys = {
            field.name: field.key.source
            for field in iterate_model_fields.iter_fields_of_section(section)
            if field.key.source
        }
        yield f"    {section.__name__!r}: {(section.SOURCE, of_keys)!r},"
