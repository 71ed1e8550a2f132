"""JSON text that people read: small, and yet a line for each key, so that differences can be seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_WIDTH = 118
_OPENED = 6
"""So deep objects are opened whatever their length is."""


def text(schema: dict[str, Any]) -> str:
    """The schema as JSON. The first key shares the line of the opening brace, so that the first line tells
    of a file's origin.
    """
    return "".join(_opened(schema, 0)).replace("{\n  ", "{ ", 1) + "\n"


def pretty(value: dict[str, Any]) -> str:
    """A config as JSON that people go on to edit: what fits on a line stands on one."""
    return "".join(_opened(value, 0, 80)) + "\n"


def _opened(value: dict[str, Any] | list[Any], depth: int, width: int = _WIDTH) -> Iterator[str]:
    indent = "  " * (depth + 1)
    entries: list[tuple[str, Any]]
    if isinstance(value, dict):
        entries = [(f"{_plain(key)}: ", item) for key, item in value.items()]
        first, last = "{}"
    else:
        entries = [("", item) for item in value]
        first, last = "[]"
    yield f"{first}\n"
    for number, (key, item) in enumerate(entries, 1):
        comma = "," if number < len(entries) else ""
        line = f"{indent}{key}{_plain(item)}{comma}"
        if isinstance(item, dict | list) and item and len(line) > width and depth < _OPENED:
            yield f"{indent}{key}"
            yield from _opened(item, depth + 1, width)
            yield f"{comma}\n"
        else:
            yield f"{line}\n"
    yield f"{'  ' * depth}{last}"


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
