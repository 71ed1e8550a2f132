"""Conversions of pydantic 1 (pydantic/validators.py), which extract a number from nearly any value."""

from __future__ import annotations

from dsconfig.evaluation.coercion.coercion_common import (
    CoercedValue,
    Read,
    RejectedValue,
    Verdict,
    coerce_as_pydantic,
    coerce_map,
    coercion_verdict,
    is_out_of_bounds,
)

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, Spec


_TRUE = {1, "1", "on", "t", "true", "y", "yes"}
_FALSE = {0, "0", "off", "f", "false", "n", "no"}


def coerce(spec: Spec, value: Json) -> Verdict:
    """Convert a value as a pydantic 1 field of type `spec` does."""
    return coerce_as_pydantic(spec, value, coerce, _CONVERSIONS)


def _coerce_bool(spec: Spec, value: Json) -> Verdict:
    # bool_validator: a hash look-up, so 1.0 counts as 1; words in any case.
    word = value.lower() if isinstance(value, str) else value
    if not isinstance(word, str | int | float) or (word not in _TRUE and word not in _FALSE):
        return RejectedValue("text" if isinstance(value, str) else "type", spec, value)
    return coercion_verdict(value, word in _TRUE)


def _coerce_int(spec: Spec, value: Json) -> Verdict:
    # int_validator: int(value), which cuts fractions off and takes "8", " 8 " and "5_000", but not "8.0".
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return RejectedValue("text" if isinstance(value, str) else "type", spec, value)
    return (
        RejectedValue("bound", spec, value)
        if is_out_of_bounds(spec, number)
        else coercion_verdict(value, number)
    )


def _coerce_float(spec: Spec, value: Json) -> Verdict:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return RejectedValue("text" if isinstance(value, str) else "type", spec, value)
    if is_out_of_bounds(spec, number):
        return RejectedValue("bound", spec, value)
    # An integer in a float field is the same number for all code, so it is not reported as converted.
    return None if isinstance(value, int) and not isinstance(value, bool) else coercion_verdict(value, number)


def _coerce_str(spec: Spec, value: Json) -> Verdict:
    if isinstance(value, str):
        return None
    return CoercedValue(str(value)) if isinstance(value, int | float) else RejectedValue("type", spec, value)


def _coerce_path(spec: Spec, value: Json) -> Verdict:
    # path_validator: Path(value), which takes nothing else of JSON.
    return None if isinstance(value, str) else RejectedValue("type", spec, value)


def _coerce_enum(spec: Spec, value: Json) -> Verdict:
    # enum_member_validator looks the value up among the members: 1.0 and true find 1, "1" does not.
    if not isinstance(value, str | int | float):
        return RejectedValue("type", spec, value)
    for member in spec[1:]:
        if member == value:
            return coercion_verdict(value, member)
    return RejectedValue("member", spec, value)


def _coerce_mapping(spec: Spec, value: Json) -> Verdict:
    # dict_validator and BaseModel.validate call dict(value): a list of pairs, the empty list too, becomes an
    # object.
    if not isinstance(value, dict | list | str):
        return RejectedValue("type", spec, value)
    try:
        as_object: JsonObject = dict(value)  # type: ignore[arg-type]  # `dict` itself raises for wrong elements
    except (TypeError, ValueError):
        return RejectedValue("type", spec, value)
    verdict = coerce_map(spec, as_object, coerce) if spec[0] == "map" else None
    return verdict or (None if isinstance(value, dict) else CoercedValue(as_object))


_CONVERSIONS: dict[str, Read] = {
    "bool": _coerce_bool,
    "int": _coerce_int,
    "float": _coerce_float,
    "str": _coerce_str,
    "path": _coerce_path,
    "enum": _coerce_enum,
    "map": _coerce_mapping,
    "section": _coerce_mapping,
}
