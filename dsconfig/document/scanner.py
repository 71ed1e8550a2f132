"""The exact reading: what hjson 3.1.0 accepts becomes a tree, anything else raises `ReadError`.

One loop over an explicit stack, so that no nesting can exhaust Python's own. What hjson takes and json does
not is noted on the way. `recovery.py` builds on this class and goes on where this one stops.
"""

from __future__ import annotations

import re
from typing import Final

from dsconfig.document.strings import (
    JSON_ESCAPES,
    NUMBER,
    SIMPLE,
    SURROGATE,
    TO_LINE_END,
    ReadError,
    bare,
    multiline,
    unescape,
)
from dsconfig.document.tree import (
    MAX_DEPTH,
    MAX_PROBLEMS,
    MAX_VALUES,
    NOBODY,
    ONLY_JSON,
    Member,
    Node,
    NodeKind,
    Parser,
    Path,
    Problem,
    Span,
    Tree,
)

SPACE: Final = re.compile(r"[ \t\n\r]*")
KEY: Final = re.compile(r"([^ \t\n\r:{}\[\],]+)([ \t\n\r]*):")
"""A key without quotes, as `scanKeyName` takes it, up to its colon."""


class Frame:
    """An object or array being read."""

    __slots__ = ("braces", "closer", "is_object", "items", "key", "key_span", "members", "start")

    def __init__(self, start: int, closer: str, *, is_object: bool, braces: bool = True) -> None:
        self.start, self.closer, self.is_object, self.braces = start, closer, is_object, braces
        self.members: list[Member] = []
        self.items: list[Node] = []
        self.key: str | None = None
        self.key_span = Span(start, start)

    def __len__(self) -> int:
        return len(self.members) + len(self.items)


