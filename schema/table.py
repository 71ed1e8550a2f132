"""The text of `dsconfig/model/_table.py`: the model as plain literals, read by `dsconfig.model.keyinfo`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from dsconfig.model import spec, walk
from dsconfig.model.key import Key, Reads
from dsconfig.model.optimizer import OPTIMIZERS, OptimizerType
from dsconfig.model.scheduler import SCHEDULERS, SchedulerType
from dsconfig.model.section import Section
from dsconfig.releases import NEVER, number

Lines: TypeAlias = Iterator[str]

_HEAD = '''"""Generated from dsconfig/model by `make generate`; do not edit."""

from typing import Any
'''
_FLAGS = ("auto_is_value", "fold_case", "unread", "internal", "not_json")


def text(config: type[Section]) -> str:
    """The whole table, for the root of the model."""
    sections = list(walk.sections(config))
    parts = (_sections(sections), _variants(sections), _types())
    return "\n".join([_HEAD, *("\n".join([*part, "}", ""]) for part in parts)])


def _sections(sections: list[type[Section]]) -> Lines:
    yield "SECTIONS: dict[str, tuple[tuple[tuple[Any, ...], ...], dict[str, tuple[Any, ...]]]] = {"
    for section in sections:
        yield f"    {section.__name__!r}: ("
        yield f"        {_reads(section.READS)!r},"
        yield "        {"
        for field in walk.fields(section):
            yield f"            {field.name!r}: {_entry(field)!r},"
        yield "        },"
        yield "    ),"


def _variants(sections: list[type[Section]]) -> Lines:
    yield "VARIANTS: dict[str, tuple[str, ...]] = {"
    for section in sections:
        names = tuple(child.__name__ for child in walk.variants(section))
        if names:
            yield f"    {section.__name__!r}: {names!r},"


def _types() -> Lines:
    """By section: the types that DeepSpeed knows, as they are compared, with the class of their params."""
    yield "TYPES: dict[str, dict[str, tuple[Any, ...]]] = {"
    yield "    'Optimizer': {"
    for kind in OPTIMIZERS:
        yield f"        {kind.name.lower()!r}: {(*_type(kind), kind.gpu, kind.cpu)!r},"
    yield "    },"
    yield "    'Scheduler': {"
    for one in SCHEDULERS:
        yield f"        {one.name!r}: {(*_type(one), one.name, one.name)!r},"
    yield "    },"


def _type(kind: OptimizerType | SchedulerType) -> tuple[Any, ...]:
    params = kind.params.__name__ if kind.params else None
    return kind.name, params, number(kind.since), _last(kind.until)


def _reads(reads: tuple[Reads, ...]) -> tuple[tuple[Any, ...], ...]:
    return tuple((number(r.since), _last(r.until), r.by, r.unknown, r.drops_auto) for r in reads)


def _last(until: str | None) -> int:
    return NEVER if until is None else number(until)


def _entry(field: walk.Field) -> tuple[Any, ...]:
    """Type, default, spans, and by name whatever else is said of the key."""
    key = field.key
    spans = key.spans or ((key.since, key.until),)
    more = {"required": field.required, **_dated(key), **_plain(key)}
    said = {name: value for name, value in more.items() if value not in (None, False, ())}
    return field.spec, field.default, tuple((number(since), _last(until)) for since, until in spans), said


def _dated(key: Key) -> dict[str, Any]:
    """What differs between releases, with the numbers of the releases."""
    return {
        "was": tuple((number(was.until), spec.of(was.type)) for was in key.was),
        "defaults": tuple((number(last), value) for last, value in key.defaults),
        "aliases": tuple((a.name, number(a.since), _last(a.until)) for a in key.aliases),
        "takes": tuple((t.shapes, number(t.since), _last(t.until)) for t in key.takes),
        "refused_from": number(key.refused_from) if key.refused_from else None,
        "deprecated": number(key.deprecated) if key.deprecated else None,
        "only": tuple((only.builds, _last(only.until)) for only in key.only),
    }


def _plain(key: Key) -> dict[str, Any]:
    """What goes into the table as it stands."""
    return {
        "replaced_by": key.replaced_by,
        "fills": key.fills,
        "unit": key.unit,
        "known": key.known,
        "flags": tuple(flag for flag in _FLAGS if getattr(key, flag)),
        "wrong_type": key.wrong_type,
    }
