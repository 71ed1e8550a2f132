"""Parse JSON, JSONC and Hjson, accepting and rejecting exactly what hjson 3.1.0 does."""

from __future__ import annotations

import re

from dsconfig.document.document import parse_hjson_number
from dsconfig.document.located_tree import (
    MAX_DEPTH,
    MAX_PROBLEMS,
    MAX_VALUES,
    NO_PARSER,
    ONLY_JSON,
    LocatedTree,
    NodeKind,
    ObjectMember,
    Parser,
    TextProblem,
    TextSpan,
    TreeNode,
)

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Final

    from dsconfig.core.json_types import KeyPath


# Text that hjson 3.1.0 accepts becomes a tree; anything else raises `HjsonSyntaxError`.
#
# The loop has an explicit stack, so that no nesting can exhaust Python's own. Each function takes a position
# and returns the one where it stopped. What hjson accepts and json rejects is recorded as a problem.


def parse_hjson(text: str, *, translate: bool = True) -> LocatedTree:
    """Parse a whole text as hjson's `HjsonDecoder.raw_decode` and `decode` do.

    Raises:
        HjsonSyntaxError: hjson rejects the text.
    """
    builder = TreeBuilder(text, translate=translate)
    first, pos = skip_space_and_comments(builder, skip_byte_order_mark(builder))
    if not first and not text.startswith(("\ufeff", "\xef\xbb\xbf")):
        builder.root = TreeNode("object", TextSpan(pos, pos), {})
        builder.add_problem("empty", 0, pos)
        return builder.finished_tree()
    if first in ("{", "["):
        pos = _parse_entries(builder, _parse_value(builder, pos))
    else:
        builder, pos = _parse_root_without_braces(builder, pos)
    char, pos = skip_space_and_comments(builder, pos)
    if char:
        raise HjsonSyntaxError("unexpected", pos, len(text), text[pos : pos + 80].strip())
    return builder.finished_tree()


def _parse_root_without_braces(builder: TreeBuilder, pos: int) -> tuple[TreeBuilder, int]:
    """Parse a root object without braces; on failure, retry as a single value where hjson does."""
    try:
        builder.open_container(pos, is_object=True, braces=False)
        return builder, _parse_entries(builder, pos)
    except HjsonSyntaxError as error:
        if error.fatal or pos >= len(builder.text):
            raise
        builder = TreeBuilder(builder.text, translate=builder.translate)
        skip_space_and_comments(builder, skip_byte_order_mark(builder))
        try:
            return builder, _parse_value(builder, pos)
        except HjsonSyntaxError:
            raise error from None


def _parse_entries(builder: TreeBuilder, pos: int) -> int:
    """Parse entries until all brackets are closed, and return the end offset."""
    stack = builder.stack
    while stack:
        frame = stack[-1]
        is_closed, pos = _parse_comma_or_end(builder, frame, pos)
        if not is_closed:
            if frame.is_object:
                pos = _parse_key(builder, frame, pos)
            pos = _parse_value(builder, pos)
    return pos


def _parse_comma_or_end(builder: TreeBuilder, frame: OpenContainer, pos: int) -> tuple[bool, int]:
    """Parse a comma or the end of the innermost container, and return whether that closed it."""
    frame.key = None
    count = len(frame.members) + len(frame.items)
    char, pos = skip_space_and_comments(builder, pos)
    comma = pos if char == "," and count else None
    if comma is not None:
        char, pos = skip_space_and_comments(builder, pos + 1)
    if char == frame.closer and (frame.braces or count):
        if comma is not None:
            builder.add_problem("trailing-comma", comma, comma + 1)
        pos += len(char)
        builder.close_container(pos if frame.braces else frame.end_of_last_entry())
        return True, pos
    if count and comma is None and char:
        end = frame.end_of_last_entry()
        builder.add_problem("missing-comma", end, end)
    return False, pos


