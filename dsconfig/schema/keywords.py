"""Schemas, and the pieces that many of them are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

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
