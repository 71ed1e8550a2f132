"""Recovery of the keys and values in JSON, JSONC and Hjson text that hjson 3.1.0 rejects."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import Final

from dsconfig.document.document import line_starts
from dsconfig.document.hjson import (
    KEY,
    SIMPLE,
    SURROGATE,
    Frame,
    GiveUpError,
    Oddity,
    ReadError,
    TreeBuilder,
    kind_of_word,
    line_end,
    literal,
    multiline,
    parse,
    quoted,
    single_quotes,
    skip,
    skip_mark,
    unescape,
)
from dsconfig.document.tree import (
    BOTH_JSON,
    EVERYBODY,
    MAX_PROBLEMS,
    NOBODY,
    ONLY_HJSON,
    ONLY_JSON,
    NodeKind,
    Parser,
    Problem,
    Span,
    Tree,
)

# JSON text that is not plain: read as hjson reads it, recovered where it refuses, judged by json itself.


def read_any(text: str, *, translate: bool) -> Tree:
    """The tree of any text: exact where hjson accepts it, else recovered."""
    try:
        tree = parse(text, translate=translate)
    except ReadError as fault:
        tree = _recovered(text, fault, translate=translate)
    if not text.isascii() and (half := SURROGATE.search(text)):  # no file has one, a text in memory may
        tree = _with(tree, Problem("lone-surrogate", Span(*half.span()), (), "", NOBODY))
    return _with_verdict_of_json(text, tree)


def _recovered(text: str, fault: ReadError, *, translate: bool) -> Tree:
    limits = EVERYBODY if fault.kind in ("too-deep", "too-large") else None
    span = Span(min(fault.start, len(text)), min(fault.end, len(text)))
    first = Problem(fault.kind, span, (), fault.detail, limits or BOTH_JSON)
    if limits:
        return Tree(None, (first,))
    if "\0" in text:
        return Tree(None, (first._replace(kind="not-text"),))
    tree = recover(text, translate=translate)
    if any("hjson" in problem.refused_by for problem in tree.problems):
        return tree
    return _with(tree, first)


def _with_verdict_of_json(text: str, tree: Tree) -> Tree:
    """json itself says whether json takes the text: the problems must agree with it."""
    if any(problem.kind in ("too-deep", "too-large") for problem in tree.problems):
        return tree
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        if any("json" in problem.refused_by for problem in tree.problems):
            return tree
        at = getattr(error, "pos", 0)
        return _with(tree, Problem("unexpected", Span(at, at), (), str(error), ONLY_JSON))
    kept = (problem._replace(refused_by=problem.refused_by - ONLY_JSON) for problem in tree.problems)
    return tree._replace(problems=tuple(kept))


def _with(tree: Tree, problem: Problem) -> Tree:
    return tree._replace(problems=(*tree.problems, problem))


# The forgiving reading of a text that hjson refuses: it goes on, and keeps every key it can.
#
# It guesses as a person would: a string ends with its line, a word at the comma, an object where its
# indentation ends. This module reads the root and the brackets; `broken_entries` reads what is between
# them.

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


# Keys and values of a text that hjson refuses: whatever is there is read as what it was meant to be.
#
# The functions take the builder and a position, and return where they stopped.

TEMPLATE: Final = re.compile(r"\{\{.{0,200}?\}\}|\{%.{0,200}?%\}|\$\{[^}\r\n]{0,200}\}|<%.{0,200}?%>")
"""A template's placeholder or statement."""
_WORD: Final = re.compile(r"[^,}\]\[{\r\n#/\"']*(?:/(?![/*])[^,}\]\[{\r\n#/\"']*)*[\"']?")
_KEY_WORD: Final = re.compile(r"[^\s:{}\[\],=\"'#]+[\"']?")
_BEFORE_ENTRY: Final = re.compile(
    r"(?:true|false|null|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?:[ \t]*(?=[\"'{\[])|[ \t]+(?=[\w.]+[ \t]*:))"
)
"""A number or literal that the next entry follows without a comma."""
_OF_PYTHON: Final[dict[str, bool | None]] = {"true": True, "false": False, "none": None}
"""What bare words are meant to be that hjson knows in lower case only."""
_LINE_END: Final = re.compile(r"[\r\n]")
_COLON: Final = re.compile(r"[ \t]*:")
_WHOLE: Final = re.compile(r"[ \t]*,?[ \t]*(?=[\r\n]|\Z)")


