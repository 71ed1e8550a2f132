"""How a DeepSpeed release converts a value: not at all (`hand`), or like pydantic 1 or pydantic 2.

DeepSpeed's strict sections are pydantic 1 models from 0.7.0 to 0.14.5 and pydantic 2 models from 0.15.0 on
(runtime/config_utils.py, DeepSpeedConfigModel). Both convert values on input, by different rules: pydantic 1
accepts values that pydantic 2 rejects, and vice versa. Other sections are read with `dict.get`, without conversion.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from dsconfig.core.json_types import NamedTuple

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Literal, TypeAlias

    from dsconfig.core.json_types import Json, JsonObject, KeyPath, Spec


Why: TypeAlias = "Literal['type', 'null', 'fraction', 'bound', 'member', 'text']"


class CoercedValue(NamedTuple):
    """Verdict that a value is accepted, and converted to another value."""

    value: Json


class RejectedValue(NamedTuple):
    """Verdict that a value is rejected; `at` is the path to the offending part."""

    why: Why
    expected: Spec
    value: Json
    at: KeyPath = ()


Verdict: TypeAlias = "CoercedValue | RejectedValue | None"
"""Verdict on a value; None means that the value is accepted unchanged."""

Read: TypeAlias = "Callable[[Spec, Json], Verdict]"
"""A dialect's conversion of a value to a type. Children of sections are not converted."""


def _is_out_of_bounds(spec: Spec, value: float) -> bool:
    """Return whether a number violates a bound of its spec; NaN violates every bound."""
    _, ge, gt, le, lt = spec
    return (
        (ge is not None and not value >= ge)
        or (gt is not None and not value > gt)
        or (le is not None and not value <= le)
        or (lt is not None and not value < lt)
    )


def _is_same_value(left: Json, right: Json) -> bool:
    """Return whether two values have the same type and are equal; 1, 1.0 and true differ in a config."""
    return type(left) is type(right) and (left == right or left is right)


def _coercion_verdict(before: Json, after: Json) -> Verdict:
    """Return the verdict on a value by comparing it before and after conversion."""
    return None if _is_same_value(before, after) else CoercedValue(after)


def _coerce_list(spec: Spec, value: list[Json], read: Read) -> Verdict:
    """Return the verdict on a list, which follows from the verdicts on its elements."""
    parts = _coerce_parts(spec[1], enumerate(value), read)
    if isinstance(parts, dict):
        return CoercedValue([parts.get(index, part) for index, part in enumerate(value)])
    return parts


def _coerce_map(spec: Spec, value: JsonObject, read: Read) -> Verdict:
    """Return the verdict on a map, which follows from the verdicts on its values."""
    parts = _coerce_parts(spec[1], value.items(), read)
    return CoercedValue({**value, **parts}) if isinstance(parts, dict) else parts


def _coerce_parts(
    inner: Spec, parts: Iterable[tuple[str | int, Json]], read: Read
) -> RejectedValue | dict[str | int, Json] | None:
    """Return the first rejection, else the converted elements, or None if every element is unchanged."""
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


def _coerce_union(spec: Spec, value: Json, read: Read) -> Verdict:
    """Return the verdict of the first type that leaves the value unchanged, or else of the first that accepts it."""
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


def _coerce_as_pydantic(spec: Spec, value: Json, read: Read, conversions: Mapping[str, Read]) -> Verdict:
    """Convert a value like either version of pydantic, using that version's `read` and `conversions`."""
    kind = spec[0]
    if kind == "any":
        return None
    if kind == "null":
        return None if value is None else RejectedValue("type", spec, value)
    if kind == "union":
        return _coerce_union(spec, value, read)
    if value is None:
        return RejectedValue("null", spec, value)
    if kind == "never":
        return RejectedValue("type", spec, value)
    if kind == "list":
        return (
            _coerce_list(spec, value, read) if isinstance(value, list) else RejectedValue("type", spec, value)
        )
    return conversions[kind](spec, value)


