"""Spelling of values, types and lists of alternatives in messages and pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsconfig.core.json_types import Spec

_LONGEST = 60
_KINDS = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "list",
    tuple: "tuple",
    dict: "object",
    type(None): "null",
}
_BOUNDS = ("at least", "greater than", "at most", "less than")


def quoted(value: object) -> str:
    """A value as it stands in the file, in backticks: `"auto"`, `true`, `4.5`; long ones are cut."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return "`an integer of more than 60 digits`"
    try:
        text = json.dumps(value, ensure_ascii=False, default=_spelled)
    except TypeError:  # a key that is bytes, or another that JSON does not have
        text = str(value)
    return f"`{text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…'}`"


def compact(number: float) -> str:
    """A number in six digits at most, as `%g` writes it; how long it is, beyond all floats."""
    try:
        return f"{number:g}"
    except OverflowError:
        return f"{'-' if number < 0 else ''}10^{int(number).bit_length() * 3 // 10}, about"


def _spelled(value: object) -> object:
    """What JSON does not know, in the same words in every run: no order of a set, and no address."""
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return str(value).partition(" at 0x")[0]


def kind(value: object) -> str:
    """The JSON kind of a value with its article: `a string`, `an object`, `null`; else its Python type."""
    word = next((_KINDS[each] for each in type(value).__mro__ if each in _KINDS), None)
    if word == "null":
        return word
    if word is None:
        return f"a Python value of the type `{type(value).__name__}`"
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


_EXPONENT = re.compile(r'(?<![\w."])(-?\d+)e([+-]?)(\d+)(?![\w"])', re.ASCII)


def in_yaml(advice: str) -> str:
    """Advice with its numbers as YAML 1.1 reads them: it takes 6e-05 for text, and 6.0e-05 for a number."""
    return _EXPONENT.sub(lambda found: f"{found[1]}.0e{found[2] or '+'}{found[3]}", advice)


def described(value: object) -> str:
    """A value with its kind, set off in a sentence that goes on: ``a list, `[3]`,``; plain `null` alone."""
    return "null" if value is None else f"{kind(value)}, {quoted(value)},"


def one_of(values: Iterable[object], conjunction: str = "or") -> str:
    """`"a"`, `"b"` or `"c"`."""
    words = [value if isinstance(value, str) and value.startswith("`") else quoted(value) for value in values]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {conjunction} {words[-1]}"


def closest(word: str, known: Iterable[str], count: int = 1) -> list[str]:
    """The words of `known` that are spelled most like `word`, best first: what may have been meant."""
    from dsconfig.core.did_you_mean import near, ready

    return [each.word for each in near(word, ready(tuple(known)))][:count]


def expected(spec: Spec) -> str:
    """What a type takes, in words: `an integer of at least 1`, `one of "none", "cpu" or "nvme"`."""
    head = spec[0]
    if head == "union":
        return _union(spec[1:])
    if head == "enum":
        return ("one of " if len(spec) > 2 else "") + one_of(spec[1:])
    if head in ("int", "float"):
        return _number(spec)
    if head == "list":
        return "a list" if spec[1][0] == "any" else f"a list of {_plural(spec[1])}"
    return _SIMPLE[head]


_SIMPLE = {
    "bool": "`true` or `false`",
    "str": "a string",
    "path": "a path",
    "never": "no value that JSON has",
    "null": "`null`",
    "any": "any value",
    "map": "an object",
    "section": "an object",
}
_PLURALS = {
    "str": "strings",
    "int": "integers",
    "float": "numbers",
    "bool": "booleans",
    "section": "objects",
    "map": "objects",
    "list": "lists",
}


def _plural(spec: Spec) -> str:
    if spec[0] == "enum" and len(spec) > 2:
        return f"any of {one_of(spec[1:])}"
    return _PLURALS.get(spec[0]) or expected(spec)


def _union(arms: Spec) -> str:
    return " or ".join(map(expected, arms))


def _number(spec: Spec) -> str:
    word = "an integer" if spec[0] == "int" else "a number"
    bounds = [f"{text} {limit:g}" for text, limit in zip(_BOUNDS, spec[1:], strict=True) if limit is not None]
    if not bounds:
        return word
    return f"{word} {'of ' if bounds[0].startswith('at') else ''}{' and '.join(bounds)}"
