"""Verdicts on values, code that the dialects share, and the dialect of sections that are not validated."""

from __future__ import annotations

import math

from dsconfig.core.json_types import NamedTuple

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Literal, TypeAlias

    from dsconfig.core.json_types import Json, JsonObject, KeyPath, Spec


Why: TypeAlias = "Literal['type', 'null', 'fraction', 'bound', 'member', 'text']"


class CoercedValue(NamedTuple):
    """Verdict that a value is accepted, but converted to another value."""

    value: Json


class RejectedValue(NamedTuple):
    """Verdict that a value is rejected; `at` is the path from the value to its offending part."""

    why: Why
    expected: Spec
    value: Json
    at: KeyPath = ()


Verdict: TypeAlias = "CoercedValue | RejectedValue | None"
"""Verdict on a value; None means that the value is accepted unchanged."""

Read: TypeAlias = "Callable[[Spec, Json], Verdict]"
"""A dialect's conversion of a value to a type. Children of sections are not converted."""


def is_out_of_bounds(spec: Spec, value: float) -> bool:
    """Whether a number violates a bound of its ("int" | "float", ge, gt, le, lt) spec; NaN violates every bound."""
    _, ge, gt, le, lt = spec
    return (
        (ge is not None and not value >= ge)
        or (gt is not None and not value > gt)
        or (le is not None and not value <= le)
        or (lt is not None and not value < lt)
    )


def is_same_value(left: Json, right: Json) -> bool:
    """Whether two values are equal and of the same type: 1, 1.0 and true are different values in a config."""
    return type(left) is type(right) and (left == right or left is right)


def coercion_verdict(before: Json, after: Json) -> Verdict:
    """Return the verdict on a value, given the value before and after conversion."""
    return None if is_same_value(before, after) else CoercedValue(after)


def coerce_list(spec: Spec, value: list[Json], read: Read) -> Verdict:
    """Return the verdict on a list from the verdicts on its elements."""
    parts = _coerce_parts(spec[1], enumerate(value), read)
    if isinstance(parts, dict):
        return CoercedValue([parts.get(index, part) for index, part in enumerate(value)])
    return parts


def coerce_map(spec: Spec, value: JsonObject, read: Read) -> Verdict:
    """Return the verdict on a map from the verdicts on its values."""
    parts = _coerce_parts(spec[1], value.items(), read)
    return CoercedValue({**value, **parts}) if isinstance(parts, dict) else parts


def _coerce_parts(
    inner: Spec, parts: Iterable[tuple[str | int, Json]], read: Read
) -> RejectedValue | dict[str | int, Json] | None:
    """Return the first rejection of a part, or else the converted parts, or None if all are accepted unchanged."""
    if inner[0] == "any":
        return None
    converted: dict[str | int, Json] = {}
    for at, part in parts:
        verdict = read(inner, part)
        if isinstance(verdict, RejectedValue):
            return RejectedValue(verdict.why, verdict.expected, verdict.value, (at, *verdict.at))
        if verdict is not None:
            converted[at] = verdict.value
    return converted or None


def coerce_union(spec: Spec, value: Json, read: Read) -> Verdict:
    """Return the verdict of the first arm that accepts the value unchanged, else of the first that accepts it."""
    verdicts = [read(arm, value) for arm in spec[1:]]
    if None in verdicts:
        return None
    if isinstance(value, str) and any(_is_enum_of_words(arm) for arm in spec[1:]):
        # pydantic's smart mode prefers the arm of the value's own type. DeepSpeed's validators then reject
        # unknown words (runtime/zenflow/zenflow_config.py), even if a number arm could convert them.
        verdicts = [v for arm, v in zip(spec[1:], verdicts, strict=True) if _is_enum_of_words(arm)]
    for verdict in verdicts:
        if isinstance(verdict, CoercedValue):
            return verdict
    specific = [v for v in verdicts if isinstance(v, RejectedValue) and v.why not in ("type", "null")]
    if len(specific) == 1:
        return specific[0]
    return RejectedValue("null" if value is None else "type", spec, value)


def _is_enum_of_words(arm: Spec) -> bool:
    return arm[0] == "enum" and isinstance(arm[1], str)


def coerce_as_pydantic(spec: Spec, value: Json, read: Read, conversions: Mapping[str, Read]) -> Verdict:
    """Convert a value as both versions of pydantic do, with the `read` function and `conversions` of one version."""
    kind = spec[0]
    if kind == "any":
        return None
    if kind == "null":
        return None if value is None else RejectedValue("type", spec, value)
    if kind == "union":
        return coerce_union(spec, value, read)
    if value is None:
        return RejectedValue("null", spec, value)
    if kind == "never":
        return RejectedValue("type", spec, value)
    if kind == "list":
        return (
            coerce_list(spec, value, read) if isinstance(value, list) else RejectedValue("type", spec, value)
        )
    return conversions[kind](spec, value)


# Sections that DeepSpeed reads without validation: the value is used as it is, whatever its type.
#
# Nothing is rejected by DeepSpeed here. The verdict says that the value is not what the code expects.
# Switches are tested for truth, so any value counts as true or false.


def read_unchecked(spec: Spec, value: Json) -> Verdict:
    """Return the verdict of code that expects the type `spec` but does not validate the value."""
    kind = spec[0]
    if kind in ("any", "section"):
        return None
    if kind == "bool":
        return None if isinstance(value, bool) else CoercedValue(bool(value))
    if kind in ("null", "never"):
        return None if value is None and kind == "null" else RejectedValue("type", spec, value)
    if kind in ("str", "path"):
        return None if isinstance(value, str) else _reject_type(spec, value)
    if kind in ("int", "float"):
        return _check_number(spec, value)
    if kind == "enum":
        return _check_enum_member(spec, value)
    if kind == "list":
        return (
            coerce_list(spec, value, read_unchecked) if isinstance(value, list) else _reject_type(spec, value)
        )
    if kind == "map":
        return (
            coerce_map(spec, value, read_unchecked) if isinstance(value, dict) else _reject_type(spec, value)
        )
    return coerce_union(spec, value, read_unchecked)


def _reject_type(spec: Spec, value: Json) -> RejectedValue:
    return RejectedValue("null" if value is None else "type", spec, value)


def _check_number(spec: Spec, value: Json) -> Verdict:
    if isinstance(value, bool):
        return CoercedValue(int(value))
    if isinstance(value, float) and spec[0] == "int" and not value.is_integer():
        return RejectedValue("fraction" if math.isfinite(value) else "type", spec, value)
    if isinstance(value, str):
        return RejectedValue("text", spec, value)
    if not isinstance(value, int | float):
        return _reject_type(spec, value)
    return RejectedValue("bound", spec, value) if is_out_of_bounds(spec, value) else None


def _check_enum_member(spec: Spec, value: Json) -> Verdict:
    if not isinstance(value, str | int | float):
        return _reject_type(spec, value)
    if any(value == member and isinstance(value, bool) == isinstance(member, bool) for member in spec[1:]):
        return None
    return RejectedValue("member", spec, value)