def _parse_key(builder: TreeBuilder, frame: OpenContainer, start: int) -> int:
    """Parse a quoted or unquoted key and its colon (hjson's `scanKeyName`)."""
    text = builder.text
    char = text[start : start + 1]
    if char in ('"', "'"):
        key, end, found_problems = parse_quoted_string(text, start)
        for problem in found_problems:
            builder.add_problem(*problem)
    else:
        match = KEY.match(text, start)
        if not match:
            raise HjsonSyntaxError("unexpected" if char else "unclosed", start, start + len(char), char)
        word, space = match.groups()
        key, end = word.rstrip() if space else word, start + len(word)
        builder.add_problem("unquoted-key", start, end, word)
    frame.key, frame.key_span = key, TextSpan(start, end)
    char, pos = (":", end) if text.startswith(":", end) else skip_space_and_comments(builder, end)
    if char != ":":
        raise HjsonSyntaxError("missing-colon", pos, pos + 1, char)
    return skip_space_and_comments(builder, pos + 1)[1]


def _parse_value(builder: TreeBuilder, start: int) -> int:
    """Parse a scalar, or the opening bracket of a container."""
    text = builder.text
    char = text[start : start + 1]
    if char == '"' or (char == "'" and not text.startswith("'''", start)):
        value, end, found_problems = parse_quoted_string(text, start)
        for problem in found_problems:
            builder.add_problem(*problem)
        builder.add_scalar("string", start, end, value)
        return end
    if char in ("{", "["):
        builder.open_container(start, is_object=char == "{")
        return start + 1
    if char == "'":
        value, end = parse_multiline_string(text, start, translate=builder.translate)
        builder.add_problem("multiline-string", start, end)
        builder.add_scalar("string", start, end, value)
        return end
    if not char or char in "}],:":
        raise HjsonSyntaxError("missing-value" if char else "unclosed", start, start + len(char), char)
    return _parse_unquoted_value(builder, start)


def _parse_unquoted_value(builder: TreeBuilder, start: int) -> int:
    """Parse a number, true, false or null; otherwise an unquoted string up to the line end (`scantfnns`)."""
    parsed = parse_literal(builder.text, start)
    if parsed is not None:
        value, end, word = parsed
        kind: NodeKind = "null" if value is None else "boolean" if isinstance(value, bool) else "number"
        builder.add_scalar(kind, start, start + len(word), value)
        return end
    end = find_line_end(builder.text, start)
    line = builder.text[start:end]
    word = line.strip()
    start += len(line) - len(line.lstrip())  # white space that JSON does not have, such as U+00A0
    # A trailing comma is part of the value, but not of its span.
    stop = start + len(word.rstrip(", \t") or word)
    builder.add_problem(classify_unquoted_word(word), start, stop, word[:80])
    builder.add_scalar("string", start, stop, word)
    return end


# Unquoted text in hjson 3.1.0: white space, comments, keys, numbers, strings.

KEY: Final = re.compile(r"([^ \t\n\r:{}\[\],]+)([ \t\n\r]*):")
"""A key without quotes, up to and including its colon, as hjson's `scanKeyName` reads keys."""
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_TO_LINE_END: Final = re.compile(r"[^\r\n]*")
_NUMBER: Final = re.compile(r"[\t ]*(-?(?:0|[1-9]\d*))(\.\d+)?([eE][-+]?\d+)?[\t ]*")
"""`NUMBER_RE` in hjson's `decoder.py`, where `\\d` also matches the digits of every script."""
_WORD_END: Final = re.compile(r"[,}\]#\r\n]|/[/*]|\Z")
"""Where hjson's `scantfnns` first checks whether an unquoted word is a number, true, false or null."""
_LITERALS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}

_PLACEHOLDER: Final = re.compile(
    r"[$%<@{][{(%]?[\w .|:'\"-]*[})%>@]{0,2}|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|__\w+__"
)
_NAN: Final = re.compile(r"-?(?:NaN|Infinity)\b")
_LIKE_NUMBER: Final = re.compile(r"[-+]?\.?\d[\w.+-]*")


