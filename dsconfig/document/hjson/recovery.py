"""The forgiving reading of a text that hjson refuses: it goes on, and keeps every key it can.

It guesses as a person would: a string ends with its line, a word at the comma, an object where its
indentation ends. This module reads the root and the brackets; `broken_entries` reads what is between them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from dsconfig.document.document import line_starts
from dsconfig.document.hjson.errors import GiveUpError, ReadError
from dsconfig.document.hjson.recover_entries import (
    TEMPLATE,
    read_entry,
    read_value,
    same_line,
    skip_any,
    step_over,
)
from dsconfig.document.hjson.tree_builder import Frame, TreeBuilder
from dsconfig.document.hjson.unquoted import KEY, skip_mark
from dsconfig.document.tree import BOTH_JSON, EVERYBODY, ONLY_JSON, Tree

_ENTRY: Final = re.compile(r"[,}\]\s]{0,200}(?:\"[^\"\r\n]*\"|'[^'\r\n]*'|[\w.$-]+)[ \t]*:")
"""What follows a bracket that closed the root too early: another entry."""
_INDENT: Final = re.compile(r"[ \t]*")


def recover(text: str, *, translate: bool) -> Tree:
    """The tree of any text, whatever it is."""
    attempt = _Attempt(text, translate=translate)
    tree = attempt.read()
    if attempt.unclosed:
        again = _Attempt(text, translate=translate, by_indent=True)
        by_indent = again.read()
        better = again.closed_by_indent and again.builder.errors <= attempt.builder.errors
        return by_indent if better else tree
    return tree


class _Attempt:
    """One reading of a text to its end.

    `by_indent`: an entry that is indented no more than the line that opened its section closes that section.
    """

    __slots__ = ("builder", "by_indent", "closed_by_indent", "lines", "unclosed")

    def __init__(self, text: str, *, translate: bool, by_indent: bool = False) -> None:
        self.builder = TreeBuilder(text, translate=translate)
        self.by_indent, self.closed_by_indent = by_indent, False
        self.lines = line_starts(text) if by_indent else []
        self.unclosed = False
        """Whether a bracket was never closed."""

    def read(self) -> Tree:
        """The whole text."""
        try:
            self.read_root()
        except ReadError as fault:  # too deep or too large
            path = self.builder.path()
            self.builder.stack.clear()
            self.builder.note(fault.kind, fault.start, fault.end, fault.detail, EVERYBODY, path)
            self.builder.root = None
        return self.builder.tree()

    def read_root(self) -> None:
        """The root, and whatever follows it."""
        builder = self.builder
        first, pos = skip_any(builder, skip_mark(builder))
        if not first:
            builder.note("empty", 0, pos, refused_by=BOTH_JSON)
        try:
            pos = self.read_entries(_start_root(builder, first, pos))
        except GiveUpError:
            while builder.stack:
                builder.close(builder.stack[-1].last_end())
            return
        char, pos = skip_any(builder, pos)
        if char:
            builder.note("unexpected", pos, len(builder.text), "after the end", BOTH_JSON)

    def read_entries(self, pos: int) -> int:
        """Read until every open bracket is closed; each turn moves on."""
        stack = self.builder.stack
        while stack:
            frame = stack[-1]
            is_closed, pos = self.close_or_go_on(frame, pos)
            if not is_closed:
                before = pos
                pos = read_entry(self.builder, frame, pos)
                if pos == before and stack and stack[-1] is frame:
                    pos = step_over(self.builder, pos, 1)
        return pos

    def close_or_go_on(self, frame: Frame, pos: int) -> tuple[bool, int]:
        """Read the commas; close the frame where it ends, or where it should have ended. True: closed."""
        builder = self.builder
        frame.key = None
        comma = -1
        while True:
            char, pos = skip_any(builder, pos)
            if char == "," and comma < 0 and len(frame):
                comma = pos
                pos += 1
            elif char and (char == "," or _is_stray(builder, char, frame, pos)):
                pos = step_over(builder, pos, 1)
            else:
                break
        if char == frame.closer and (char or len(frame)):
            if comma >= 0 and char:
                builder.note("trailing-comma", comma, comma + 1)
            pos += len(char)
            builder.close(pos if frame.braces else frame.last_end())
            return True, pos
        if not char or char in "]}" or self.ends_by_indent(frame, pos):
            self.close_unclosed(frame)
            return True, comma if comma >= 0 else pos  # the comma is the next frame's
        if len(frame) and comma < 0:
            _note_missing_comma(builder, frame, pos)
        return False, pos

    def close_unclosed(self, frame: Frame) -> None:
        """The frame's bracket never comes."""
        if frame.braces:
            self.unclosed = True
            self.builder.note(
                "unclosed", frame.start, frame.start + 1, self.builder.text[frame.start], BOTH_JSON
            )
        self.builder.close(frame.last_end())

    def ends_by_indent(self, frame: Frame, pos: int) -> bool:
        """Whether what comes next starts its line no further right than the line that opened this section."""
        if not self.by_indent or len(self.builder.stack) < 2:
            return False
        text = self.builder.text
        here = pos
        while here > frame.start and text[here - 1] in " \t":
            here -= 1
        if text[here - 1] not in "\r\n":
            return False
        opened = self.lines[bisect_right(self.lines, frame.start) - 1]
        indent = _INDENT.match(text, opened)
        ends = indent is not None and pos - here <= indent.end() - opened
        self.closed_by_indent |= ends
        return ends


def _start_root(builder: TreeBuilder, first: str, pos: int) -> int:
    """Go into the root, with or without its braces."""
    text = builder.text
    if first == "[" or (first == "{" and not TEMPLATE.match(text, pos)):
        return read_value(builder, pos)
    if first == "{" or _ENTRY.match(text, pos) or KEY.match(text, pos):
        builder.open(pos, is_object=True, braces=False)
        return pos
    if not first:
        return pos
    brace = text.find("{", pos)
    if brace > 0:
        pos = step_over(builder, pos, brace - pos)  # words before the root's brace
    return read_value(builder, pos)


def _is_stray(builder: TreeBuilder, char: str, frame: Frame, pos: int) -> bool:
    """Whether this bracket closes nothing, or closes the root before its last entry."""
    if char not in "]}":
        return False
    if char == frame.closer and len(builder.stack) == 1:
        return _ENTRY.match(builder.text, pos + 1) is not None
    return not any(char == outer.closer for outer in builder.stack)


def _note_missing_comma(builder: TreeBuilder, frame: Frame, pos: int) -> None:
    """hjson needs no comma after a string or bracket, nor at the end of a line."""
    end = frame.last_end()
    closed = builder.text[end - 1 : end] in ("'", '"', "}", "]")
    needed = same_line(builder.text, end, pos) and not closed
    builder.note("missing-comma", end, end, refused_by=BOTH_JSON if needed else ONLY_JSON)
