"""The text of `dsconfig/model/_table.py`: the model as plain literals, read by `dsconfig.model.keyinfo`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias, get_type_hints

from dsconfig.core.json_types import Json
from dsconfig.core.releases import NEVER, PYDANTIC_2, number
from dsconfig.model import iter_fields
from dsconfig.model.key import Key, Reads, Switch
from dsconfig.model.optimizer import OPTIMIZERS, OptimizerType
from dsconfig.model.scheduler import SCHEDULERS, SchedulerType
from dsconfig.model.section import Section, is_section

Lines: TypeAlias = Iterator[str]

_HEAD = '''"""Generated from dsconfig/model by `make generate`; do not edit."""

from typing import Any
'''
_FLAGS = tuple(name for name, kind in get_type_hints(Key).items() if kind is bool)


def text(config: type[Section]) -> str:
    """The whole table, for the root of the model."""
    sections = list(iter_fields.sections(config))
    parts = (_sections(sections), _variants(sections), _types(), _miswritten(config))
    return "\n".join([_HEAD, *("\n".join([*part, "}", ""]) for part in parts)])


def _sections(sections: list[type[Section]]) -> Lines:
    yield "SECTIONS: dict[str, tuple[tuple[tuple[Any, ...], ...], dict[str, tuple[Any, ...]], tuple[int, ...]]] = {"
    for section in sections:
        yield f"    {section.__name__!r}: ("
        yield f"        {_reads(section.READS)!r},"
        yield "        {"
        entries = {field.name: _entry(field) for field in iter_fields.fields(section)}
        for name, entry in entries.items():
            yield f"            {name!r}: {entry!r},"
        yield "        },"
        yield f"        {_borders(_reads(section.READS), entries.values())!r},"
        yield "    ),"


def _borders(reads: tuple[tuple[Json, ...], ...], entries: Iterable[tuple[Json, ...]]) -> tuple[int, ...]:
    """First releases at which anything about a section or one of its keys changes."""
    found = {0, PYDANTIC_2}
    for since, until, *_ in reads:
        found |= {since, until + 1}
    for _, _, spans, extra in entries:
        alike = [*spans, *(span for name in ("aliases", "takes") for _, *span in extra.get(name, ()))]
        for first, last in alike:
            found |= {first, last + 1}
        found |= {last + 1 for name in ("was", "defaults") for last, _ in extra.get(name, ())}
        found |= {last + 1 for _, last in extra.get("only", ())}
        found |= {extra.get(name, NEVER) for name in ("refused_from", "deprecated")}
    return tuple(sorted(border for border in found if border < NEVER))


def _variants(sections: list[type[Section]]) -> Lines:
    yield "VARIANTS: dict[str, tuple[str, ...]] = {"
    for section in sections:
        names = tuple(child.__name__ for child in iter_fields.variants(section))
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


def _miswritten(config: type[Section]) -> Lines:
    """By the path that people write: the path of the key that they mean, or an empty string."""
    found: dict[str, str] = {}
    for path, field in iter_fields.paths(config):
        for written in field.key.miswritten:
            found.setdefault(written, ".".join(path))
    yield "MISWRITTEN: dict[str, str] = {"
    for written, meant in sorted({**found, **_not_keys(config)}.items()):
        yield f"    {written!r}: {meant!r},"


def _not_keys(config: type[Section]) -> dict[str, str]:
    """What stands for nothing, on the first path to each section."""
    places: dict[type[Section], tuple[str, ...]] = {config: ()}
    for path, field in iter_fields.paths(config):
        for section in filter(is_section, iter_fields.arms(field.annotation)):
            places.setdefault(section, path)
    return {
        ".".join((*path, word)): ""
        for section, path in places.items()
        for cls in section.__mro__
        for word in cls.__dict__.get("NOT_KEYS", ())
    }


def _type(kind: OptimizerType | SchedulerType) -> tuple[object, ...]:
    params = kind.params.__name__ if kind.params else None
    return kind.name, params, number(kind.since), _last(kind.until)


def _reads(reads: tuple[Reads, ...]) -> tuple[tuple[object, ...], ...]:
    return tuple((number(r.since), _last(r.until), r.by, r.unknown, r.drops_auto) for r in reads)


def _last(until: str | None) -> int:
    return NEVER if until is None else number(until)


def _entry(field: iter_fields.Field) -> tuple[object, ...]:
    """Type, default, spans, and by name whatever else is said of the key."""
    key = field.key
    spans = key.spans or ((key.since, key.until),)
    more = {"required": field.required, **_dated(key), **_plain(key)}
    said = {name: value for name, value in more.items() if value not in (None, False, ())}
    return field.spec, field.default, tuple((number(since), _last(until)) for since, until in spans), said


def _dated(key: Key) -> dict[str, object]:
    """What differs between releases, with the numbers of the releases."""
    return {
        "was": tuple((number(was.until), iter_fields.of(was.type)) for was in key.was),
        "defaults": tuple((number(last), value) for last, value in key.defaults),
        "aliases": tuple((a.name, number(a.since), _last(a.until)) for a in key.aliases),
        "takes": tuple((t.shapes, number(t.since), _last(t.until)) for t in key.takes),
        "refused_from": number(key.refused_from) if key.refused_from else None,
        "deprecated": number(key.deprecated) if key.deprecated else None,
        "only": tuple((only.builds, _last(only.until)) for only in key.only),
    }


def _plain(key: Key) -> dict[str, object]:
    """What goes into the table as it stands."""
    return {
        "replaced_by": key.replaced_by,
        "rewrite": _rewrite(key),
        "advice": key.advice,
        "hidden_by": key.hidden_by,
        "opened_by": key.opened_by,
        "fills": key.fills,
        "unit": key.unit,
        "known": key.known,
        "flags": tuple(flag for flag in _FLAGS if getattr(key, flag)),
        "wrong_type": key.wrong_type,
    }


def _rewrite(key: Key) -> tuple[str, Json] | None:
    if isinstance(key.rewrite, Switch):
        return "switch", key.rewrite.value
    return (key.rewrite, None) if key.rewrite else None