# Sections that DeepSpeed reads without validation: the value is used as it is, whatever its type.
#
# Nothing is rejected by DeepSpeed here. The verdict says that the value is not what the code expects.
# Switches are tested for truth, so any value counts as true or false.


def _read_unchecked(spec: Spec, value: Json) -> Verdict:
    """Return the verdict of code that expects the type `spec` without validating the value."""
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
            _coerce_list(spec, value, _read_unchecked)
            if isinstance(value, list)
            else _reject_type(spec, value)
        )
    if kind == "map":
        return (
            _coerce_map(spec, value, _read_unchecked)
            if isinstance(value, dict)
            else _reject_type(spec, value)
        )
    return _coerce_union(spec, value, _read_unchecked)


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
    return RejectedValue("bound", spec, value) if _is_out_of_bounds(spec, value) else None


def _check_enum_member(spec: Spec, value: Json) -> Verdict:
    if not isinstance(value, str | int | float):
        return _reject_type(spec, value)
    if any(value == member and isinstance(value, bool) == isinstance(member, bool) for member in spec[1:]):
        return None
    return RejectedValue("member", spec, value)


# Conversions of pydantic 1 (pydantic/validators.py), which extract a number from nearly any value.

_TRUE_V1 = {1, "1", "on", "t", "true", "y", "yes"}
_FALSE_V1 = {0, "0", "off", "f", "false", "n", "no"}


def _convert_as_pydantic_1(spec: Spec, value: Json) -> Verdict:
    """Convert a value like a pydantic 1 field of type `spec`."""
    return _coerce_as_pydantic(spec, value, _convert_as_pydantic_1, _CONVERSIONS_V1)


def _coerce_bool_v1(spec: Spec, value: Json) -> Verdict:
    # bool_validator: a hash look-up, so 1.0 counts as 1; words in any case.
    word = value.lower() if isinstance(value, str) else value
    if not isinstance(word, str | int | float) or (word not in _TRUE_V1 and word not in _FALSE_V1):
        return RejectedValue("text" if isinstance(value, str) else "type", spec, value)
    return _coercion_verdict(value, word in _TRUE_V1)


def _coerce_int_v1(spec: Spec, value: Json) -> Verdict:
    # int_validator: int(value), which cuts fractions off and takes "8", " 8 " and "5_000", but not "8.0".
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return RejectedValue("text" if isinstance(value, str) else "type", spec, value)
    return (
        RejectedValue("bound", spec, value)
        if _is_out_of_bounds(spec, number)
        else _coercion_verdict(value, number)
    )


def _coerce_float_v1(spec: Spec, value: Json) -> Verdict:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return RejectedValue("text" if isinstance(value, str) else "type", spec, value)
    if _is_out_of_bounds(spec, number):
        return RejectedValue("bound", spec, value)
    # An integer in a float field is the same number for all code, so it is not reported as converted.
    return (
        None if isinstance(value, int) and not isinstance(value, bool) else _coercion_verdict(value, number)
    )


def _coerce_str_v1(spec: Spec, value: Json) -> Verdict:
    if isinstance(value, str):
        return None
    return CoercedValue(str(value)) if isinstance(value, int | float) else RejectedValue("type", spec, value)


def _coerce_path_v1(spec: Spec, value: Json) -> Verdict:
    # path_validator: Path(value), which takes nothing else of JSON.
    return None if isinstance(value, str) else RejectedValue("type", spec, value)


def _coerce_enum_v1(spec: Spec, value: Json) -> Verdict:
    # enum_member_validator looks the value up among the members: 1.0 and true find 1, "1" does not.
    if not isinstance(value, str | int | float):
        return RejectedValue("type", spec, value)
    for member in spec[1:]:
        if member == value:
            return _coercion_verdict(value, member)
    return RejectedValue("member", spec, value)


