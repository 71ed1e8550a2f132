"""The exact reading: what hjson 3.1.0 accepts becomes a tree, anything else raises `ReadError`.

One loop over an explicit stack, so that no nesting can exhaust Python's own. Each function takes a position
and returns where it stopped. What hjson takes and json does not is noted on the way.
"""

from __future__ import annotations

from dsconfig.document.hjson.errors import ReadError
from dsconfig.document.hjson.strings import multiline, quoted
from dsconfig.document.hjson.tree_builder import Frame, TreeBuilder
from dsconfig.document.hjson.unquoted import KEY, kind_of_word, line_end, literal, skip, skip_mark
from dsconfig.document.tree import Node, NodeKind, Span, Tree


def parse(text: str, *, translate: bool = True) -> Tree:
    """The whole text (hjson `HjsonDecoder.raw_decode` and `decode`). Raises `ReadError`."""
    builder = TreeBuilder(text, translate=translate)
    first, pos = skip(builder, skip_mark(builder))
    if not first and not text.startswith(("\ufeff", "\xef\xbb\xbf")):
        builder.root = Node("object", Span(pos, pos), {})
        builder.note("empty", 0, pos)
        return builder.tree()
    if first in ("{", "["):
        pos = _read_entries(builder, _value(builder, pos))
    else:
        builder, pos = _bare_root(builder, pos)
    char, pos = skip(builder, pos)
    if char:
        raise ReadError("unexpected", pos, len(text), "after the end")
    return builder.tree()


def _bare_root(builder: TreeBuilder, pos: int) -> tuple[TreeBuilder, int]:
    """Entries without braces around them; where that fails with hjson's own error, a single value."""
    try:
        builder.open(pos, is_object=True, braces=False)
        return builder, _read_entries(builder, pos)
    except ReadError as fault:
        if fault.fatal or pos >= len(builder.text):
            raise
        builder = TreeBuilder(builder.text, translate=builder.translate)
        skip(builder, skip_mark(builder))
        try:
            return builder, _value(builder, pos)
        except ReadError:
            raise fault from None


def _read_entries(builder: TreeBuilder, pos: int) -> int:
    """Read until every open bracket is closed."""
    stack = builder.stack
    while stack:
        frame = stack[-1]
        is_closed, pos = _close_or_go_on(builder, frame, pos)
        if not is_closed:
            if frame.is_object:
                pos = _key(builder, frame, pos)
            pos = _value(builder, pos)
    return pos


def _close_or_go_on(builder: TreeBuilder, frame: Frame, pos: int) -> tuple[bool, int]:
    """Read the comma, if any; close the object or array where it ends. True: closed."""
    frame.key = None
    count = len(frame.members) + len(frame.items)
    char, pos = skip(builder, pos)
    comma = pos if char == "," and count else None
    if comma is not None:
        char, pos = skip(builder, pos + 1)
    if char == frame.closer and (frame.braces or count):
        if comma is not None:
            builder.note("trailing-comma", comma, comma + 1)
        pos += len(char)
        builder.close(pos if frame.braces else frame.last_end())
        return True, pos
    if count and comma is None and char:
        end = frame.last_end()
        builder.note("missing-comma", end, end)
    return False, pos


def _key(builder: TreeBuilder, frame: Frame, start: int) -> int:
    """A key with or without quotes (`scanKeyName`), and its colon."""
    text = builder.text
    char = text[start : start + 1]
    if char in ('"', "'"):
        key, end, oddities = quoted(text, start)
        for oddity in oddities:
            builder.note(*oddity)
    else:
        match = KEY.match(text, start)
        if not match:
            raise ReadError("unexpected" if char else "unclosed", start, start + len(char), char)
        word, space = match.groups()
        key, end = word.rstrip() if space else word, start + len(word)
        builder.note("unquoted-key", start, end, word)
    frame.key, frame.key_span = key, Span(start, end)
    char, pos = (":", end) if text.startswith(":", end) else skip(builder, end)
    if char != ":":
        raise ReadError("missing-colon", pos, pos + 1, char)
    return skip(builder, pos + 1)[1]


def _value(builder: TreeBuilder, start: int) -> int:
    """Whatever value starts here: a scalar, or the bracket that opens an object or array."""
    text = builder.text
    char = text[start : start + 1]
    if char == '"' or (char == "'" and not text.startswith("'''", start)):
        value, end, oddities = quoted(text, start)
        for oddity in oddities:
            builder.note(*oddity)
        builder.scalar("string", start, end, value)
        return end
    if char in ("{", "["):
        builder.open(start, is_object=char == "{")
        return start + 1
    if char == "'":
        value, end = multiline(text, start, translate=builder.translate)
        builder.note("multiline-string", start, end)
        builder.scalar("string", start, end, value)
        return end
    if not char or char in "}],:":
        raise ReadError("missing-value" if char else "unclosed", start, start + len(char), char)
    return _bare(builder, start)


def _bare(builder: TreeBuilder, start: int) -> int:
    """A number, true, false or null; else a word that goes on to the end of the line (`scantfnns`)."""
    found = literal(builder.text, start)
    if found is not None:
        value, end, word = found
        kind: NodeKind = "null" if value is None else "boolean" if isinstance(value, bool) else "number"
        builder.scalar(kind, start, start + len(word), value)
        return end
    end = line_end(builder.text, start)
    line = builder.text[start:end]
    word = line.strip()
    start += len(line) - len(line.lstrip())  # white space that JSON does not know, as U+00A0
    stop = start + len(word.rstrip(", \t") or word)  # a comma belongs to the value, and is none of its place
    builder.note(kind_of_word(word), start, stop, word[:80])
    builder.scalar("string", start, stop, word)
    return end
