"""Holds the schema against `check`: where each finds fault with a config."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, TypeAlias

import jsonschema

import dsconfig
from dsconfig import Diagnostic, Report
from dsconfig.rules import RULES

Path: TypeAlias = "tuple[str | int, ...]"

TYPES = frozenset({"DSC110", "DSC111", "DSC112", "DSC113", "DSC114", "DSC115", "DSC116", "DSC118"})
CONDITIONS = frozenset(code for code, rule in RULES.items() if rule.conditions)
KEYS = frozenset({"DSC101", "DSC102", "DSC103", "DSC104", "DSC105", "DSC107"})


@cache
def validator(release: str, consumer: str | None) -> Any:
    return jsonschema.Draft7Validator(_without_false(dsconfig.json_schema(release, consumer)))


def _without_false(schema: Any) -> Any:
    """jsonschema does not say under which key a `false` stood."""
    if isinstance(schema, list):
        return [_without_false(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _without_false(item) for key, item in schema.items()}
    if isinstance(found.get("properties"), dict):
        found["properties"] = {
            key: {"not": {}} if item is False else item for key, item in found["properties"].items()
        }
    return found


def faults(config: Any, release: str, consumer: str | None = None) -> set[Path]:
    """Where the schema refuses something."""
    return set(_places(validator(release, consumer), config))


def _places(judge: Any, config: Any) -> Iterator[Path]:
    for error in judge.iter_errors(config):
        place = tuple(error.absolute_path)
        if error.validator != "additionalProperties":
            yield place
            continue
        known, patterns = error.schema["properties"], error.schema.get("patternProperties", ())
        for word in error.instance:
            if word not in known and not any(re.search(pattern, word) for pattern in patterns):
                yield (*place, word)


def expressible(report: Report) -> Iterator[Diagnostic]:
    """The findings that a schema can express."""
    return (found for found in report if _is_expressible(found))


def _is_expressible(found: Diagnostic) -> bool:
    if found.code in KEYS:
        return len(found.path) == 1 or found.effect.value == "rejected"
    return found.code in TYPES or (found.code == "DSC117" and found.effect.value != "altered")


def covered(place: Path, places: set[Path]) -> bool:
    """Whether one of the places is this one, above it or below it."""
    return any(place[: len(other)] == other or other[: len(place)] == place for other in places)
