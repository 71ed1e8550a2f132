"""Values of JSON: the one at a dotted path, and copies."""

from __future__ import annotations

from collections.abc import Mapping

from dsconfig.core.json_types import Json


def at(data: Mapping[str, Json], path: str) -> Json:
    """The value at a dotted path; None where there is none."""
    value: Json = data
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def copied(value: Json) -> Json:
    """The value with objects and lists of its own; what else a Python dict holds is shared.

    `copy.deepcopy` raises for a lock, a generator and whatever else cannot be pickled.
    """
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return tuple(map(copied, value)) if type(value) is tuple else value
