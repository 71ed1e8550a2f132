"""Conversions of pydantic 1 (pydantic/validators.py): eager, they take the number out of nearly anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.evaluation.coercion.result import (
    Coerced,
    Read,
    Refused,
    Verdict,
    changed,
    entries,
    out_of_bounds,
    strict,
)

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, Spec


_TRUE = {1, "1", "on", "t", "true", "y", "yes"}
_FALSE = {0, "0", "off", "f", "false", "n", "no"}


def read(spec: Spec, value: Json) -> Verdict:
    """What a pydantic 1 field of type `spec` makes of `value`."""
    return strict(spec, value, read, _CONVERSIONS)


def _bool(spec: Spec, value: Json) -> Verdict:
    # bool_validator: a hash look-up, so 1.0 counts as 1; words in any case.
    word = value.lower() if isinstance(value, str) else value
    if not isinstance(word, str | int | float) or (word not in _TRUE and word not in _FALSE):
        return Refused("text" if isinstance(value, str) else "type", spec, value)
    return changed(value, word in _TRUE)


def _int(spec: Spec, value: Json) -> Verdict:
    # int_validator: int(value), which cuts fractions off and takes "8", " 8 " and "5_000", but not "8.0".
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return Refused("text" if isinstance(value, str) else "type", spec, value)
    return Refused("bound", spec, value) if out_of_bounds(spec, number) else changed(value, number)


def _float(spec: Spec, value: Json) -> Verdict:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return Refused("text" if isinstance(value, str) else "type", spec, value)
    if out_of_bounds(spec, number):
        return Refused("bound", spec, value)
    # An integer where a float belongs is the same number to everybody.
    return None if isinstance(value, int) and not isinstance(value, bool) else changed(value, number)


def _str(spec: Spec, value: Json) -> Verdict:
    if isinstance(value, str):
        return None
    return Coerced(str(value)) if isinstance(value, int | float) else Refused("type", spec, value)


def _path(spec: Spec, value: Json) -> Verdict:
    # path_validator: Path(value), which takes nothing else of JSON.
    return None if isinstance(value, str) else Refused("type", spec, value)


def _enum(spec: Spec, value: Json) -> Verdict:
    # enum_member_validator looks the value up among the members: 1.0 and true find 1, "1" does not.
    if not isinstance(value, str | int | float):
        return Refused("type", spec, value)
    for member in spec[1:]:
        if member == value:
            return changed(value, member)
    return Refused("member", spec, value)


def _mapping(spec: Spec, value: Json) -> Verdict:
    # dict_validator and BaseModel.validate call dict(value): a list of pairs, the empty list too, becomes an
    # object.
    if not isinstance(value, dict | list | str):
        return Refused("type", spec, value)
    try:
        made: JsonObject = dict(value)  # type: ignore[arg-type]  # whatever it holds: dict itself judges
    except (TypeError, ValueError):
        return Refused("type", spec, value)
    inner = entries(spec, made, read) if spec[0] == "map" else None
    return inner or (None if isinstance(value, dict) else Coerced(made))


_CONVERSIONS: dict[str, Read] = {
    "bool": _bool,
    "int": _int,
    "float": _float,
    "str": _str,
    "path": _path,
    "enum": _enum,
    "map": _mapping,
    "section": _mapping,
}
