"""Shapes of values: what stands where a section belongs and is no object, and a copy that never raises."""

from __future__ import annotations

from dsconfig.core.json_types import Json

_OF_JSON = (type(None), bool, int, float, str, list, tuple, dict)


def shapes_of(value: Json) -> frozenset[str]:
    """The names (`dsconfig.model.key.Shape`) under which a value may be taken for a section."""
    shapes = {_shape(value)}
    if isinstance(value, _OF_JSON) and not value:  # of an array of numpy the truth value raises
        shapes.add("falsy")
    if isinstance(value, list | str) and value in ([], "auto"):
        shapes.add("auto" if value else "[]")
    if as_mapping(value) is not None:
        shapes.add("mapping")
    return frozenset(shapes)


def _shape(value: Json) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return "string" if isinstance(value, str) else "list" if isinstance(value, list) else "number"


def as_mapping(value: Json) -> dict[Json, Json] | None:
    """What Python's `dict()` makes of a list or a string, as pydantic 1 calls it; None where it refuses."""
    if not isinstance(value, list | str):
        return None
    try:
        return dict(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
