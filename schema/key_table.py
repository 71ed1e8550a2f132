"""Generate the key table: plain literals that `dsconfig.model.key_table` reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from dsconfig.core.json_types import Json
from dsconfig.core.releases import NEVER, PYDANTIC_2, release_number
from dsconfig.model import iterate_model_fields
from dsconfig.model.key import BooleanReplacement, Key, SectionReading
from dsconfig.model.optimizer import OPTIMIZERS, OptimizerTypeInfo
from dsconfig.model.scheduler import SCHEDULERS, SchedulerTypeInfo
from dsconfig.model.section import Section, is_section

Lines: TypeAlias = Iterator[str]

_HEAD = '''"""Generated from dsconfig/model by `make generate`; do not edit.

The key table: sections with their keys, variants of sections, types of optimizers and schedulers, and wrong paths.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Any
'''
_INFERENCE_HEAD = '''"""Generated from dsconfig/model/inference.py by `make generate`; do not edit.

The key table of the sections that only inference configs have.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Any
'''
_FLAGS = tuple(name for name, kind in Key.__annotations__.items() if kind == "bool")


def render(config: type[Section]) -> str:
    """Return the source of the key table for the root of the model."""
    sections = list(iterate_model_fields.iter_sections(config))
    tables = (
        _section_lines(sections),
        _variant_lines(sections),
        _type_lines(),
        _miswritten_path_lines(config),
    )
    return "\n".join([_HEAD, *("\n".join([*table, "}", ""]) for table in tables)])


def render_inference(config: type[Section], inference: type[Section]) -> str:
    """Return the source of the table of inference configs, without sections that training configs have too."""
    training = set(iterate_model_fields.iter_sections(config))
    sections = [each for each in iterate_model_fields.iter_sections(inference) if each not in training]
    return "\n".join([_INFERENCE_HEAD, *_section_lines(sections), "}", ""])


def _section_lines(sections: list[type[Section]]) -> Lines:
    yield "SECTIONS: dict[str, tuple[tuple[tuple[Any, ...], ...], dict[str, tuple[Any, ...]], tuple[int, ...]]] = {"
    for section in sections:
        entries = {
            field.name: _key_entry(field) for field in iterate_model_fields.iter_fields_of_section(section)
        }
        yield f"    {section.__name__!r}: ({_read_intervals(section.READS)!r}, {{"
        for name, entry in entries.items():
            yield f"        {name!r}: {entry!r},"
        yield f"    }}, {_release_borders(_read_intervals(section.READS), entries.values())!r}),"


def _release_borders(
    reads: tuple[tuple[Json, ...], ...], entries: Iterable[tuple[Json, ...]]
) -> tuple[int, ...]:
    """Return each release that reads a section, or one of its keys, differently from the release before."""
    borders = {0, PYDANTIC_2}
    for since, until, *_ in reads:
        borders |= {since, until + 1}
    for _, _, spans, extra in entries:
        dated = [*spans, *(span for name in ("aliases", "takes") for _, *span in extra.get(name, ()))]
        for first, last in dated:
            borders |= {first, last + 1}
        borders |= {last + 1 for name in ("was", "defaults") for last, _ in extra.get(name, ())}
        borders |= {last + 1 for _, last in extra.get("only", ())}
        borders |= {extra.get(name, NEVER) for name in ("refused_from", "deprecated")}
    return tuple(sorted(border for border in borders if border < NEVER))


def _variant_lines(sections: list[type[Section]]) -> Lines:
    yield "VARIANTS: dict[str, tuple[str, ...]] = {"
    for section in sections:
        names = tuple(child.__name__ for child in iterate_model_fields.iter_section_variants(section))
        if names:
            yield f"    {section.__name__!r}: {names!r},"


def _type_lines() -> Lines:
    """Return the optimizer and scheduler types by the name that DeepSpeed compares, with their params classes."""
    yield "TYPES: dict[str, dict[str, tuple[Any, ...]]] = {"
    yield "    'Optimizer': {"
    for kind in OPTIMIZERS:
        yield f"        {kind.name.lower()!r}: {(*_type_entry(kind), kind.gpu, kind.cpu)!r},"
    yield "    },"
    yield "    'Scheduler': {"
    for one in SCHEDULERS:
        yield f"        {one.name!r}: {(*_type_entry(one), one.name, one.name)!r},"
    yield "    },"


def _miswritten_path_lines(config: type[Section]) -> Lines:
    """Return wrong paths that users write, each with the correct path, if there is one."""
    right_paths: dict[str, str] = {}
    for path, field in iterate_model_fields.iter_field_paths(config):
        for wrong_path in field.key.miswritten:
            right_paths.setdefault(wrong_path, ".".join(path))
    yield "MISWRITTEN: dict[str, str] = {"
    for wrong_path, right_path in sorted({**right_paths, **_not_keys(config)}.items()):
        yield f"    {wrong_path!r}: {right_path!r},"


def _not_keys(config: type[Section]) -> dict[str, str]:
    """Return documented names that were never keys, by the first path to their section."""
    first_paths: dict[type[Section], tuple[str, ...]] = {config: ()}
    for path, field in iterate_model_fields.iter_field_paths(config):
        for section in filter(is_section, iterate_model_fields.union_arms(field.annotation)):
            first_paths.setdefault(section, path)
    return {
        ".".join((*path, word)): ""
        for section, path in first_paths.items()
        for cls in section.__mro__
        for word in cls.__dict__.get("NOT_KEYS", ())
    }


def _type_entry(kind: OptimizerTypeInfo | SchedulerTypeInfo) -> tuple[object, ...]:
    params = kind.params.__name__ if kind.params else None
    return kind.name, params, release_number(kind.since), _last_release(kind.until)


def _read_intervals(reads: tuple[SectionReading, ...]) -> tuple[tuple[object, ...], ...]:
    return tuple(
        (release_number(r.since), _last_release(r.until), r.by, r.unknown, r.drops_auto) for r in reads
    )


def _last_release(until: str | None) -> int:
    return NEVER if until is None else release_number(until)


def _key_entry(field: iterate_model_fields.ModelField) -> tuple[object, ...]:
    """Return a key's type, default and releases, and its other properties by name."""
    key = field.key
    spans = key.spans or ((key.since, key.until),)
    properties = {"required": field.required, **_dated_properties(key), **_undated_properties(key)}
    extra = {name: value for name, value in properties.items() if value not in (None, False, ())}
    return (
        field.spec,
        field.default,
        tuple((release_number(since), _last_release(until)) for since, until in spans),
        extra,
    )


