"""The tree of a text with locations: nodes, spans, problems, and limits on the depth and size of a config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dsconfig.core.json_types import NamedTuple

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Final, Literal, TypeAlias

    from dsconfig.core.json_types import KeyPath


# Every parser builds this tree, in which each key and value has its span in the text.
#
# The types are named tuples and not dataclasses: importing `dataclasses` alone costs 6 ms of CPU.

Parser: TypeAlias = "Literal['hjson', 'json', 'yaml']"
Format: TypeAlias = "Literal['json', 'yaml', 'python']"
Part: TypeAlias = "Literal['value', 'key', 'entry']"
"""A part of an entry in an object: its value, its key, or both."""
NodeKind: TypeAlias = "Literal['object', 'array', 'string', 'number', 'boolean', 'null', 'unknown']"


class UnknownValue:
    """Type of `UNKNOWN`, the placeholder for a value in a Python source that is known only at run time."""

    def __repr__(self) -> str:
        return "<unknown>"


UNKNOWN: Final = UnknownValue()


def unknown_paths(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the paths of the values in a config that are known only at run time."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from unknown_paths(each, (*path, key))
    elif value is UNKNOWN or (isinstance(value, list) and any(each is UNKNOWN for each in value)):
        yield path


def without_unknown(value: object) -> object:
    """Return a copy of a config without keys whose values are known only at run time."""
    if not isinstance(value, dict):
        return value
    return {
        key: without_unknown(each)
        for key, each in value.items()
        if isinstance(each, dict) or next(unknown_paths({key: each}), None) is None
    }


MAX_VALUES: Final = 20_000
"""Maximum number of values in one text, and also of comments."""
MAX_DEPTH: Final = 128
"""Maximum nesting. hjson gives up near 490 levels and json near 990, depending on the caller's stack."""
MAX_DIGITS: Final = 4300
"""Maximum number of digits of an integer: the default of `sys.get_int_max_str_digits`."""
MAX_PROBLEMS: Final = 1000
"""Maximum number of recorded problems; the parser stops after that many errors."""

YAML_TEXT: Final = "yaml-text"
KINDS: Final = {
    # the text as a whole
    "empty": "only white space and comments",
    "not-text": "binary data",
    "invalid-utf8": "bytes that are not UTF-8",
    "bom": "a byte order mark at the start",
    "too-large": "larger than the limit",
    "too-deep": "nested deeper than the limit",
    "root-not-object": "the root is not an object",
    # accepted by Hjson only
    "comment": "a comment",
    "trailing-comma": "a comma before a closing bracket",
    "missing-comma": "no comma between two entries",
    "unquoted-key": "a key without quotes",
    "unquoted-string": "a string without quotes; Hjson reads it to the end of the line",
    "single-quotes": "a string in single quotes",
    "multiline-string": "a string in triple quotes",
    "missing-root-braces": "a root object without braces",
    "nan": "NaN or Infinity: a number for json, a string for Hjson",
    # rejected by all parsers, or read differently by each
    "duplicate-key": "a key that appears twice in one object: the last one wins, DeepSpeed's own hook rejects it",
    "unclosed": "a bracket, string or comment that is never closed",
    "unexpected": "unexpected text",
    "missing-colon": "no colon between key and value",
    "missing-value": "a key without a value",
    "control-character": "an unescaped control character, such as a tab or line break, in a quoted string",
    "bad-escape": "an unknown escape sequence",
    "bad-number": "a number that is not valid JSON",
    "huge-number": "an integer of more than 4300 digits, or a float that is out of range",
    "lone-surrogate": "an unpaired UTF-16 surrogate: not a character",
    "placeholder": "a template placeholder that was not filled in",
    # YAML
    "yaml-error": "invalid YAML, or a tag that the safe loader does not support",
    "alias-bomb": "aliases that expand to more values than the limit",
    "non-string-key": "a key that is not a string",
    YAML_TEXT: "YAML text in a file that a JSON parser opens",
}
"""Descriptions of all kinds of problems."""


class TextSpan(NamedTuple):
    """A range of a text in code points, with an exclusive end."""

    start: int
    end: int


class TextPosition(NamedTuple):
    """A line and a column in a text, counted in code points from 1."""

    line: int
    column: int


class TextProblem(NamedTuple):
    """A problem in a text; `rejected_by` names the parsers that reject the text because of it."""

    kind: str
    span: TextSpan
    path: KeyPath
    detail: str
    rejected_by: frozenset[Parser]


