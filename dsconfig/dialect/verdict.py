"""The verdict on one value, and the dispatch from a type to the dialect's conversion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Spec: TypeAlias = tuple[Any, ...]
Why: TypeAlias = Literal["type", "null", "fraction", "bound", "member", "text", "length"]


@dataclass(frozen=True, slots=True)
class Coerced:
    """Taken, but as another value than the one written."""

    value: Any


@dataclass(frozen=True, slots=True)
class Refused:
    """Not taken. `at` leads from the value to the offending part of it (list indices, keys)."""

    why: Why
    expected: Spec
    value: Any
    at: tuple[str | int, ...] = ()


Verdict: TypeAlias = "Coerced | Refused | None"
"""None: taken as it is."""


def read(spec: Spec, value: Any, dialect: str) -> Verdict:
    """What the dialect makes of `value` where `spec` is expected. Sections are not looked into."""
    if dialect == "pydantic2":
        from dsconfig.dialect.pydantic2 import read as convert
    elif dialect == "pydantic1":
        from dsconfig.dialect.pydantic1 import read as convert
    else:
        from dsconfig.dialect.hand import read as convert
    return convert(spec, value)


Reader: TypeAlias = Callable[[Spec, Any], Verdict]


def strict(spec: Spec, value: Any, dialect: str, readers: dict[str, Reader]) -> Verdict:
    """What pydantic does in both its versions; `readers` are the version's own, by the kind of type."""
    kind = spec[0]
    if kind == "any":
        return None
    if kind == "null":
        return None if value is None else Refused("type", spec, value)
    if kind == "union":
        return union(spec, value, dialect)
    if value is None:
        return Refused("null", spec, value)
    if kind == "never":
        return Refused("type", spec, value)
    if kind == "list":
        return elements(spec, value, dialect) if isinstance(value, list) else Refused("type", spec, value)
    return readers[kind](spec, value)


def out_of_bounds(spec: Spec, value: Any) -> bool:
    """Whether a number misses a bound of its ("int" | "float", ge, gt, le, lt) spec; NaN misses every
    bound.
    """
    _, ge, gt, le, lt = spec
    return (
        (ge is not None and not value >= ge)
        or (gt is not None and not value > gt)
        or (le is not None and not value <= le)
        or (lt is not None and not value < lt)
    )


def same(left: Any, right: Any) -> bool:
    """Equal and of one type: 1, 1.0 and true are three values in a config."""
    return type(left) is type(right) and (left == right or left is right)


def elements(spec: Spec, value: list[Any], dialect: str) -> Verdict:
    """The verdict on a list from the verdicts on its elements."""
    return _parts(spec[1], list(enumerate(value)), value, dialect)


def entries(spec: Spec, value: dict[str, Any], dialect: str) -> Verdict:
    """The verdict on a map from the verdicts on its values."""
    return _parts(spec[1], list(value.items()), value, dialect)


def _parts(inner: Spec, parts: list[tuple[Any, Any]], whole: Any, dialect: str) -> Verdict:
    if inner[0] == "any":
        return None
    changed: dict[Any, Any] = {}
    for at, part in parts:
        verdict = read(inner, part, dialect)
        if isinstance(verdict, Refused):
            return Refused(verdict.why, verdict.expected, verdict.value, (at, *verdict.at))
        if verdict is not None:
            changed[at] = verdict.value
    if not changed:
        return None
    if isinstance(whole, list):
        return Coerced([changed.get(at, part) for at, part in parts])
    return Coerced({at: changed.get(at, part) for at, part in parts})


def union(spec: Spec, value: Any, dialect: str) -> Verdict:
    """The first arm that takes the value as it is, else the first that takes it at all, else a refusal."""
    verdicts = [read(arm, value, dialect) for arm in spec[1:]]
    if None in verdicts:
        return None
    if isinstance(value, str) and any(_is_words(arm) for arm in spec[1:]):
        # pydantic's smart union prefers the arm of the value's own type, and DeepSpeed's validators then
        # refuse words they do not know (zenflow: runtime/zenflow/zenflow_utils.py), whatever a number arm
        # would make of it.
        verdicts = [v for arm, v in zip(spec[1:], verdicts, strict=True) if _is_words(arm)]
    taken = next((verdict for verdict in verdicts if isinstance(verdict, Coerced)), None)
    if taken is not None:
        return taken
    refusals = [
        verdict
        for verdict in verdicts
        if isinstance(verdict, Refused) and verdict.why not in ("type", "null")
    ]
    first = refusals[0] if len(refusals) == 1 else None
    return first or Refused("null" if value is None else "type", spec, value)


def _is_words(arm: Spec) -> bool:
    return arm[0] == "enum" and isinstance(arm[1], str)
