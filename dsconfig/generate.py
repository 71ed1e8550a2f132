"""Writes every generated file from the model: `python -m dsconfig.generate` writes, `--check` compares.

A test runs the check, so that a stale file never lands.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsconfig.model import spec, walk
from dsconfig.model.base import Reads, Section
from dsconfig.releases import NEVER, number
from dsconfig.schema import files

if TYPE_CHECKING:
    from dsconfig.model.optimizer import OptimizerType
    from dsconfig.model.scheduler import SchedulerType

ROOT = Path(__file__).resolve().parent.parent


def table() -> str:
    """`dsconfig/model/_table.py`: the model as plain literals, read by `dsconfig.model.keyinfo`."""
    from dsconfig.model.config import Config

    lines = [
        '"""Generated from dsconfig/model by `python -m dsconfig.generate`; do not edit."""',
        "",
        "from typing import Any",
        "",
        "SECTIONS: dict[str, tuple[tuple[tuple[Any, ...], ...], dict[str, tuple[Any, ...]]]] = {",
    ]
    for section in walk.sections(Config):
        lines += [f"    {section.__name__!r}: (", f"        {_reads(section.READS)!r},", "        {"]
        lines += [f"            {name!r}: {entry!r}," for name, entry in _entries(section)]
        lines += ["        },", "    ),"]
    lines += ["}", "", "VARIANTS: dict[str, tuple[str, ...]] = {"]
    for section in walk.sections(Config):
        names = tuple(child.__name__ for child in walk.variants(section))
        lines += [f"    {section.__name__!r}: {names!r},"] if names else []
    lines += ["}", "", "TYPES: dict[str, dict[str, tuple[Any, ...]]] = {"]
    for name, types in _types():
        lines += [f"    {name!r}: {{"]
        lines += [f"        {word!r}: {entry!r}," for word, entry in types]
        lines += ["    },"]
    return "\n".join([*lines, "}", ""])


def _types() -> Iterator[tuple[str, list[tuple[str, tuple[Any, ...]]]]]:
    """By section: the types that DeepSpeed knows, as they are compared, with the class of their params."""
    from dsconfig.model.optimizer import OPTIMIZERS
    from dsconfig.model.scheduler import SCHEDULERS

    yield "Optimizer", [(kind.name.lower(), (*_type(kind), kind.gpu, kind.cpu)) for kind in OPTIMIZERS]
    yield "Scheduler", [(kind.name, (*_type(kind), kind.name, kind.name)) for kind in SCHEDULERS]


def _type(kind: OptimizerType | SchedulerType) -> tuple[Any, ...]:
    params = kind.params.__name__ if kind.params else None
    return kind.name, params, number(kind.since), _last(kind.until)


def _reads(reads: tuple[Reads, ...]) -> tuple[tuple[Any, ...], ...]:
    return tuple((number(r.since), _last(r.until), r.by, r.unknown, r.drops_auto) for r in reads)


def _last(until: str | None) -> int:
    return NEVER if until is None else number(until)


def _entries(section: type[Section]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for field in walk.fields(section):
        key = field.key
        spans = key.spans or ((key.since, key.until),)
        extra = {
            "required": field.required,
            "was": tuple((number(was.until), spec.of(was.type)) for was in key.was),
            "defaults": tuple((number(last), value) for last, value in key.defaults),
            "aliases": tuple((a.name, number(a.since), _last(a.until)) for a in key.aliases),
            "takes": tuple((t.shapes, number(t.since), _last(t.until)) for t in key.takes),
            "refused_from": number(key.refused_from) if key.refused_from else None,
            "deprecated": number(key.deprecated) if key.deprecated else None,
            "replaced_by": key.replaced_by,
            "fills": key.fills,
            "unit": key.unit,
            "known": key.known,
            "flags": tuple(flag for flag in _FLAGS if getattr(key, flag)),
            "only": tuple((only.builds, _last(only.until)) for only in key.only),
            "wrong_type": key.wrong_type,
        }
        said = {name: value for name, value in extra.items() if value not in (None, False, ())}
        numbered = tuple((number(since), _last(until)) for since, until in spans)
        yield field.name, (field.spec, field.default, numbered, said)


_FLAGS = ("auto_is_value", "fold_case", "unread", "internal", "not_json")

FILES: dict[str, Callable[[], str]] = {
    "dsconfig/model/_table.py": table,
    **{f"schema/{name}": make for name, make in files.texts().items()},
}
"""Every generated file, by its path in the repository."""


def stale() -> list[str]:
    """The generated files whose text is not what the model says."""
    return [name for name, make in FILES.items() if _read(ROOT / name) != make()]


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def main() -> int:
    """Write the files, or with `--check` name the stale ones and return 1."""
    if "--check" in sys.argv[1:]:
        names = stale()
        for name in names:
            print(f"{name} is stale: run `python -m dsconfig.generate`")
        return 1 if names else 0
    for name, make in FILES.items():
        (ROOT / name).write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
