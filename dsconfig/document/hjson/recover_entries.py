"""Keys and values of a text that hjson refuses: whatever is there is read as what it was meant to be.

The functions take the builder and a position, and return where they stopped.
"""

from __future__ import annotations

import re
from typing import Final

from dsconfig.document.hjson.errors import ReadError
from dsconfig.document.hjson.recover_strings import read_string
from dsconfig.document.hjson.strings import multiline
from dsconfig.document.hjson.tree_builder import Frame, TreeBuilder
from dsconfig.document.hjson.unquoted import kind_of_word, line_end, literal, skip
from dsconfig.document.tree import BOTH_JSON, NOBODY, ONLY_HJSON, ONLY_JSON, NodeKind, Parser, Span

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