def _dated_properties(key: Key) -> dict[str, object]:
    """Return the properties of a key that differ between releases, with release numbers."""
    return {
        "was": tuple(
            (release_number(was.until), iterate_model_fields.spec_of_annotation(was.type)) for was in key.was
        ),
        "defaults": tuple((release_number(last), value) for last, value in key.defaults),
        "aliases": tuple((a.name, release_number(a.since), _last_release(a.until)) for a in key.aliases),
        "takes": tuple((t.shapes, release_number(t.since), _last_release(t.until)) for t in key.takes),
        "refused_from": release_number(key.refused_from) if key.refused_from else None,
        "deprecated": release_number(key.deprecated) if key.deprecated else None,
        "only": tuple((only.builds, _last_release(only.until)) for only in key.only),
    }


def _undated_properties(key: Key) -> dict[str, object]:
    """Return the properties of a key that are the same in every release."""
    return {
        "replaced_by": key.replaced_by,
        "rewrite": _value_rewrite(key),
        "advice": key.advice,
        "hidden_by": key.hidden_by,
        "opened_by": key.opened_by,
        "fills": key.fills,
        "unit": key.unit,
        "known": key.known,
        "flags": tuple(flag for flag in _FLAGS if getattr(key, flag)),
        "wrong_type": key.wrong_type,
    }


def _value_rewrite(key: Key) -> tuple[str, Json] | None:
    if isinstance(key.rewrite, BooleanReplacement):
        return "switch", key.rewrite.value
    return (key.rewrite, None) if key.rewrite else None