def skip_any(builder: TreeBuilder, pos: int) -> tuple[str, int]:
    """Step over white space and comments; a comment that is never closed takes the rest."""
    try:
        return skip(builder, pos)
    except ReadError as fault:
        if fault.kind == "too-large":
            raise
        builder.note(fault.kind, fault.start, fault.end, fault.detail, BOTH_JSON)
        return "", len(builder.text)


def step_over(builder: TreeBuilder, pos: int, length: int) -> int:
    """Leave out what does not belong here."""
    piece = builder.text[pos : pos + length]
    kind = "placeholder" if TEMPLATE.fullmatch(piece) else "unexpected"
    builder.note(kind, pos, pos + length, piece[:80], BOTH_JSON)
    return pos + length


def same_line(text: str, start: int, end: int) -> bool:
    """Whether no line ends between the two."""
    return not _LINE_END.search(text, start, end)


def read_entry(builder: TreeBuilder, frame: Frame, pos: int) -> int:
    """One entry of an object or array, as far as there is one."""
    if match := TEMPLATE.match(builder.text, pos):
        if frame.is_object:
            return step_over(builder, pos, match.end() - pos)
    elif frame.is_object:
        if builder.text[pos] in ":[{=":
            return pos
        pos = _read_key(builder, frame, pos)
        if frame.key is None:
            return pos
    return read_value(builder, pos)


# -- keys ------------------------------------------------------------------------------------------


def _read_key(builder: TreeBuilder, frame: Frame, start: int) -> int:
    """The key and its colon. The frame gets none where what stands here is not a key."""
    found = _key(builder, start)
    if found is None:
        return start
    key, end = found
    has_colon, pos = _read_colon(builder, end)
    if not has_colon:
        return _leave_out(builder, start, end)
    frame.key, frame.key_span = key, Span(start, end)
    return pos


def _key(builder: TreeBuilder, start: int) -> tuple[str, int] | None:
    """A key with or without quotes, and its end."""
    if builder.text[start] in "\"'":
        key, end, oddities = read_string(builder.text, start, is_key=True)
        for oddity in oddities:
            builder.note(*oddity)
        return key, end
    match = _KEY_WORD.match(builder.text, start)
    if match is None:
        return None
    word, end = match.group(), match.end()
    key = word.rstrip("\"'")
    if key != word:
        builder.note("unclosed", end - 1, end, word[-1], BOTH_JSON)
    else:
        builder.note("unquoted-key", start, end, word[:80])
    return key, end


def _read_colon(builder: TreeBuilder, key_end: int) -> tuple[bool, int]:
    """The colon behind a key. False: there is none, and no value either."""
    text = builder.text
    char, pos = skip_any(builder, key_end)
    if char in ("'", '"') and _COLON.match(text, pos + 1):
        char, pos = skip_any(builder, step_over(builder, pos, 1))
    if char in (":", "="):
        if char == "=":
            builder.note("missing-colon", pos, pos + 1, "=", BOTH_JSON)
        char, pos = skip_any(builder, pos + 1)
        while char == ":":
            char, pos = skip_any(builder, step_over(builder, pos, 1))
        return True, pos
    if char and char not in ",}]" and same_line(text, key_end, pos):
        builder.note("missing-colon", key_end, key_end, "", BOTH_JSON)
        return True, pos
    return False, pos


def _leave_out(builder: TreeBuilder, start: int, end: int) -> int:
    """Step over a key without colon and value; of a quote that opens nothing, over the quote only."""
    text = builder.text
    lone_quote = text[start : start + 1] in ("'", '"') and text[end - 1] not in "'\""
    if lone_quote or end - start == 1:
        return step_over(builder, start, 1)
    builder.note("unexpected", start, end, text[start:end][:80], BOTH_JSON)
    return end


# -- values ----------------------------------------------------------------------------------------


def read_value(builder: TreeBuilder, start: int) -> int:
    """Whatever value starts here, or a null that stands for none."""
    text = builder.text
    char = text[start : start + 1]
    if not char or char in ",}]":
        builder.note("missing-value", start, start, char, BOTH_JSON)
        builder.scalar("null", start, start, None)
        return start
    if text.startswith("'''", start):
        return _read_multiline(builder, start)
    if char in "{[" and not TEMPLATE.match(text, start):
        builder.open(start, is_object=char == "{")
        return start + 1
    if char in "\"'":
        value, end, oddities = read_string(text, start)
        for oddity in oddities:
            builder.note(*oddity)
        builder.scalar("string", start, end, value)
        return end
    return start if char == ":" else _read_bare(builder, start)


