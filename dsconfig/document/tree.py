"""Located tree of a text: nodes, spans and problems, and the limits on its depth and size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


# The located tree: what every reader yields, each key and value knowing its place in the text.
#
# The values are named tuples and not dataclasses: importing `dataclasses` alone costs 6 ms of CPU.

Parser = Literal["hjson", "json", "yaml"]
Format = Literal["json", "yaml", "python"]
Part = Literal["value", "key", "entry"]
"""Of what stands at a path: its value, its key, or both."""
NodeKind = Literal["object", "array", "string", "number", "boolean", "null", "unknown"]


class Unknown:
    """The value of a key in a Python source that only a run shows."""

    def __repr__(self) -> str:
        return "<unknown>"


UNKNOWN: Final = Unknown()

MAX_VALUES: Final = 20_000
"""Most values, and most comments, read from one text."""
MAX_DEPTH: Final = 128
"""Deepest nesting read. hjson gives up near 490 levels and json near 990, by the caller's stack."""
MAX_DIGITS: Final = 4300
"""Longest integer read: the default of `sys.get_int_max_str_digits`."""
MAX_PROBLEMS: Final = 1000
"""Most problems kept of one text; after as many errors the reader gives up on the rest."""

YAML_TEXT: Final = "yaml-text"
KINDS: Final = {
    # the text as a whole
    "empty": "nothing but white space and comments",
    "not-text": "binary data",
    "invalid-utf8": "bytes that are not UTF-8",
    "bom": "a byte order mark at the start",
    "too-large": "larger than is read",
    "too-deep": "nested deeper than is read",
    "root-not-object": "the root is not an object",
    # what only Hjson takes
    "comment": "a comment",
    "trailing-comma": "a comma before a closing bracket",
    "missing-comma": "no comma between two entries",
    "unquoted-key": "a key without quotes",
    "unquoted-string": "a string without quotes; Hjson reads it to the end of the line",
    "single-quotes": "a string in single quotes",
    "multiline-string": "a string in triple quotes",
    "missing-root-braces": "the entries of the root stand without braces",
    "nan": "NaN or Infinity: a number to json, a word to Hjson",
    # what no parser takes, or what each takes differently
    "duplicate-key": "a key given twice in one object: the last one wins, DeepSpeed's own hook refuses it",
    "unclosed": "a bracket, string or comment that is never closed",
    "unexpected": "something that does not belong there",
    "missing-colon": "no colon between key and value",
    "missing-value": "a key without a value",
    "control-character": "a raw control character, a tab or line end among them, in a quoted string",
    "bad-escape": "an unknown escape sequence",
    "bad-number": "a number in a form that JSON does not know",
    "huge-number": "an integer beyond 4300 digits, or a float beyond the largest",
    "lone-surrogate": "half of a UTF-16 pair: not a character",
    "placeholder": "a template's placeholder that was never filled",
    # YAML
    "yaml-error": "not YAML, or a tag that the safe loader does not know",
    "alias-bomb": "aliases that multiply to more values than are read",
    "non-string-key": "a key that is not a string",
    YAML_TEXT: "YAML, where the path of the file is passed to a JSON parser",
}
"""Every kind of problem and what it means: the one table of them."""


class Span(NamedTuple):
    """A piece of the text: offsets in code points, the end exclusive."""

    start: int
    end: int


class Position(NamedTuple):
    """A place in the text. Both count from 1, columns in code points."""

    line: int
    column: int


class Problem(NamedTuple):
    """One oddity of the text. `refused_by` names the real parsers that raise because of it."""

    kind: str
    span: Span
    path: KeyPath
    detail: str
    refused_by: frozenset[Parser]


class Node(NamedTuple):
    """A value and its place. `value` is what the format's own loader gives (for JSON text: hjson)."""

    kind: NodeKind
    span: Span
    value: object
    members: tuple[Member, ...] = ()
    items: tuple[Node, ...] = ()


class Member(NamedTuple):
    """An entry of an object."""

    key: str
    key_span: Span
    node: Node


class Tree(NamedTuple):
    """What one reading of a text found."""

    root: Node | None
    problems: tuple[Problem, ...]
    comments: tuple[tuple[Span, str], ...] = ()


NOBODY: Final[frozenset[Parser]] = frozenset()
ONLY_JSON: Final[frozenset[Parser]] = frozenset(("json",))
ONLY_HJSON: Final[frozenset[Parser]] = frozenset(("hjson",))
ONLY_YAML: Final[frozenset[Parser]] = frozenset(("yaml",))
BOTH_JSON: Final[frozenset[Parser]] = frozenset(("hjson", "json"))
EVERYBODY: Final[frozenset[Parser]] = frozenset(("hjson", "json", "yaml"))


# What is more than a config's data may be: nested too deep, too many values, an integer too long.

_BITS = MAX_DIGITS * 3321928 // 1_000_000
"""The length of the longest integer, in bits: `str` refuses a longer one."""


def excess(value: object) -> str | None:
    """The kind of problem that the data is, by name; None where it is within the limits.

    Nothing here recurs, so that data which holds itself is only too deep.
    """
    level, count = [value], 0
    for _ in range(MAX_DEPTH):
        inner: list[object] = []
        for each in level:
            inner += (
                each.values() if isinstance(each, Mapping) else each if isinstance(each, list | tuple) else ()
            )
        count += len(inner)
        if count > MAX_VALUES:
            return "too-large"
        if any(isinstance(each, int) and each.bit_length() > _BITS for each in inner):
            return "huge-number"
        level = [each for each in inner if isinstance(each, Mapping | list | tuple)]
        if not level:
            return None
    return "too-deep"


def tamed(mapping: Mapping[str, object]) -> Mapping[str, object]:
    """The data with its keys as text, and a stand-in for each array or tensor; the very data mostly.

    A comparison of an array has a value for each element, and its truth value raises.
    """
    held: list[object] = [mapping]
    for each in held:
        inner = each.values() if isinstance(each, Mapping) else each if isinstance(each, list | tuple) else ()
        if any(map(_is_array, inner)) or (isinstance(each, Mapping) and not all(map(_is_text, each))):
            return {str(key): _tamed(value) for key, value in mapping.items()}
        held += [value for value in inner if isinstance(value, Mapping | list | tuple)]
    return mapping


def _tamed(value: object) -> object:
    if _is_array(value):
        text = str(value)
        return type(type(value).__name__, (), {"__repr__": lambda _: text})()
    if isinstance(value, dict):
        return {str(key): _tamed(item) for key, item in value.items()}
    return [_tamed(item) for item in value] if isinstance(value, list | tuple) else value


def _is_text(key: object) -> bool:
    return isinstance(key, str)


def _is_array(value: object) -> bool:
    return hasattr(value, "__array__") and bool(getattr(value, "shape", ()))
