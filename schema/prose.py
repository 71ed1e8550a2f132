"""The text of `dsconfig/model/_prose.py`: what each key does and where it is read, without the model."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.model import iter_fields
from dsconfig.model.iter_fields import prose
from dsconfig.model.optimizer import OPTIMIZERS
from dsconfig.model.scheduler import SCHEDULERS
from dsconfig.model.section import Section
from dsconfig.schema.sections import of_kind

_HEAD = '''"""Generated from dsconfig/model by `make generate`; do not edit."""

from typing import Any
'''


def text(config: type[Section]) -> str:
    """The whole table, for the root of the model."""
    sections = list(iter_fields.sections(config))
    parts = (_prose(sections), _owners(sections), _means(sections), _sources(sections))
    return "\n".join([_HEAD, *("\n".join([*part, "}", ""]) for part in parts)])


def _prose(sections: list[type[Section]]) -> Iterator[str]:
    """By the class that declares them: the keys with their prose."""
    owners = {field.owner: None for section in sections for field in iter_fields.fields(section)}
    yield "PROSE: dict[str, dict[str, str]] = {"
    for owner in owners:
        yield f"    {owner.__name__!r}: {{"
        for name, told in prose(owner).items():
            if any(field.owner is owner and field.name == name for field in iter_fields.fields(owner)):
                yield f"        {name!r}: {told!r},"
        yield "    },"


def _owners(sections: list[type[Section]]) -> Iterator[str]:
    """By section: the classes that declare its keys, where that is not the section alone."""
    yield "OWNERS: dict[str, tuple[str, ...]] = {"
    for section in sections:
        names = tuple(dict.fromkeys(field.owner.__name__ for field in iter_fields.fields(section)))
        if names not in ((), (section.__name__,)):
            yield f"    {section.__name__!r}: {names!r},"


def _means(sections: list[type[Section]]) -> Iterator[str]:
    """By section and key: the words of the key, each with what it stands for."""
    yield "MEANS: dict[str, dict[str, tuple[tuple[Any, str], ...]]] = {"
    for section in sections:
        found = {field.name: tuple(field.key.means) for field in iter_fields.fields(section)}
        if section.__name__ == "Optimizer":
            found["type"] = tuple((kind.name, of_kind(kind)) for kind in OPTIMIZERS)
        elif section.__name__ == "Scheduler":
            found["type"] = tuple((kind.name, of_kind(kind)) for kind in SCHEDULERS)
        told = {name: means for name, means in found.items() if means}
        if told:
            yield f"    {section.__name__!r}: {told!r},"


def _sources(sections: list[type[Section]]) -> Iterator[str]:
    """By section: where DeepSpeed reads it, and the keys that are read elsewhere."""
    yield "SOURCES: dict[str, tuple[str, dict[str, str]]] = {"
    for section in sections:
        own = {field.name: field.key.source for field in iter_fields.fields(section) if field.key.source}
        yield f"    {section.__name__!r}: {(section.SOURCE, own)!r},"
