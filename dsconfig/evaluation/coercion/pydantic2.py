"""Conversions of pydantic 2 in lax mode, which DeepSpeed's models use, including those of numeric strings."""

from __future__ import annotations

import math
import re
from functools import lru_cache

from dsconfig.evaluation.coercion.coercion_common import (
    CoercedValue,
    Read,
    RejectedValue,
    Verdict,
    Why,
    coerce_as_pydantic,
    coerce_map,
    coercion_verdict,
    is_out_of_bounds,
    is_same_value,
)

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, Spec


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
    """Return the integer in a string, or None if pydantic rejects the string."""
    match = re.fullmatch(_INTEGER, text.strip(_BLANK))
    if not match:
        return None
    digits = (match["digits"] or match["behind"]).replace("_", "")
    return int(match["sign"] + digits if match["digits"] else digits) if len(digits) <= _LONGEST else None


@lru_cache(maxsize=256)
def parse_float(text: str) -> float | None:
    """Return the number in a string, or None if pydantic rejects the string."""
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

_TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})
_FALSE = frozenset({"0", "off", "f", "false", "n", "no"})
_FLOAT_EXACT = 2.0**63
"""The least integral float that is rejected as an integer (pydantic-core, src/input/shared.rs)."""


def coerce(spec: Spec, value: Json) -> Verdict:
    """Convert a value as a pydantic 2 field of type `spec` does."""
    return coerce_as_pydantic(spec, value, coerce, _CONVERSIONS)


def _coerce_map(spec: Spec, value: Json) -> Verdict:
    return coerce_map(spec, value, coerce) if isinstance(value, dict) else RejectedValue("type", spec, value)


def _coerce_section(spec: Spec, value: Json) -> Verdict:
    return None if isinstance(value, dict) else RejectedValue("type", spec, value)


def _coerce_bool(spec: Spec, value: Json) -> Verdict:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        word = value.lower()
        is_known = word in _TRUE or word in _FALSE
        return CoercedValue(word in _TRUE) if is_known else RejectedValue("text", spec, value)
    if isinstance(value, int | float) and value in (0, 1):
        return CoercedValue(bool(value))
    return RejectedValue("type", spec, value)


def _coerce_int(spec: Spec, value: Json) -> Verdict:
    number = _as_integer(value)
    if number is None:
        return RejectedValue(_why_rejected(value), spec, value)
    return (
        RejectedValue("bound", spec, value)
        if is_out_of_bounds(spec, number)
        else coercion_verdict(value, number)
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


def _coerce_float(spec: Spec, value: Json) -> Verdict:
    if isinstance(value, str):
        number = parse_float(value)
    elif isinstance(value, int | float):
        number = _as_float(value)
    else:
        number = None
    if number is None:
        return RejectedValue("text" if isinstance(value, str) else "type", spec, value)
    if is_out_of_bounds(spec, number):
        return RejectedValue("bound", spec, value)
    # An integer in a float field is the same number for all code, so it is not reported as converted.
    return None if isinstance(value, int) and not isinstance(value, bool) else coercion_verdict(value, number)


def _as_float(value: float) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _coerce_str(spec: Spec, value: Json) -> Verdict:
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


def _coerce_enum(spec: Spec, value: Json) -> Verdict:
    members = spec[1:]
    if all(isinstance(member, int) for member in members):
        # An integer enum converts as an integer does before it looks the member up.
        number = _as_integer(value)
        return coercion_verdict(value, number) if number in members else RejectedValue("member", spec, value)
    if any(is_same_value(value, member) for member in members):
        return None
    return RejectedValue("member" if isinstance(value, str) else "type", spec, value)


_CONVERSIONS: dict[str, Read] = {
    "bool": _coerce_bool,
    "int": _coerce_int,
    "float": _coerce_float,
    "str": _coerce_str,
    "path": _coerce_str,
    "enum": _coerce_enum,
    "map": _coerce_map,
    "section": _coerce_section,
}
