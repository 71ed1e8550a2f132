"""Format values, types and alternatives for messages and documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
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


def quote_value(value: object) -> str:
    """Return a value as JSON in backticks (`"auto"`, `true`, `4.5`), truncated if it is long."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return "`an integer of more than 60 digits`"
    try:
        text = json.dumps(value, ensure_ascii=False, default=_json_fallback)
    except TypeError:  # bytes as a key, or another type that JSON lacks
        text = str(value)
    return f"`{text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…'}`"


def format_number(number: float) -> str:
    """Format a number with up to six digits like `%g`, or as an order of magnitude beyond the float range."""
    try:
        return f"{number:g}"
    except OverflowError:
        return f"about {'-' if number < 0 else ''}10^{int(number).bit_length() * 3 // 10}"


def _json_fallback(value: object) -> object:
    """Return a deterministic text for a value whose type JSON does not have."""
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return str(value).partition(" at 0x")[0]


def json_kind(value: object) -> str:
    """Return the JSON kind of a value with its article (`a string`, `an object`, `null`), or else its Python type."""
    word = next((_KINDS[each] for each in type(value).__mro__ if each in _KINDS), None)
    if word == "null":
        return word
    if word is None:
        return f"a Python value of the type `{type(value).__name__}`"
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


_EXPONENT = r'(?a)(?<![\w."])(-?\d+)e([+-]?)(\d+)(?![\w"])'


def numbers_for_yaml(advice: str) -> str:
    """Spell the numbers in a help text for YAML 1.1, which reads 6e-05 as a string but 6.0e-05 as a number."""
    return re.sub(_EXPONENT, lambda match: f"{match[1]}.0e{match[2] or '+'}{match[3]}", advice)


def describe_value(value: object) -> str:
    """Describe a value by its kind and text, set off by commas: ``a list, `[3]`,``; null has no kind."""
    return "`null`," if value is None else f"{json_kind(value)}, {quote_value(value)},"


def join_alternatives(values: Iterable[object], conjunction: str = "or") -> str:
    """Join alternatives as in a sentence: `"a"`, `"b"` or `"c"`."""
    words = [
        value if isinstance(value, str) and value.startswith("`") else quote_value(value) for value in values
    ]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {conjunction} {words[-1]}"


def join_phrases(phrases: Sequence[str], last: str = " or ") -> str:
    """Join phrases with commas, and with `last` before the last one."""
    return last.join(filter(None, (", ".join(phrases[:-1]), *phrases[-1:])))


def closest_words(word: str, candidates: Iterable[str], count: int = 1) -> list[str]:
    """Return up to `count` candidates with the most similar spelling, best first."""
    from dsconfig.core.did_you_mean import cached_word_index, similar_words

    return [each.word for each in similar_words(word, cached_word_index(tuple(candidates)))][:count]


def describe_type(spec: Spec) -> str:
    """Describe the values that a type accepts, such as `a positive integer`, `one of "none" or "cpu"`."""
    head = spec[0]
    if head == "union":
        return _describe_union(spec[1:])
    if head == "enum":
        return ("one of " if len(spec) > 3 else "") + join_alternatives(spec[1:])
    if head in ("int", "float"):
        return _describe_number_type(spec)
    if head == "list":
        return "a list" if spec[1][0] == "any" else f"a list of {_describe_type_in_plural(spec[1])}"
    return _SIMPLE[head]


_SIMPLE = {
    "bool": "`true` or `false`",
    "str": "a string",
    "path": "a path",
    "never": "no JSON value",
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


def _describe_type_in_plural(spec: Spec) -> str:
    if spec[0] == "enum" and len(spec) > 2:
        return f"any of {join_alternatives(spec[1:])}"
    return _PLURALS.get(spec[0]) or describe_type(spec)


def _describe_union(arms: Spec) -> str:
    if all(arm[0] in ("enum", "null") for arm in arms):
        return describe_type(("enum", *(word for arm in arms for word in (arm[1:] or (None,)))))
    return join_phrases([describe_type(arm) for arm in arms])


_SIGNS = {
    ("int", "at least 0"): "non-negative",
    ("int", "at least 1"): "positive",
    ("int", "greater than 0"): "positive",
    ("float", "at least 0"): "non-negative",
    ("float", "greater than 0"): "positive",
}


def _describe_number_type(spec: Spec) -> str:
    noun = "integer" if spec[0] == "int" else "number"
    word = f"{'an' if noun == 'integer' else 'a'} {noun}"
    bounds = [f"{text} {limit:g}" for text, limit in zip(_BOUNDS, spec[1:], strict=True) if limit is not None]
    if not bounds:
        return word
    if sign := _SIGNS.get((spec[0], *bounds)):
        return f"a {sign} {noun}"
    if bounds[0].startswith("at least") and bounds[-1].startswith("at most"):
        return f"{word} from {spec[1]:g} to {spec[3]:g}"
    return f"{word} {'of ' if bounds[0].startswith('at') else ''}{' and '.join(bounds)}"
