"""A value for the words of a help: `a positive integer` is 1."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.parity.generators.keyspace import Spec, arms
from tests.parity.generators.values import around, inside

NOTHING = object()
"""The words ask for no value that is known."""
_NUMBERS = (1, 2, 4, 8, 16, 100, 1000, 0.5, 0.1, 0)


def value(words: str, spec: Spec | None, default: Any = None) -> Any:
    """What the words ask for; without words, the default or what the key takes."""
    text = words.strip("`")
    try:
        return json.loads(text)
    except ValueError:
        pass
    if re.fullmatch(r"[A-Za-z][\w.]*", text) and text != "text":
        return text  # a name, as `AdamW`
    example = re.search(r"(?:such as|for example|usual(?:ly| are)|the default is|about) `?([^`]+?)`?$", words)
    if example:
        return value(example[1].partition(" or ")[0], spec)
    if "same" in words or not text:
        return _usual(spec, default)
    if re.match(r"a list of any of", words):
        return [json.loads(words.split("`")[1])]
    if re.match(r"any value|a list of lists", words):
        return "text" if words.startswith("any") else [["text"]]
    return _usual(spec, default) if re.match(r"a value|the ", words) else _phrase(words, spec)


def _usual(spec: Spec | None, default: Any) -> Any:
    if default is not None and default != "auto":
        return default
    return _of(spec) if spec else NOTHING


def _phrase(words: str, spec: Spec | None) -> Any:
    first = re.split(r" or (?!less|more)|, or ", words)[0]
    if re.fullmatch(r"`[^`]+`", first):
        return value(first, spec)
    if re.match(r"a list of \w+ integers|two integers", first):
        return [2, 4]
    if re.match(r"a list|full names", first):
        return ["torch.nn.Linear"] if "name" in first or "string" in first else [1]
    if re.match(r"two numbers", first):
        return [0.9, 0.99]
    if "object" in first:
        return {}
    if re.search(r"string|name|directory|path", first):
        return "text"
    if re.search(r"`?null`?$", first):
        return None
    return _number(words, spec)


def _number(words: str, spec: Spec | None) -> Any:
    words = words.replace("`", "")
    bounds: list[float | None] = [None, None, None, None]
    forms = ("at least|from", "greater than|more than|other than", "at most|to", "less than|below")
    for index, form in enumerate(forms):
        found = re.search(rf"(?:{form}) (-?\d+(?:\.\d+)?)", words)
        bounds[index] = float(found[1]) if found else None
    if "positive" in words or "a divisor" in words:
        bounds[1] = 0
    multiple = re.match(r"an? multiple of (\d+)", words)
    if multiple:
        return int(multiple[1])
    least = re.match(r"(-?[\d.]+) or more", words)
    if least:
        bounds[0] = float(least[1])
    if "integer" in words or "number" in words or any(b is not None for b in bounds):
        whole = "integer" in words or bool(spec and any(arm[0] == "int" for arm in arms(spec)))
        return _fitting(bounds, whole=whole)
    return NOTHING


def _fitting(bounds: list[float | None], *, whole: bool) -> float:
    if bounds[:2] == [None, None] and bounds[2] is not None:
        return int(bounds[2]) if whole else bounds[2]
    for number in _NUMBERS:
        if inside(number, bounds) and not (whole and isinstance(number, float)):
            return number
    return int(around(bounds)) if whole else around(bounds)


def _of(spec: Spec) -> Any:
    """A value that the type takes."""
    match arms(spec)[0]:
        case ("int" | "float", *bounds):
            return _fitting(bounds, whole=False)
        case ("enum", *members):
            return next((member for member in members if member != "auto"), members[0])
        case ("list", item):
            return [_of(item)]
        case ("bool",):
            return True
        case ("str" | "path",):
            return "text"
        case ("null",):
            return None
    return {}