class TreeNode(NamedTuple):
    """A value with its span; `value` is what the format's own loader returns (for JSON, hjson)."""

    kind: NodeKind
    span: TextSpan
    value: object
    members: tuple[ObjectMember, ...] = ()
    items: tuple[TreeNode, ...] = ()


class ObjectMember(NamedTuple):
    """A key of an object and its value."""

    key: str
    key_span: TextSpan
    node: TreeNode


class LocatedTree(NamedTuple):
    """The result of parsing a text: root node, problems and comments."""

    root: TreeNode | None
    problems: tuple[TextProblem, ...]
    comments: tuple[tuple[TextSpan, str], ...] = ()


NO_PARSER: Final[frozenset[Parser]] = frozenset()
ONLY_JSON: Final[frozenset[Parser]] = frozenset(("json",))
ONLY_HJSON: Final[frozenset[Parser]] = frozenset(("hjson",))
ONLY_YAML: Final[frozenset[Parser]] = frozenset(("yaml",))
BOTH_JSON: Final[frozenset[Parser]] = frozenset(("hjson", "json"))
ALL_PARSERS: Final[frozenset[Parser]] = frozenset(("hjson", "json", "yaml"))


def shift_tree(tree: LocatedTree, by: int) -> LocatedTree:
    """Shift all spans in a tree by an offset, to embed it in a longer text."""
    return LocatedTree(
        None if tree.root is None else shift_node(tree.root, by),
        tuple(each._replace(span=_shift_span(each.span, by)) for each in tree.problems),
        tuple((_shift_span(span, by), text) for span, text in tree.comments),
    )


def shift_node(node: TreeNode, by: int) -> TreeNode:
    """Shift the spans of a node and its children by an offset."""
    return node._replace(
        span=_shift_span(node.span, by),
        members=tuple(
            ObjectMember(each.key, _shift_span(each.key_span, by), shift_node(each.node, by))
            for each in node.members
        ),
        items=tuple(shift_node(each, by) for each in node.items),
    )


def _shift_span(span: TextSpan, by: int) -> TextSpan:
    return TextSpan(span.start + by, span.end + by)


# Limits on data: nesting, number of values, length of integers.

_BITS = MAX_DIGITS * 3321928 // 1_000_000
"""Number of bits of the longest allowed integer; `str` raises for a longer one."""


def exceeded_limit(value: object) -> str | None:
    """Return a description of the limit that a value exceeds, or None if it exceeds none.

    The check is iterative, so circular data simply counts as too deep.
    """
    level, count = [value], 0
    for _ in range(MAX_DEPTH):
        children: list[object] = []
        for each in level:
            children += (
                each.values() if isinstance(each, Mapping) else each if isinstance(each, list | tuple) else ()
            )
        count += len(children)
        if count > MAX_VALUES:
            return "too-large"
        if any(isinstance(each, int) and each.bit_length() > _BITS for each in children):
            return "huge-number"
        level = [each for each in children if isinstance(each, Mapping | list | tuple)]
        if not level:
            return None
    return "too-deep"


def replace_unserializable_values(mapping: Mapping[str, object]) -> Mapping[str, object]:
    """Convert keys to text, and replace arrays and tensors with placeholders.

    Comparing an array returns a result for each element, and testing the truth value of that array raises an error.
    """
    containers: list[object] = [mapping]
    for each in containers:
        children = (
            each.values() if isinstance(each, Mapping) else each if isinstance(each, list | tuple) else ()
        )
        if any(map(_is_array, children)) or (isinstance(each, Mapping) and not all(map(_is_text_key, each))):
            return {str(key): _to_plain_value(value) for key, value in mapping.items()}
        containers += [value for value in children if isinstance(value, Mapping | list | tuple)]
    return mapping


def _to_plain_value(value: object) -> object:
    if _is_array(value):
        text = str(value)
        return type(type(value).__name__, (), {"__repr__": lambda _: text})()
    if isinstance(value, dict):
        return {str(key): _to_plain_value(item) for key, item in value.items()}
    return [_to_plain_value(item) for item in value] if isinstance(value, list | tuple) else value


def _is_text_key(key: object) -> bool:
    return isinstance(key, str)


def _is_array(value: object) -> bool:
    return hasattr(value, "__array__") and bool(getattr(value, "shape", ()))