def skip_byte_order_mark(builder: TreeBuilder) -> int:
    """Skip a byte order mark at the start of the text, even one that was decoded as Latin-1."""
    for mark in ("\ufeff", "\xef\xbb\xbf"):
        if builder.text.startswith(mark):
            builder.add_problem("bom", 0, len(mark))
            return len(mark)
    return 0


def skip_space_and_comments(builder: TreeBuilder, pos: int) -> tuple[str, int]:
    """Skip white space and comments (`getNext`), and return the next character and its offset.

    Raises:
        HjsonSyntaxError: a comment is never closed, or there are too many of them.
    """
    text = builder.text
    while True:
        pos = _SPACE.match(text, pos).end()  # type: ignore[union-attr]  # it matches the empty string
        char = text[pos : pos + 1]
        if char not in ("#", "/"):
            return char, pos
        end = _find_comment_end(text, pos)
        if end == pos:
            return char, pos
        builder.add_comment(pos, end)
        pos = end


def _find_comment_end(text: str, start: int) -> int:
    """Return the end of the comment at `start`, or `start` if there is no comment."""
    if text[start] == "#" or text.startswith("//", start):
        return find_line_end(text, start)
    if not text.startswith("/*", start):
        return start
    close = text.find("*/", start + 2)
    if close < 0:
        raise HjsonSyntaxError("unclosed", start, start + 2, "/*", fatal=True)
    return close + 2


def find_line_end(text: str, pos: int) -> int:
    """Return the end of the line that contains `pos`."""
    return _TO_LINE_END.match(text, pos).end()  # type: ignore[union-attr]  # it matches the empty string


def parse_literal(
    text: str, start: int, limit: int | None = None
) -> tuple[bool | float | None, int, str] | None:
    """Parse a number, true, false or null, and return its value, end offset and source text.

    Return None for any other word. Text after `limit` is not parsed. Raises `HjsonSyntaxError` if a number is too
    large.
    """
    limit = len(text) if limit is None else limit
    stop = _WORD_END.search(text, start, limit).start()  # type: ignore[union-attr]  # it matches at the end
    word = text[start:stop].strip()
    if word in _LITERALS and word[0] == text[start]:
        return _LITERALS[word], stop, word
    if text[start] not in "-0123456789":
        return None
    match = _NUMBER.match(text, start, limit)
    if not match or match.end() != stop:
        return None
    word = "".join(filter(None, match.groups()))
    try:
        return parse_hjson_number(word), stop, word
    except OverflowError:
        raise HjsonSyntaxError("huge-number", start, start + len(word), word[:20], fatal=True) from None


def classify_unquoted_word(word: str) -> str:
    """Guess the kind of value that an unquoted word was meant to be."""
    core = word.rstrip(", \t")
    if _NAN.match(core):
        return "nan"
    if _PLACEHOLDER.fullmatch(core):
        return "placeholder"
    if _LIKE_NUMBER.fullmatch(core) and not _NUMBER.fullmatch(core):
        return "bad-number"
    return "unquoted-string"


# Strings in double, single and triple quotes, with the escapes of hjson 3.1.0.
#
# The functions take the text and the offset where the string starts. They return its value, its end, and its
# problems.

ProblemArguments = tuple[str, int, int, str, frozenset[Parser]]
"""The arguments of `TreeBuilder.add_problem`."""

SIMPLE: Final = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\\\x00-\x1f]*")}
"""A pattern for a run of ordinary characters inside a string, by the quote of the string."""
_JSON_ESCAPES: Final = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}(?:\\u[0-9a-fA-F]{4})?)')
SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPES: Final = {
    '"': '"',
    "'": "'",
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}
_NEWLINES: Final = re.compile("\r\n?")


