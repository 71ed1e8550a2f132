"""Plain JSON, which most configs are: the kind that json and hjson read alike, by json's own C scanner."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dsconfig.document.tree import MAX_DEPTH, MAX_DIGITS, MAX_VALUES

if TYPE_CHECKING:
    from dsconfig.document.tree import Node


class NotPlainError(Exception):
    """The text is JSON, but not of the plain kind."""


def plain(text: str) -> dict[str, object]:
    """The value of strict JSON that hjson reads alike.

    Raises:
        NotPlainError: hjson may read it otherwise, or not at all.
        ValueError: it is not JSON.
        RecursionError: it is nested too deep.
    """
    brackets = text.count("{") + text.count("[")
    if text.count(",") + brackets >= MAX_VALUES or "\\ud" in text or "\\uD" in text:
        raise NotPlainError  # perhaps too many values, perhaps half a surrogate pair
    if not text.isascii():
        text.encode()  # raises on a lone surrogate
    value = _DECODER.decode(text)
    if type(value) is not dict:
        raise NotPlainError
    if brackets > MAX_DEPTH:
        from dsconfig.document.limits import excess

        if excess(value) is not None:
            raise NotPlainError
    return value


def number(word: str) -> int | float:
    """The number that hjson 3.1.0 makes of its text: a whole float below 1e10 becomes an int.

    Raises:
        OverflowError: the number is too large.
    """
    if word.lstrip("-").isdigit():
        if len(word) > MAX_DIGITS and len(word.lstrip("-")) > MAX_DIGITS:
            raise OverflowError(word)
        return int(word)
    value = float(word)
    if value in (float("inf"), float("-inf")):
        raise OverflowError(word)
    return int(value) if abs(value) < 1e10 and int(value) == value else value


def json_value(text: str, root: Node | None) -> object:
    """What `json.load` gives: json's own reading where it accepts the text, else the recovered tree."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _with_json_numbers(text, root)


def _with_json_numbers(text: str, node: Node | None) -> object:
    """A recovered value with json's numbers: `1e3` is a float to it. The depth is bounded by MAX_DEPTH."""
    if node is None:
        return None
    if node.kind == "object":
        return {member.key: _with_json_numbers(text, member.node) for member in node.members}
    if node.kind == "array":
        return [_with_json_numbers(text, item) for item in node.items]
    if node.kind == "number" and isinstance(node.value, int):
        raw = text[node.span.start : node.span.end]
        return node.value if raw.lstrip("-").isdigit() else float(raw)
    return node.value


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise NotPlainError  # duplicate keys
    return value


def _float(word: str) -> int | float:
    try:
        return number(word)
    except OverflowError:
        raise NotPlainError from None  # json gives infinity, hjson fails


def _constant(word: str) -> object:
    raise NotPlainError(word)  # NaN and Infinity: words to hjson


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)
