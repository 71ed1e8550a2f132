"""What a type takes, as JSON Schema; types are as `dsconfig.model.type_spec` writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.schema.keywords import Schema, types

if TYPE_CHECKING:
    from dsconfig.core.json_types import Spec

Refer: TypeAlias = "Callable[[str, frozenset[str]], Schema]"
"""Gives the reference to a section that may also be of certain shapes."""
ANY_SHAPE = frozenset(("null", "true", "false", "list", "string", "number"))
"""Whatever JSON has but "auto", which `check` reports where it stands for a section."""
ANYTHING = ANY_SHAPE | {"auto"}

_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
_TYPES = {
    "bool": "boolean",
    "int": "integer",
    "float": "number",
    "str": "string",
    "path": "string",
    "null": "null",
    "list": "array",
    "map": "object",
}


def of(spec: Spec, refer: Refer) -> Schema:
    """The schema of a type."""
    kind = spec[0]
    if kind in ("any", "never"):
        return {} if kind == "any" else {"not": {}}
    if kind == "enum":
        return {"enum": list(spec[1:])}
    if kind == "section":
        return refer(spec[1], frozenset())
    if kind == "union" and ("any",) in spec and (sections := [arm for arm in spec if arm[0] == "section"]):
        return refer(sections[0][1], ANYTHING)
    if kind == "union":
        return _union([of(arm, refer) for arm in spec[1:]])
    found: Schema = {"type": _TYPES[kind]}
    if kind in ("int", "float"):
        found |= _bounds(spec)
    elif kind in ("list", "map"):
        inner = of(spec[1], refer)
        if inner:
            found["items" if kind == "list" else "additionalProperties"] = inner
    return found


def _bounds(spec: Spec) -> Schema:
    kind, ge, gt, le, lt = spec
    if kind == "int" and gt is not None:  # editors say "below the minimum of 1" in plainer words
        ge, gt = gt + 1, None
    return {word: bound for word, bound in zip(_BOUNDS, (ge, gt, le, lt), strict=True) if bound is not None}


def _union(arms: list[Schema]) -> Schema:
    """One schema where the arms are of different types, for which keywords do not get in each other's way."""
    if {} in arms:
        return {}
    words = [member for arm in arms for member in _members(arm)]
    others = [arm for arm in arms if not _members(arm) and "enum" not in arm]
    if words and not others:
        return {"enum": words}
    if words and all(arm == {"type": "null"} for arm in others):
        return {"enum": [*words, None]}
    merged: list[Schema] = []
    for arm in others:
        fits = merged and isinstance(arm.get("type"), str) and "$ref" not in merged[0]
        if fits and _apart(merged[0], arm):
            merged[0] = {**merged[0], **arm, "type": [*types(merged[0]), arm["type"]]}
        else:
            merged.append(arm)
    arms = [*merged, *([{"enum": words}] if words else [])]
    return arms[0] if len(arms) == 1 else {"anyOf": arms}


def _members(arm: Schema) -> list[object]:
    return list(arm["enum"]) if arm.keys() == {"enum"} else []


def _apart(one: Schema, other: Schema) -> bool:
    numbers = {"integer", "number"}
    taken = set(types(one))
    if not taken or other["type"] in taken or (other["type"] in numbers and taken & numbers):
        return False
    return not (one.keys() & other.keys()) - {"type"}