def parse_quoted_string(text: str, start: int) -> tuple[str, int, list[ProblemArguments]]:
    """Parse a string in single or double quotes (`scanstring`). Raises `HjsonSyntaxError`."""
    quote = text[start]
    simple = SIMPLE[quote].match
    end = simple(text, start + 1).end()  # type: ignore[union-attr]  # it matches the empty string
    found_problems = [] if quote == '"' else [single_quotes_problem(start)]
    if text[end : end + 1] == quote:
        return text[start + 1 : end], end + 1, found_problems
    chunks = [text[start + 1 : end]]
    while (char := text[end : end + 1]) != quote:
        if not char:
            raise HjsonSyntaxError("unclosed", start, start + 1, quote)
        if char != "\\":
            raise HjsonSyntaxError("control-character", end, end + 1, char)
        piece, piece_end = parse_escape(text, end)
        if len(found_problems) < MAX_PROBLEMS and not _JSON_ESCAPES.fullmatch(text, end, piece_end):
            found_problems.append(("bad-escape", end, piece_end, text[end:piece_end], ONLY_JSON))
        chunks.append(piece)
        end = simple(text, piece_end).end()  # type: ignore[union-attr]
        chunks.append(text[piece_end:end])
    value = "".join(chunks)
    if SURROGATE.search(value):
        found_problems.append(("lone-surrogate", start, end + 1, "", NO_PARSER))
    return value, end + 1, found_problems


def single_quotes_problem(start: int) -> ProblemArguments:
    """Return the problem to record for a string in single quotes."""
    return "single-quotes", start, start + 1, "", ONLY_JSON


def parse_escape(text: str, at: int) -> tuple[str, int]:
    """Parse the escape sequence at `at`; return its character and end offset. Raises `HjsonSyntaxError`."""
    letter = text[at + 1 : at + 2]
    if letter != "u":
        if letter in _ESCAPES:
            return _ESCAPES[letter], at + 2
        raise _bad_escape(text, at, 2)
    code = _parse_unicode_escape(text, at)
    end = at + 6
    if code & 0xFC00 == 0xD800 and text[end : end + 2] == "\\u":
        low = _parse_unicode_escape(text, end, pair=True)
        if low & 0xFC00 == 0xDC00:
            code, end = 0x10000 + ((code - 0xD800) << 10 | (low - 0xDC00)), end + 6
    return chr(code), end


def _parse_unicode_escape(text: str, at: int, *, pair: bool = False) -> int:
    """Parse a `\\uXXXX` escape like hjson, whose int() accepts signs, spaces and underscores."""
    digits = text[at + 2 : at + 6]
    if len(digits) != 4 or digits[1] in "xX":
        if pair:  # the second half is then parsed as an escape of its own
            return 0
        raise _bad_escape(text, at, 6)
    try:
        code = int(digits, 16)
    except ValueError:
        raise _bad_escape(text, at, 6) from None
    if code < 0 and not pair:
        raise _bad_escape(text, at, 6, fatal=True)
    return code


def _bad_escape(text: str, at: int, length: int, *, fatal: bool = False) -> HjsonSyntaxError:
    """Return the error for an escape sequence of at most `length` characters, which ends with its line."""
    # A span that ended between CR and LF would have no column in an editor or in SARIF.
    escape = _TO_LINE_END.match(text, at, at + length).group()  # type: ignore[union-attr]  # it matches the empty string
    return HjsonSyntaxError("bad-escape", at, at + len(escape), escape, fatal=fatal)


