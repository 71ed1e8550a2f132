"""Sections that may be something else than an object."""

from __future__ import annotations

from dsconfig.model.release_view import KeyView, SectionView
from dsconfig.schema.extensions import Auto
from dsconfig.schema.keywords import AUTO_PATTERN, Schema
from dsconfig.schema.type_schema import ANY_SHAPE, ANYTHING


def shapes_of(seen: SectionView, key: KeyView, auto: Auto) -> frozenset[str]:
    """What else than an object the release takes there without a word."""
    found = set(key.takes) - {"auto"}
    if seen.dialect != "hand" and key.type[0] == "union" and ("null",) in key.type[1:]:
        found.add("null")
    if auto == "dropped":
        found.add("auto")
    return frozenset(found)


def title_of(section: str, shapes: frozenset[str]) -> str:
    """The name of the definition of a section that may also be one of the shapes."""
    if shapes == ANYTHING:
        return f"{section}OrAnything"
    return section + "".join(f"Or{_TITLES[shape]}" for shape in sorted(shapes))


_TITLES = {
    "null": "Null",
    "true": "True",
    "false": "False",
    "[]": "Empty",
    "list": "List",
    "string": "String",
    "number": "Number",
    "auto": "Auto",
    "falsy": "Falsy",
    "mapping": "Pairs",
}
_FALSY: Schema = {"maxLength": 0, "maxItems": 0, "minimum": 0, "maximum": 0}
_TYPES = {
    "null": ("null",),
    "true": ("boolean",),
    "false": ("boolean",),
    "[]": ("array",),
    "list": ("array",),
    "string": ("string",),
    "number": ("number",),
    "auto": ("string",),
    "falsy": ("null", "boolean", "number", "string", "array"),
    "mapping": ("array", "string"),
}


def shaped(shapes: frozenset[str]) -> Schema:
    """Types, and keywords for what is not an object, each of which concerns one type only."""
    types = dict.fromkeys(
        ["object", *(name for shape in _TYPES if shape in shapes for name in _TYPES[shape])]
    )
    if shapes >= ANYTHING:
        return {}
    if shapes >= ANY_SHAPE:
        return {"not": {"const": "auto"}}
    found: Schema = {"type": list(types) if len(types) > 1 else "object"}
    if "falsy" in shapes:
        found |= {**_FALSY, "not": {"const": True}}
    if "[]" in shapes and "list" not in shapes:
        found["maxItems"] = 0
    if "auto" in shapes and "string" not in shapes:
        found |= {"pattern": AUTO_PATTERN, "patternErrorMessage": "expected an object"}
    if "string" in shapes:  # that word is for a consumer, who does not fill it here
        found["not"] = {"const": "auto"}
    if "mapping" in shapes:
        found |= {"maxLength": 0, "items": {"type": "array", "minItems": 2, "maxItems": 2}}
    return found
