"""Verdict on one value, what the dialects share, and values that DeepSpeed reads unchecked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dsconfig.core.json_types import Json, JsonObject, KeyPath, Spec


# The verdict on one value, and what the dialects have in common.

Why: TypeAlias = Literal["type", "null", "fraction", "bound", "member", "text"]


class Coerced(NamedTuple):
    """Taken, but as another value than the one written."""

    value: Json


class Refused(NamedTuple):
    """Not taken. `at` leads from the value to the offending part of it."""

    why: Why
    expected: Spec
    value: Json
    at: KeyPath = ()


Verdict: TypeAlias = "Coerced | Refused | None"
"""None: taken as it is."""

Read: TypeAlias = "Callable[[Spec, Json], Verdict]"
"""What a dialect makes of a value where a spec is expected. Sections are not looked into."""


def out_of_bounds(spec: Spec, value: float) -> bool:
    """Whether a number misses a bound of its ("int" | "float", ge, gt, le, lt) spec; NaN misses each."""
    _, ge, gt, le, lt = spec
    return (
        (ge is not None and not value >= ge)
        or (gt is not None and not value > gt)
        or (le is not None and not value <= le)
        or (lt is not None and not value < lt)
    )


def same(left: Json, right: Json) -> bool:
    """Equal and of one type: 1, 1.0 and true are three values in a config."""
    return type(left) is type(right) and (left == right or left is right)


def changed(before: Json, after: Json) -> Verdict:
    """The verdict on a value that is taken as another one, perhaps the same."""
    return None if same(before, after) else Coerced(after)


def elements(spec: Spec, value: list[Json], read: Read) -> Verdict:
    """The verdict on a list from the verdicts on its elements."""
    made = _parts(spec[1], enumerate(value), read)
    if isinstance(made, dict):
        return Coerced([made.get(index, part) for index, part in enumerate(value)])
    return made


def entries(spec: Spec, value: JsonObject, read: Read) -> Verdict:
    """The verdict on a map from the verdicts on its values."""
    made = _parts(spec[1], value.items(), read)
    return Coerced({**value, **made}) if isinstance(made, dict) else made


def _parts(
    inner: Spec, parts: Iterable[tuple[str | int, Json]], read: Read
) -> Refused | dict[str | int, Json] | None:
    """The first refusal of a part, else the parts that are taken as other values, None where none is."""
    if inner[0] == "any":
        return None
    made: dict[str | int, Json] = {}
    for at, part in parts:
        verdict = read(inner, part)
        if isinstance(verdict, Refused):
            return Refused(verdict.why, verdict.expected, verdict.value, (at, *verdict.at))
        if verdict is not None:
            made[at] = verdict.value
    return made or None


def union(spec: Spec, value: Json, read: Read) -> Verdict:
    """The first arm that takes the value as it is, else the first that takes it at all, else a refusal."""
    verdicts = [read(arm, value) for arm in spec[1:]]
    if None in verdicts:
        return None
    if isinstance(value, str) and any(_is_words(arm) for arm in spec[1:]):
        # pydantic's smart union prefers the arm of the value's own type, and DeepSpeed's validators then
        # refuse words they do not know (zenflow: runtime/zenflow/zenflow_utils.py), whatever a number arm
        # would make of it.
        verdicts = [v for arm, v in zip(spec[1:], verdicts, strict=True) if _is_words(arm)]
    for verdict in verdicts:
        if isinstance(verdict, Coerced):
            return verdict
    telling = [v for v in verdicts if isinstance(v, Refused) and v.why not in ("type", "null")]
    if len(telling) == 1:
        return telling[0]
    return Refused("null" if value is None else "type", spec, value)


def _is_words(arm: Spec) -> bool:
    return arm[0] == "enum" and isinstance(arm[1], str)


def strict(spec: Spec, value: Json, read: Read, conversions: Mapping[str, Read]) -> Verdict:
    """What both versions of pydantic do. `read` and the `conversions`, by kind, are the version's own."""
    kind = spec[0]
    if kind == "any":
        return None
    if kind == "null":
        return None if value is None else Refused("type", spec, value)
    if kind == "union":
        return union(spec, value, read)
    if value is None:
        return Refused("null", spec, value)
    if kind == "never":
        return Refused("type", spec, value)
    if kind == "list":
        return elements(spec, value, read) if isinstance(value, list) else Refused("type", spec, value)
    return conversions[kind](spec, value)


# Sections that DeepSpeed reads by hand: the value is taken as it is, whatever its type.
#
# Nothing here refuses for DeepSpeed; the verdict only says that the value is not what the code behind it
# expects. Booleans are tested for truth, so anything counts as one of the two.


def read_unchecked(spec: Spec, value: Json) -> Verdict:
    """The verdict of code that expects `spec` and checks nothing."""
    kind = spec[0]
    if kind in ("any", "section"):
        return None
    if kind == "bool":
        return None if isinstance(value, bool) else Coerced(bool(value))
    if kind in ("null", "never"):
        return None if value is None and kind == "null" else Refused("type", spec, value)
    if kind in ("str", "path"):
        return None if isinstance(value, str) else _refused(spec, value)
    if kind in ("int", "float"):
        return _number(spec, value)
    if kind == "enum":
        return _member(spec, value)
    if kind == "list":
        return elements(spec, value, read_unchecked) if isinstance(value, list) else _refused(spec, value)
    if kind == "map":
        return entries(spec, value, read_unchecked) if isinstance(value, dict) else _refused(spec, value)
    return union(spec, value, read_unchecked)


def _refused(spec: Spec, value: Json) -> Refused:
    return Refused("null" if value is None else "type", spec, value)


def _number(spec: Spec, value: Json) -> Verdict:
    if isinstance(value, bool):
        return Coerced(int(value))
    if isinstance(value, float) and spec[0] == "int" and not value.is_integer():
        return Refused("fraction" if math.isfinite(value) else "type", spec, value)
    if isinstance(value, str):
        return Refused("text", spec, value)
    if not isinstance(value, int | float):
        return _refused(spec, value)
    return Refused("bound", spec, value) if out_of_bounds(spec, value) else None


def _member(spec: Spec, value: Json) -> Verdict:
    if not isinstance(value, str | int | float):
        return _refused(spec, value)
    if any(value == member and isinstance(value, bool) == isinstance(member, bool) for member in spec[1:]):
        return None
    return Refused("member", spec, value)