def parse_multiline_string(text: str, start: int, *, translate: bool) -> tuple[str, int]:
    """Parse a string in triple quotes (`mlscanstring`). Raises `HjsonSyntaxError`.

    If `translate` is true, convert line ends as `open()` does before hjson sees them, `\\r` and `\\r\\n` to `\\n`.
    """
    indent = _column_of_offset(text, start, translate=translate)
    close = text.find("'''", start + 3)
    if close < 0:
        at_end = not text[start + 3 :].strip(" \t\r")
        raise HjsonSyntaxError("unclosed", start, start + 3, "'''", fatal=at_end or indent is None)
    if indent is None:  # hjson searches for a line end before the start of the text: IndexError
        raise HjsonSyntaxError(
            "multiline-string", start, close + 3, "no line end in the whole text", fatal=True
        )
    body = text[start + 3 : close]
    body = _NEWLINES.sub("\n", body) if translate else body
    stripped = body.lstrip(" \t\r")
    lines = stripped.split("\n")
    if len(lines) > 1 and not lines[0]:
        del lines[0]
        lines[0] = _dedent_line(lines[0], indent)
    value = "\n".join([lines[0], *(_dedent_line(line, indent) for line in lines[1:])]).replace("\r", "")
    return value.removesuffix("\n"), close + 3


def _dedent_line(line: str, indent: int) -> str:
    stripped = line.lstrip(" \t\r")
    return line[min(indent, len(line) - len(stripped)) :]


def _column_of_offset(text: str, at: int, *, translate: bool) -> int | None:
    """Return the column of an offset as hjson computes it, which on line 1 counts from the end of the text."""

    def find_line_start(end: int) -> int:
        return max(text.rfind("\n", 0, end), text.rfind("\r", 0, end) if translate else -1) + 1

    start = find_line_start(at)
    if start:
        return at - start
    last_line = find_line_start(len(text))
    return at + len(text) - last_line if last_line else None


# The tree under construction: open brackets, finished values, and problems.


class OpenContainer:
    """An object or array whose closing bracket has not been reached."""

    __slots__ = ("braces", "closer", "is_object", "items", "key", "key_span", "members", "start")

    def __init__(self, start: int, *, is_object: bool, braces: bool) -> None:
        self.start, self.is_object, self.braces = start, is_object, braces
        self.closer = "" if not braces else "}" if is_object else "]"
        self.members: list[ObjectMember] = []
        self.items: list[TreeNode] = []
        self.key: str | None = None
        """The key of the next value in an object."""
        self.key_span = TextSpan(start, start)

    def __len__(self) -> int:
        return len(self.members) + len(self.items)

    def end_of_last_entry(self) -> int:
        """Return the offset just after the last entry."""
        if self.members:
            return self.members[-1].node.span.end
        return self.items[-1].span.end if self.items else self.start + self.braces


