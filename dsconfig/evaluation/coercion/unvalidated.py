"""Sections that DeepSpeed reads by hand: the value is taken as it is, whatever its type.

Nothing here refuses for DeepSpeed; the verdict only says that the value is not what the code behind it
expects. Booleans are tested for truth, so anything counts as one of the two.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dsconfig.evaluation.coercion.result import (
    Coerced,
    Refused,
    Verdict,
    elements,
    entries,
    out_of_bounds,
    union,
)

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, Spec


def read(spec: Spec, value: Json) -> Verdict:
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
        return elements(spec, value, read) if isinstance(value, list) else _refused(spec, value)
    if kind == "map":
        return entries(spec, value, read) if isinstance(value, dict) else _refused(spec, value)
    return union(spec, value, read)


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