def _coerce_mapping_v1(spec: Spec, value: Json) -> Verdict:
    # dict_validator and BaseModel.validate call dict(value): a list of pairs, the empty list too, becomes an
    # object.
    if not isinstance(value, dict | list | str):
        return RejectedValue("type", spec, value)
    try:
        as_object: JsonObject = dict(value)  # type: ignore[arg-type]  # `dict` itself raises for wrong elements
    except (TypeError, ValueError):
        return RejectedValue("type", spec, value)
    verdict = _coerce_map(spec, as_object, _convert_as_pydantic_1) if spec[0] == "map" else None
    return verdict or (None if isinstance(value, dict) else CoercedValue(as_object))


_CONVERSIONS_V1: dict[str, Read] = {
    "bool": _coerce_bool_v1,
    "int": _coerce_int_v1,
    "float": _coerce_float_v1,
    "str": _coerce_str_v1,
    "path": _coerce_path_v1,
    "enum": _coerce_enum_v1,
    "map": _coerce_mapping_v1,
    "section": _coerce_mapping_v1,
}


# Numeric strings, after pydantic-core's `str_as_int` and `str_as_float` (src/input/shared.rs).
#
# They are reimplemented here because a compiled package would keep the checker from running in a browser.
# Zeros in front of a sign are a quirk of pydantic-core.

_BLANK = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""The characters that Rust's `str::trim` removes, which are fewer than those that Python's `str.strip` removes."""
_LONGEST = 4300
"""Maximum number of digits of an integer, without leading zeros, which is Python's own limit."""
_SIGN, _DIGITS = r"(?:\+(?!-)|-)?", r"[0-9]+(?:_[0-9]+)*"
_ZEROS = r"0[0_]*"
_INTEGER = (
    rf"(?P<sign>{_SIGN})(?:{_ZEROS}(?=[1-9]|0(?:\.0+)?\Z))?(?P<digits>{_DIGITS})(?:\.0+)?"
    rf"|\+?{_ZEROS}(?P<behind>-_?(?:0|[1-9][0-9]*(?:_[0-9]+)*))(?:\.0+)?"
)
_FLOAT = r"(?ai)[+-]?(?:inf|infinity|nan|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?)"


@lru_cache(maxsize=256)
def parse_integer(text: str) -> int | None:
    """Return the integer that a string contains, or None if pydantic rejects it."""
    match = re.fullmatch(_INTEGER, text.strip(_BLANK))
    if not match:
        return None
    digits = (match["digits"] or match["behind"]).replace("_", "")
    return int(match["sign"] + digits if match["digits"] else digits) if len(digits) <= _LONGEST else None


@lru_cache(maxsize=256)
def parse_float(text: str) -> float | None:
    """Return the number that a string contains, or None if pydantic rejects it."""
    trimmed = text.strip(_BLANK)
    if re.fullmatch(_FLOAT, trimmed):
        return float(trimmed)
    if text.startswith("_") or text.endswith("_") or "__" in text:
        return None
    joined = text.replace("_", "")
    return float(joined) if re.fullmatch(_FLOAT, joined) else None


# Conversions of pydantic 2 in its lax mode, which is the one that DeepSpeed's models use.
#
# Source of the rules: pydantic's conversion table (docs/concepts/conversion_table.md).

_TRUE_V2 = frozenset({"1", "on", "t", "true", "y", "yes"})
_FALSE_V2 = frozenset({"0", "off", "f", "false", "n", "no"})
_FLOAT_EXACT = 2.0**63
"""The least integral float that is rejected as an integer (pydantic-core, src/input/shared.rs)."""


def _convert_as_pydantic_2(spec: Spec, value: Json) -> Verdict:
    """Convert a value like a pydantic 2 field of type `spec`."""
    return _coerce_as_pydantic(spec, value, _convert_as_pydantic_2, _CONVERSIONS_V2)


def _coerce_map_v2(spec: Spec, value: Json) -> Verdict:
    return (
        _coerce_map(spec, value, _convert_as_pydantic_2)
        if isinstance(value, dict)
        else RejectedValue("type", spec, value)
    )