def _read_multiline(builder: TreeBuilder, start: int) -> int:
    """A string in triple quotes; one that is never closed takes its line."""
    try:
        value, end = multiline(builder.text, start, translate=builder.translate)
        builder.note("multiline-string", start, end)
    except ReadError as fault:
        builder.note(fault.kind, start, start + 3, fault.detail, BOTH_JSON)
        end = max(fault.end, start + 3)
        value = builder.text[start + 3 : end].strip("'")
    builder.scalar("string", start, end, value)
    return end


def _read_bare(builder: TreeBuilder, start: int) -> int:
    """A number, true, false or null; else a word, up to the comma or bracket behind it."""
    text = builder.text
    ahead = _BEFORE_ENTRY.match(text, start)  # only a comma is missing
    try:
        found = literal(text, start, ahead.end() if ahead else len(text))
    except ReadError as fault:  # hjson overflows where json gives infinity
        builder.note(fault.kind, start, fault.end, fault.detail, BOTH_JSON)
        builder.scalar("number", start, fault.end, float("-inf" if text[start] == "-" else "inf"))
        return fault.end
    if found is None:
        return _read_word(builder, start)
    value, end, word = found
    kind: NodeKind = "null" if value is None else "boolean" if isinstance(value, bool) else "number"
    builder.scalar(kind, start, start + len(word), value)
    return end


def _read_word(builder: TreeBuilder, start: int) -> int:
    """A word without quotes. hjson takes the whole line: it refuses unless the word is the whole line."""
    text = builder.text
    match = TEMPLATE.match(text, start) or _WORD.match(text, start)
    end = start + len(match.group().rstrip()) if match else start
    if end == start:
        end = max(start + 1, line_end(text, start))
    word = text[start:end]
    if word[-1] in "\"'" and len(word) > 1:
        builder.note("unclosed", end - 1, end, word[-1], BOTH_JSON)
        word = word[:-1].rstrip()
    else:
        refused: frozenset[Parser] = NOBODY if _WHOLE.match(text, end) else ONLY_HJSON
        builder.note(kind_of_word(word), start, end, word[:80], ONLY_JSON | refused)
        if word.lower() in _OF_PYTHON:
            meant = _OF_PYTHON[word.lower()]
            builder.scalar("null" if meant is None else "boolean", start, end, meant)
            return end
    builder.scalar("string", start, end, word)
    return end


# Strings that hjson refuses: read to their closing quote, or to the end of their line.


def read_string(text: str, start: int, *, is_key: bool = False) -> tuple[str, int, list[Oddity]]:
    """The string in single or double quotes, or what is left of it; its end; what was odd in it."""
    try:
        return quoted(text, start)
    except ReadError:
        return _broken(text, start, is_key=is_key)


def _broken(text: str, start: int, *, is_key: bool) -> tuple[str, int, list[Oddity]]:
    quote, at, chunks = text[start], start + 1, []
    odd = [] if quote == '"' else [single_quotes(start)]
    while True:
        end = SIMPLE[quote].match(text, at).end()  # type: ignore[union-attr]  # it matches the empty string
        chunks.append(text[at:end])
        char = text[end : end + 1]
        if char == quote:
            return "".join(chunks), end + 1, odd
        if char in ("", "\r", "\n"):
            odd.append(("unclosed", start, start + 1, quote, BOTH_JSON))
            return *_cut_off(text[start + 1 : end], "".join(chunks), start + 1, is_key=is_key), odd
        piece, at = _odd_piece(text, char, end, odd)
        del odd[MAX_PROBLEMS:]  # no more are kept of a whole text
        chunks.append(piece)


def _odd_piece(text: str, char: str, at: int, odd: list[Oddity]) -> tuple[str, int]:
    """A control character or an escape inside a string."""
    if char != "\\":
        odd.append(("control-character", at, at + 1, char, BOTH_JSON))
        return char, at + 1
    try:
        return unescape(text, at)
    except ReadError as fault:
        odd.append((fault.kind, fault.start, fault.end, fault.detail, BOTH_JSON))
        piece = text[at : at + 2].rstrip("\r\n")
        return piece, at + len(piece)


def _cut_off(raw: str, content: str, start: int, *, is_key: bool) -> tuple[str, int]:
    """A string that its line ends: a key stops at its colon, a value before its comma."""
    cut = raw.find(":") if is_key else len(raw.rstrip(", \t"))
    if cut < 0:
        return content.rstrip(", \t"), start + len(raw)
    return raw[:cut].rstrip() if content == raw else content.rstrip(", \t"), start + cut
