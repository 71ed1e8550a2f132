"""JSON Schema keywords: the dialect, the schema of a type, and extensions for "auto" and editors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dsconfig.core.wording import describe_type

if TYPE_CHECKING:
    from dsconfig.core.json_types import Spec


Schema: TypeAlias = "dict[str, Any]"
DRAFT = "http://json-schema.org/draft-07/schema#"
AUTO_PATTERN = "^auto$"
"""A pattern that accepts "auto"; editors would suggest it if it were a `const`."""


def required_keys(*keys: str) -> Schema:
    """Require keys; the strict mode of Ajv also needs a declaration of each."""
    return {"properties": dict.fromkeys(keys, True), "required": list(keys)}


def schema_alternatives(schema: Schema) -> list[Schema]:
    """Return the alternatives of a schema, itself if it has none."""
    return list(schema["anyOf"]) if "anyOf" in schema else [schema]


def types_of_schema(schema: Schema) -> list[str]:
    """Return the types that a schema names."""
    types_ = schema.get("type", [])
    return [types_] if isinstance(types_, str) else list(types_)


def case_insensitive_pattern(words: Sequence[str]) -> str:
    """Return a pattern that matches words in any case; JSON Schema has no flag for it."""
    return f"^({'|'.join(map(_case_insensitive_word, words))})$"


def _case_insensitive_word(word: str) -> str:
    return "".join(f"[{letter.upper()}{letter.lower()}]" if letter.isalpha() else letter for letter in word)


# JSON Schema of a type, which is a spec of `dsconfig.model.iter_fields`.

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


def schema_of_type(spec: Spec, refer: Refer) -> Schema:
    """Return the schema of a type."""
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
        return _schema_of_union([schema_of_type(arm, refer) for arm in spec[1:]])
    schema: Schema = {"type": _TYPES[kind]}
    if kind in ("int", "float"):
        schema |= _schema_bounds(spec)
    elif kind in ("list", "map"):
        inner = schema_of_type(spec[1], refer)
        if inner:
            schema["items" if kind == "list" else "additionalProperties"] = inner
    return schema


def _schema_bounds(spec: Spec) -> Schema:
    kind, ge, gt, le, lt = spec
    if kind == "int" and gt is not None:  # editors report "below the minimum of 1" more clearly
        ge, gt = gt + 1, None
    return {word: bound for word, bound in zip(_BOUNDS, (ge, gt, le, lt), strict=True) if bound is not None}


def _schema_of_union(arms: list[Schema]) -> Schema:
    """One schema if the arms have different types, whose keywords do not interfere; else `anyOf`."""
    if {} in arms:
        return {}
    words = [member for arm in arms for member in _values_of_schema(arm)]
    others = [arm for arm in arms if not _values_of_schema(arm) and "enum" not in arm]
    if words and not others:
        return {"enum": words}
    if words and all(arm == {"type": "null"} for arm in others):
        return {"enum": [*words, None]}
    merged: list[Schema] = []
    for arm in others:
        fits = merged and isinstance(arm.get("type"), str) and "$ref" not in merged[0]
        if fits and _have_disjoint_types(merged[0], arm):
            merged[0] = {**merged[0], **arm, "type": [*types_of_schema(merged[0]), arm["type"]]}
        else:
            merged.append(arm)
    arms = [*merged, *([{"enum": words}] if words else [])]
    return arms[0] if len(arms) == 1 else {"anyOf": arms}


def _values_of_schema(arm: Schema) -> list[object]:
    return list(arm["enum"]) if arm.keys() == {"enum"} else []


def _have_disjoint_types(one: Schema, other: Schema) -> bool:
    numbers = {"integer", "number"}
    used = set(types_of_schema(one))
    if not used or other["type"] in used or (other["type"] in numbers and used & numbers):
        return False
    return not (one.keys() & other.keys()) - {"type"}


# Additions to the schema of a type: "auto", any case, suggestions, messages.
#
# Editors show the `errorMessage` of the first arm of an `anyOf` that fails, so every arm has the same message.

Auto: TypeAlias = Literal["filled", "dropped"] | None
"""Whether a consumer resolves "auto" (filled), or DeepSpeed drops the key and uses its default (dropped)."""


def accept_auto(schema: Schema, auto: Auto) -> Schema:
    """Return the schema that also accepts "auto", which editors suggest only if a consumer resolves it."""
    if auto is None or not schema:
        return schema
    if auto == "filled":
        alternatives = schema_alternatives(schema)
        for index, arm in enumerate(alternatives):
            if arm.keys() == {"enum"}:
                alternatives[index] = {"enum": [*arm["enum"], "auto"]}
                break
            if arm == {"type": "boolean"} and len(alternatives) == 1:
                return {"enum": [True, False, "auto"]}
        else:
            alternatives.append({"const": "auto"})
        return alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}
    if any("string" in types_of_schema(arm) and "pattern" not in arm for arm in schema_alternatives(schema)):
        return schema
    return {"anyOf": [*schema_alternatives(schema), {"type": "string", "pattern": AUTO_PATTERN}]}


def accept_any_case(schema: Schema) -> Schema:
    """Return the schema that accepts its words in any case."""
    alternatives = schema_alternatives(schema)
    words = [word for arm in alternatives for word in arm.get("enum", ()) if isinstance(word, str)]
    if not words:
        return schema
    return {"anyOf": [*alternatives, {"type": "string", "pattern": case_insensitive_pattern(words)}]}


def suggest_values(schema: Schema, values: Sequence[str]) -> Schema:
    """Return the schema that suggests known values of an open set, and accepts the same values as before."""
    numbers = schema.get("type") in ("integer", "number")
    return {
        "anyOf": [
            {"enum": [float(word) if numbers else word for word in values]},
            *schema_alternatives(schema),
        ]
    }


def add_error_message(schema: Schema, spec: Spec, auto: Auto) -> Schema:
    """Return the schema with one message for all alternatives; editors would otherwise report the first one only."""
    alternatives = schema_alternatives(schema)
    if len(alternatives) < 2 or {} in alternatives:
        return schema
    message = f"expected {describe_type(spec)}" + (' or "auto"' if auto == "filled" else "")
    message = message.replace("`", "")
    return {"anyOf": [arm if "$ref" in arm else {**arm, "errorMessage": message} for arm in alternatives]}


def describe_values(schema: Schema, means: Mapping[object, str]) -> Schema:
    """Return the schema with a description of each documented value."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [describe_values(arm, means) for arm in schema["anyOf"]]}
    if "items" in schema:
        return {**schema, "items": describe_values(schema["items"], means)}
    if "enum" not in schema or not means:
        return schema
    return {**schema, "enumDescriptions": [_meaning_of_word(means, word) for word in schema["enum"]]}


def _meaning_of_word(means: Mapping[object, str], word: object) -> str:
    # True equals 1, but a switch is not ZeRO stage 1.
    return next((text for key, text in means.items() if key == word and type(key) is type(word)), "")
