"""Where a cursor is in a config: among the keys of which object, or at which value.

Half-typed text has no place for what is being typed. So the word at the cursor is replaced by a mark, which
the tolerant reader then finds as a key or as a value: nothing here reads a config by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from dsconfig.document import Document, read_text

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document import Node
    from dsconfig.document.tree import Member

    _Place = tuple[Literal["key", "value"], KeyPath, Json, Node]

_MARK = "zqcursorqz"
_WORD = re.compile(r"[\w$./-]*")
"""A part of a word that is being typed; the one before the cursor is searched backwards."""
_REST = {'"': re.compile(r'[^"\n\r,:{}\[\]]*"?'), "'": re.compile(r"[^'\n\r,:{}\[\]]*'?")}
_COLON = re.compile(r"[ \t]*:")


class Cursor(NamedTuple):
    """What is being typed: a key of the object at `path`, or the value at it."""

    kind: Literal["key", "value"]
    path: KeyPath
    start: int
    end: int
    quote: str
    """The quote that the word at the cursor has already, if one."""
    gap: str
    """What has to stand before the word: the space after the colon that YAML asks for."""
    has_value: bool
    """Of a key, whether a colon follows it."""
    document: Document
    """The text with the mark in it."""
    data: Json
    """The object at `path`, or around it, without the mark."""
    flow: bool
    """Whether the object or list around the word has braces or brackets, which YAML does without."""
    is_open: bool
    """Whether the brace is not closed yet: what follows stands outside of it."""

    @property
    def word(self) -> tuple[int, int]:
        """Where the word at the cursor stands."""
        return self.start, self.end


def cursor(document: Document, offset: int) -> Cursor | None:
    """The place of the cursor; None where neither a key nor a value can stand."""
    text = document.text
    start, end, quote = _word(text, offset)
    colon = _COLON.match(text, end) is not None
    gap = " " if document.format == "yaml" and not quote and text[:start].endswith(":") else ""
    for mark in _marks(document, colon=colon, gap=gap):
        marked = read_text(f"{text[:start]}{mark}{text[end:]}", document.name, document.format)
        for kind, path, data, around in _found(marked.root, ()):
            flow = marked.text[around.span.start] in "{["
            return Cursor(kind, path, start, end, quote, gap, colon, marked, data, flow, mark.endswith("}"))
    return None


def _marks(document: Document, *, colon: bool, gap: str) -> Iterator[str]:
    if document.format == "yaml":
        marks = (f"{gap}{_MARK}",) if colon or gap else (f"{_MARK}:", _MARK)
        # PyYAML reads nothing of a text in which a brace is still open.
        yield from (f"{mark}{closed}" for closed in ("", " }", " }}") for mark in marks)
    else:
        yield from (f'"{_MARK}"',) if colon else (f'"{_MARK}": 0', f'"{_MARK}": 0,', f'"{_MARK}"')


def _word(text: str, offset: int) -> tuple[int, int, str]:
    """Where the word at an offset starts and ends, and its quote."""
    line = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    quote, opened = "", line
    at = line
    while at < offset:
        char = text[at]
        if quote and char == "\\":
            at += 1
        elif char == quote:
            quote = ""
        elif not quote and char in "\"'":
            quote, opened = char, at
        at += 1
    if quote:
        rest = _REST[quote].match(text, offset)
        return opened, rest.end() if rest else offset, quote
    before, after = _WORD.match(text[line:offset][::-1]), _WORD.match(text, offset)
    return offset - (before.end() if before else 0), after.end() if after else offset, ""


def _found(node: Node | None, path: KeyPath) -> Iterator[_Place]:
    """Where the mark is."""
    if node is None:
        return
    for member in node.members:
        if _MARK in member.key:
            yield "key", path, _beside(node, member), node
        elif isinstance(member.node.value, str) and _MARK in member.node.value:
            yield "value", (*path, member.key), _beside(node, member), node
        else:
            yield from _found(member.node, (*path, member.key))
    for index, item in enumerate(node.items):
        if isinstance(item.value, str) and _MARK in item.value:
            yield "value", (*path, index), {}, node
        else:
            yield from _found(item, (*path, index))


def _beside(node: Node, member: Member) -> Json:
    """The other entries of an object."""
    return {each.key: each.node.value for each in node.members if each is not member}
