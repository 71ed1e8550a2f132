"""What is added to the schema of a type: "auto", words in any case, suggestions, messages.

Editors show the `errorMessage` of the first arm of an `anyOf` that fails, so every arm carries the same one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from dsconfig.core.wording import expected
from dsconfig.schema.keywords import AUTO_PATTERN, Schema, any_case, arms, types

if TYPE_CHECKING:
    from dsconfig.core.json_types import Spec

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