class Scanner:
    """Reads one text. `translate`: line ends as `open()` gives them, which matters in triple quotes only."""

    def __init__(self, text: str, *, translate: bool = True) -> None:
        self.text, self.translate = text, translate
        self.pos = 0
        self.values = 0
        self.root: Node | None = None
        self.stack: list[Frame] = []
        self.problems: list[Problem] = []
        self.comments: list[tuple[Span, str]] = []

    # -- what is found -----------------------------------------------------------------------------

    def note(
        self, kind: str, start: int, end: int, detail: str = "", refused_by: frozenset[Parser] = ONLY_JSON,
        path: Path | None = None,
    ) -> None:  # fmt: skip
        """Keep an oddity as data."""
        if len(self.problems) < MAX_PROBLEMS:
            end = min(end, len(self.text))
            where = self.path() if path is None else path
            self.problems.append(Problem(kind, Span(min(start, end), end), where, detail, refused_by))
        elif not refused_by <= (last := self.problems[-1]).refused_by:
            self.problems[-1] = last._replace(refused_by=last.refused_by | refused_by)

    def path(self) -> Path:
        """Where the reader is."""
        keys = (frame.key if frame.is_object else len(frame.items) for frame in self.stack)
        return tuple(key for key in keys if key is not None)

    def tree(self) -> Tree:
        """What was read."""
        problems = sorted(dict.fromkeys(self.problems), key=lambda problem: problem.span)
        return Tree(self.root, tuple(problems), tuple(self.comments))

    # -- the text as a whole -----------------------------------------------------------------------

    def read(self) -> Tree:
        """The whole text (hjson `HjsonDecoder.raw_decode` and `decode`). Raises `ReadError`."""
        start = self.skip_mark()
        first = self.skip()
        if not first and not start:
            self.root = Node("object", Span(self.pos, self.pos), {})
            self.note("empty", 0, self.pos)
            return self.tree()
        if first in ("{", "["):
            self.value()
            self.run()
        else:
            self.read_bare_root()
        if self.skip():
            raise ReadError("unexpected", self.pos, len(self.text), "after the end")
        if self.root and self.root.kind != "object":
            self.note("root-not-object", *self.root.span, self.root.kind, NOBODY)
        return self.tree()

    def skip_mark(self) -> int:
        """Step over a byte order mark, or its three bytes read as Latin-1."""
        for mark in ("\ufeff", "\xef\xbb\xbf"):
            if self.text.startswith(mark):
                self.pos = len(mark)
                self.note("bom", 0, self.pos)
                break
        return self.pos

    def read_bare_root(self) -> None:
        """Entries without braces around them; where that fails with hjson's own error, a single value."""
        start, comments, problems = self.pos, list(self.comments), list(self.problems)
        try:
            self.open(is_object=True, braces=False)
            self.run()
        except ReadError as fault:
            if fault.fatal:
                raise
            self.pos, self.comments, self.problems, self.stack, self.root = (
                start,
                comments,
                problems,
                [],
                None,
            )
            try:
                if start >= len(self.text):
                    raise fault
                self.value()
            except ReadError:
                raise fault from None

    def run(self) -> None:
        """Read until every open bracket is closed."""
        while self.stack:
            frame = self.stack[-1]
            if not self.close_or_go_on(frame):
                self.element(frame)

    # -- between values ----------------------------------------------------------------------------

    def skip(self) -> str:
        """Step over white space and comments (`getNext`); the character there, empty at the end."""
        text = self.text
        while True:
            self.pos = start = SPACE.match(text, self.pos).end()  # type: ignore[union-attr]
            char = text[start : start + 1]
            if char == "#" or (char == "/" and text[start + 1 : start + 2] == "/"):
                self.pos = TO_LINE_END.match(text, start).end()  # type: ignore[union-attr]
            elif char == "/" and text[start + 1 : start + 2] == "*":
                close = text.find("*/", start + 2)
                if close < 0:
                    raise ReadError("unclosed", start, start + 2, "/*", fatal=True)
                self.pos = close + 2
            else:
                return char
            if len(self.comments) >= MAX_VALUES:
                raise ReadError("too-large", start, start + 1, f"{MAX_VALUES} comments", fatal=True)
            self.comments.append((Span(start, self.pos), text[start : self.pos]))
            self.note("comment", start, self.pos, text[start : start + (1 if char == "#" else 2)])

    def open(self, *, is_object: bool, braces: bool = True) -> None:
        """Go down into an object or array."""
        if len(self.stack) >= MAX_DEPTH:
            raise ReadError("too-deep", self.pos, self.pos + 1, str(MAX_DEPTH), fatal=True)
        closer = "" if not braces else "}" if is_object else "]"
        self.stack.append(Frame(self.pos, closer, is_object=is_object, braces=braces))
        if braces:
            self.pos += 1
        else:
            self.note("missing-root-braces", self.pos, self.pos + 1, path=())

    def close_or_go_on(self, frame: Frame) -> bool:
        """Read the comma, if any; close the frame where it ends. True: closed."""
        frame.key = None
        char, comma = self.skip(), self.pos
        has_comma = char == "," and len(frame) > 0
        if has_comma:
            self.pos += 1
            char = self.skip()
        if char == frame.closer and (frame.braces or len(frame)):
            if has_comma:
                self.note("trailing-comma", comma, comma + 1)
            self.pos += len(char)
            self.close(frame)
            return True
        if len(frame) and not has_comma and char:
            end = self.last_end(frame)
            self.note("missing-comma", end, end)
        return False

    def close(self, frame: Frame, end: int | None = None) -> None:
        """The frame ends here: hand its node to the one around it."""
        self.stack.pop()
        if end is None:
            end = self.pos if frame.braces else self.last_end(frame)
        if frame.is_object:
            value = {member.key: member.node.value for member in frame.members}
            if len(value) != len(frame.members):
                self.note_duplicates(frame)
            self.attach(Node("object", Span(frame.start, end), value, tuple(frame.members)))
        else:
            items = [item.value for item in frame.items]
            self.attach(Node("array", Span(frame.start, end), items, (), tuple(frame.items)))

    def last_end(self, frame: Frame) -> int:
        """Where the last entry ends."""
        if frame.members:
            return frame.members[-1].node.span.end
        return frame.items[-1].span.end if frame.items else frame.start + frame.braces

    def note_duplicates(self, frame: Frame) -> None:
        """Each key that was there before. DeepSpeed refuses it: `dict_raise_error_on_duplicate_keys`."""
        seen: set[str] = set()
        around = self.path()
        for member in frame.members:
            if member.key in seen:
                self.note("duplicate-key", *member.key_span, member.key, NOBODY, (*around, member.key))
            seen.add(member.key)

    # -- entries -----------------------------------------------------------------------------------

    def element(self, frame: Frame) -> None:
        """One entry of an object, or one item of an array: either a scalar, or the bracket that opens it."""
        if frame.is_object:
            frame.key, frame.key_span = self.key()
            if self.skip() != ":":
                raise ReadError("missing-colon", self.pos, self.pos + 1, self.text[self.pos : self.pos + 1])
            self.pos += 1
            self.skip()
        self.value()

    def key(self) -> tuple[str, Span]:
        """A key with or without quotes (`scanKeyName`)."""
        text, start = self.text, self.pos
        quote = text[start : start + 1]
        if quote in ('"', "'") and quote:
            key = self.quoted(quote)
            return key, Span(start, self.pos)
        match = KEY.match(text, start)
        if not match:
            raise ReadError("unclosed" if not quote else "unexpected", start, start + len(quote), quote)
        word, space = match.groups()
        self.pos = match.end() - 1
        self.note("unquoted-key", start, start + len(word), word)
        return word.rstrip() if space else word, Span(start, start + len(word))

    def value(self) -> None:
        """Whatever value starts here."""
        start = self.pos
        char = self.text[start : start + 1]
        if char == '"' or (char == "'" and self.text[start : start + 3] != "'''"):
            value = self.quoted(char)
            self.scalar("string", start, self.pos, value)
        elif char in ("{", "["):
            self.open(is_object=char == "{")
        elif char == "'":
            value, self.pos = multiline(self.text, start, translate=self.translate)
            self.note("multiline-string", start, self.pos)
            self.scalar("string", start, self.pos, value)
        elif not char or char in "}],:":
            raise ReadError("missing-value" if char else "unclosed", start, start + len(char), char)
        else:
            self.bare()

    def quoted(self, quote: str) -> str:
        """The string in these quotes (`scanstring`); the position goes behind it."""
        text, start = self.text, self.pos
        if quote == "'":
            self.note("single-quotes", start, start + 1)
        simple = SIMPLE[quote].match
        end = simple(text, start + 1).end()  # type: ignore[union-attr]
        if text[end : end + 1] == quote:
            self.pos = end + 1
            return text[start + 1 : end]
        chunks = [text[start + 1 : end]]
        while (char := text[end : end + 1]) != quote:
            if char != "\\":
                kind = "control-character" if char else "unclosed"
                raise ReadError(kind, end if char else start, end + 1 if char else start + 1, char or quote)
            piece, after = unescape(text, end)
            if not JSON_ESCAPES.fullmatch(text, end, after):
                self.note("bad-escape", end, after, text[end:after])
            chunks.append(piece)
            end = simple(text, after).end()  # type: ignore[union-attr]
            chunks.append(text[after:end])
        self.pos = end + 1
        value = "".join(chunks)
        if SURROGATE.search(value):
            self.note("lone-surrogate", start, self.pos, refused_by=NOBODY)
        return value

    def bare(self) -> None:
        """A number, true, false or null; else a word that goes on to the end of the line (`scantfnns`)."""
        start = self.pos
        found = bare(self.text, start)
        if found is None:
            self.pos = TO_LINE_END.match(self.text, start).end()  # type: ignore[union-attr]
            line = self.text[start : self.pos]
            word = line.strip()
            start += len(line) - len(line.lstrip())  # white space that SPACE does not know, as U+00A0
            self.note_word(start, word, NOBODY)
            self.scalar("string", start, start + len(word), word)
        else:
            value, self.pos, word = found
            kind: NodeKind = "null" if value is None else "boolean" if isinstance(value, bool) else "number"
            self.scalar(kind, start, start + len(word), value)

    def note_word(self, start: int, word: str, hjson: frozenset[Parser]) -> None:
        """A word without quotes: say what it looks like."""
        self.note(kind_of_word(word), start, start + len(word), word[:80], ONLY_JSON | hjson)

    def scalar(self, kind: NodeKind, start: int, end: int, value: object) -> None:
        """A value without entries of its own."""
        self.attach(Node(kind, Span(start, end), value))

    def attach(self, node: Node) -> None:
        """Put a finished value where it belongs."""
        self.values += 1
        if self.values > MAX_VALUES:
            raise ReadError("too-large", *node.span, f"{MAX_VALUES} values", fatal=True)
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        if frame.is_object and frame.key is not None:
            frame.members.append(Member(frame.key, frame.key_span, node))
        else:
            frame.items.append(node)


_PLACEHOLDER: Final = re.compile(
    r"[$%<@{][{(%]?[\w .|:'\"-]*[})%>@]{0,2}|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|__\w+__"
)
_NAN: Final = re.compile(r"-?(?:NaN|Infinity)\b")
_LIKE_NUMBER: Final = re.compile(r"[-+]?\.?\d[\w.+-]*")


def kind_of_word(word: str) -> str:
    """What a word without quotes was meant to be."""
    core = word.rstrip(", \t")
    if _NAN.match(core):
        return "nan"
    if _PLACEHOLDER.fullmatch(core):
        return "placeholder"
    if _LIKE_NUMBER.fullmatch(core) and not NUMBER.fullmatch(core):
        return "bad-number"
    return "unquoted-string"