def _coerce_section_v2(spec: Spec, value: Json) -> Verdict:
    return None if isinstance(value, dict) else RejectedValue("type", spec, value)


def _coerce_bool_v2(spec: Spec, value: Json) -> Verdict:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        word = value.lower()
        is_known = word in _TRUE_V2 or word in _FALSE_V2
        return CoercedValue(word in _TRUE_V2) if is_known else RejectedValue("text", spec, value)
    if isinstance(value, int | float) and value in (0, 1):
        return CoercedValue(bool(value))
    return RejectedValue("type", spec, value)


def _coerce_int_v2(spec: Spec, value: Json) -> Verdict:
    number = _as_integer(value)
    if number is None:
        return RejectedValue(_why_rejected(value), spec, value)
    return (
        RejectedValue("bound", spec, value)
        if _is_out_of_bounds(spec, number)
        else _coercion_verdict(value, number)
    )


def _as_integer(value: Json) -> int | None:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _FLOAT_EXACT else None
    return parse_integer(value) if isinstance(value, str) else None


def _why_rejected(value: Json) -> Why:
    if isinstance(value, str):
        return "text"
    return "fraction" if isinstance(value, float) and math.isfinite(value) else "type"


def _coerce_float_v2(spec: Spec, value: Json) -> Verdict:
    if isinstance(value, str):
        number = parse_float(value)
    elif isinstance(value, int | float):
        number = _as_float(value)
    else:
        number = None
    if number is None:
        return RejectedValue("text" if isinstance(value, str) else "type", spec, value)
    if _is_out_of_bounds(spec, number):
        return RejectedValue("bound", spec, value)
    # An integer in a float field is the same number for all code, so it is not reported as converted.
    return (
        None if isinstance(value, int) and not isinstance(value, bool) else _coercion_verdict(value, number)
    )


def _as_float(value: float) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _coerce_str_v2(spec: Spec, value: Json) -> Verdict:
    if isinstance(value, str) and _is_encodable(value):
        return None
    return RejectedValue("type", spec, value)


def _is_encodable(value: str) -> bool:
    # pydantic-core cannot hold a lone surrogate (string_unicode).
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _coerce_enum_v2(spec: Spec, value: Json) -> Verdict:
    members = spec[1:]
    if all(isinstance(member, int) for member in members):
        # An integer enum converts as an integer does before it looks the member up.
        number = _as_integer(value)
        return _coercion_verdict(value, number) if number in members else RejectedValue("member", spec, value)
    if any(_is_same_value(value, member) for member in members):
        return None
    return RejectedValue("member" if isinstance(value, str) else "type", spec, value)


_CONVERSIONS_V2: dict[str, Read] = {
    "bool": _coerce_bool_v2,
    "int": _coerce_int_v2,
    "float": _coerce_float_v2,
    "str": _coerce_str_v2,
    "path": _coerce_str_v2,
    "enum": _coerce_enum_v2,
    "map": _coerce_map_v2,
    "section": _coerce_section_v2,
}


# The dialect of a section selects the conversion.


def coerce(spec: Spec, value: Json, dialect: str) -> Verdict:
    """Convert `value` to a type as a dialect does; the keys of sections are not converted."""
    if dialect == "pydantic2":
        return _convert_as_pydantic_2(spec, value)
    if dialect == "pydantic1":
        return _convert_as_pydantic_1(spec, value)
    return _read_unchecked(spec, value)


_NULL: Spec = ("null",)
_NUMBERS: dict[str, type[Json]] = {"int": int, "float": float}


def is_unchanged(spec: Spec, value: Json) -> bool:
    """Return whether a value is a number or boolean of exactly this type, which no dialect changes."""
    if spec[0] == "union" and len(spec) == 3 and spec[1] == _NULL:
        spec = spec[2]  # an optional value; in other unions, an earlier member may convert the value
    if spec[0] == "bool":
        return value is True or value is False
    return type(value) is _NUMBERS.get(spec[0]) and not _is_out_of_bounds(spec, value)
