"""JSON Schema keywords: the dialect, the schema of a type, and extensions for "auto" and editors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dsconfig.core.wording import expected

if TYPE_CHECKING:
    from dsconfig.core.json_types import Spec


# Schemas, and the pieces that many of them are made of.

Schema: TypeAlias = "dict[str, Any]"
DRAFT = "http://json-schema.org/draft-07/schema#"
AUTO_PATTERN = "^auto$"
"""Takes the word without proposing it, as a `const` would."""


def needs(*keys: str) -> Schema:
    """Keys that must be there. Ajv asks in its strict mode that they be declared where they are required."""
    return {"properties": dict.fromkeys(keys, True), "required": list(keys)}


def arms(schema: Schema) -> list[Schema]:
    """The alternatives of a schema, itself if it has none."""
    return list(schema["anyOf"]) if "anyOf" in schema else [schema]


def types(schema: Schema) -> list[str]:
    """The types that a schema names."""
    found = schema.get("type", [])
    return [found] if isinstance(found, str) else list(found)


def any_case(words: Sequence[str]) -> str:
    """A pattern for these words, letters in either case; JSON Schema knows no flag for it."""
    return f"^({'|'.join(map(_any_case, words))})$"


def _any_case(word: str) -> str:
    return "".join(f"[{letter.upper()}{letter.lower()}]" if letter.isalpha() else letter for letter in word)


# What a type takes, as JSON Schema; types are as `dsconfig.model.iter_fields` writes them.

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


# What is added to the schema of a type: "auto", words in any case, suggestions, messages.
#
# Editors show the `errorMessage` of the first arm of an `anyOf` that fails, so every arm carries the same
# one.

Auto: TypeAlias = Literal["filled", "dropped"] | None
"""Whether a consumer puts a value in the place of "auto", or DeepSpeed drops the key and uses its default."""


def with_auto(schema: Schema, auto: Auto) -> Schema:
    """The schema that also takes "auto"; proposed where somebody fills it."""
    if auto is None or not schema:
        return schema
    if auto == "filled":
        alternatives = arms(schema)
        for index, arm in enumerate(alternatives):
            if arm.keys() == {"enum"}:
                alternatives[index] = {"enum": [*arm["enum"], "auto"]}
                break
            if arm == {"type": "boolean"} and len(alternatives) == 1:
                return {"enum": [True, False, "auto"]}
        else:
            alternatives.append({"const": "auto"})
        return alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}
    if any("string" in types(arm) and "pattern" not in arm for arm in arms(schema)):
        return schema
    return {"anyOf": [*arms(schema), {"type": "string", "pattern": AUTO_PATTERN}]}


def folded(schema: Schema) -> Schema:
    """The schema that takes its words in any case of letters."""
    found = arms(schema)
    words = [word for arm in found for word in arm.get("enum", ()) if isinstance(word, str)]
    if not words:
        return schema
    return {"anyOf": [*found, {"type": "string", "pattern": any_case(words)}]}


def suggesting(schema: Schema, known: Sequence[str]) -> Schema:
    """The schema that proposes what is known of an open set, and takes anything else as before."""
    numbers = schema.get("type") in ("integer", "number")
    return {"anyOf": [{"enum": [float(word) if numbers else word for word in known]}, *arms(schema)]}


def explained(schema: Schema, spec: Spec, auto: Auto) -> Schema:
    """The schema with a message on every alternative, where editors would speak of the first one only."""
    found = arms(schema)
    if len(found) < 2 or {} in found:
        return schema
    message = f"expected {expected(spec)}" + (' or "auto"' if auto == "filled" else "")
    message = message.replace("`", "")
    return {"anyOf": [arm if "$ref" in arm else {**arm, "errorMessage": message} for arm in found]}


def described(schema: Schema, means: Mapping[object, str]) -> Schema:
    """The schema with a description of each of its words, as far as there is one."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [described(arm, means) for arm in schema["anyOf"]]}
    if "items" in schema:
        return {**schema, "items": described(schema["items"], means)}
    if "enum" not in schema or not means:
        return schema
    return {**schema, "enumDescriptions": [_meaning(means, word) for word in schema["enum"]]}


def _meaning(means: Mapping[object, str], word: object) -> str:
    # True equals 1, and a stage is not a switch.
    return next((text for key, text in means.items() if key == word and type(key) is type(word)), "")