class TreeBuilder:
    """Builds the tree of a text from the values that a parser reports.

    The parsers keep track of the position: their functions take a position and return the one where they stopped. If
    `translate` is true, line endings are converted as `open()` does, which matters only in triple-quoted strings.
    """

    __slots__ = ("comments", "errors", "problems", "root", "stack", "text", "translate", "values")

    def __init__(self, text: str, *, translate: bool) -> None:
        self.text, self.translate = text, translate
        self.root: TreeNode | None = None
        self.stack: list[OpenContainer] = []
        self.values = 0
        self.errors = 0
        """The number of problems that make hjson reject the text."""
        self.problems: list[TextProblem] = []
        self.comments: list[tuple[TextSpan, str]] = []

    def add_problem(
        self,
        kind: str,
        start: int,
        end: int,
        detail: str = "",
        rejected_by: frozenset[Parser] = ONLY_JSON,
        path: KeyPath | None = None,
    ) -> None:
        """Record a problem in the text.

        Raises:
            TooManyErrorsError: the text has too many errors to continue.
        """
        if len(self.problems) < MAX_PROBLEMS:
            end = min(end, len(self.text))
            location = self.current_path() if path is None else path
            self.problems.append(
                TextProblem(kind, TextSpan(min(start, end), end), location, detail, rejected_by)
            )
        elif not rejected_by <= (last_kept := self.problems[-1]).rejected_by:
            self.problems[-1] = last_kept._replace(rejected_by=last_kept.rejected_by | rejected_by)
        if "hjson" in rejected_by:
            self.errors += 1
            if self.errors == MAX_PROBLEMS and self.stack:
                raise TooManyErrorsError

    def add_comment(self, start: int, end: int) -> None:
        """Record a comment, unless an earlier parse of the text has recorded it."""
        if self.comments and start <= self.comments[-1][0].start:
            return
        if len(self.comments) >= MAX_VALUES:
            raise HjsonSyntaxError(
                "too-large", start, start + 1, f"more than {MAX_VALUES} comments", fatal=True
            )
        self.comments.append((TextSpan(start, end), self.text[start:end]))
        self.add_problem(
            "comment", start, end, "#" if self.text[start] == "#" else self.text[start : start + 2]
        )

    def current_path(self) -> KeyPath:
        """Return the path of the value being parsed."""
        keys = (frame.key if frame.is_object else len(frame.items) for frame in self.stack)
        return tuple(key for key in keys if key is not None)

    def open_container(self, start: int, *, is_object: bool, braces: bool = True) -> None:
        """Begin an object or array."""
        if len(self.stack) >= MAX_DEPTH:
            raise HjsonSyntaxError("too-deep", start, start + 1, f"{MAX_DEPTH} levels", fatal=True)
        self.stack.append(OpenContainer(start, is_object=is_object, braces=braces))
        if not braces:
            self.add_problem("missing-root-braces", start, start + 1, path=())

    def close_container(self, end: int) -> None:
        """End the innermost object or array, and add its node to the parent."""
        frame = self.stack.pop()
        if frame.is_object:
            value = {member.key: member.node.value for member in frame.members}
            if len(value) != len(frame.members):
                self._record_duplicate_keys(frame)
            self.attach_value(TreeNode("object", TextSpan(frame.start, end), value, tuple(frame.members)))
        else:
            items = [item.value for item in frame.items]
            self.attach_value(TreeNode("array", TextSpan(frame.start, end), items, (), tuple(frame.items)))

    def add_scalar(self, kind: NodeKind, start: int, end: int, value: object) -> None:
        """Add a scalar to the innermost object or array."""
        self.attach_value(TreeNode(kind, TextSpan(start, end), value))

    def attach_value(self, node: TreeNode) -> None:
        """Add a finished node to the innermost container, or make it the root."""
        self.values += 1
        if self.values > MAX_VALUES:
            raise HjsonSyntaxError("too-large", *node.span, f"more than {MAX_VALUES} values", fatal=True)
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        if frame.is_object and frame.key is not None:
            frame.members.append(ObjectMember(frame.key, frame.key_span, node))
        else:
            frame.items.append(node)

    def _record_duplicate_keys(self, frame: OpenContainer) -> None:
        """Record an object's repeated keys, which DeepSpeed rejects (`dict_raise_error_on_duplicate_keys`)."""
        keys: set[str] = set()
        parent_path = self.current_path()
        for member in frame.members:
            if member.key in keys:
                self.add_problem(
                    "duplicate-key", *member.key_span, member.key, NO_PARSER, (*parent_path, member.key)
                )
            keys.add(member.key)

    def finished_tree(self) -> LocatedTree:
        """Return the finished tree of the text."""
        if self.root and self.root.kind != "object":
            self.add_problem("root-not-object", *self.root.span, self.root.kind, NO_PARSER, ())
        problems = sorted(dict.fromkeys(self.problems), key=lambda problem: problem.span)
        return LocatedTree(self.root, tuple(problems), tuple(self.comments))


class HjsonSyntaxError(Exception):
    """A syntax error in hjson; if `fatal`, hjson gives up without trying another way to parse the text."""

    def __init__(self, kind: str, start: int, end: int, detail: str, *, fatal: bool = False) -> None:
        super().__init__(detail)
        self.kind, self.start, self.end, self.detail, self.fatal = kind, start, end, detail, fatal


class TooManyErrorsError(Exception):
    """The text has so many errors that parsing stops."""
