"""Recover keys and values from JSON, JSONC and Hjson text that hjson 3.1.0 rejects."""

from __future__ import annotations

import json
import re
from bisect import bisect_right

from dsconfig.document.document import line_starts
from dsconfig.document.hjson import (
    KEY,
    SIMPLE,
    SURROGATE,
    HjsonSyntaxError,
    OpenContainer,
    ProblemArguments,
    TooManyErrorsError,
    TreeBuilder,
    classify_unquoted_word,
    find_line_end,
    parse_escape,
    parse_hjson,
    parse_literal,
    parse_multiline_string,
    parse_quoted_string,
    single_quotes_problem,
    skip_byte_order_mark,
    skip_space_and_comments,
)
from dsconfig.document.located_tree import (
    ALL_PARSERS,
    BOTH_JSON,
    MAX_PROBLEMS,
    NO_PARSER,
    ONLY_HJSON,
    ONLY_JSON,
    LocatedTree,
    NodeKind,
    Parser,
    TextProblem,
    TextSpan,
)

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Final


def parse_or_recover(text: str, *, translate: bool) -> LocatedTree:
    """Parse any text: exactly like hjson if hjson accepts it, otherwise with error recovery."""
    try:
        tree = parse_hjson(text, translate=translate)
    except HjsonSyntaxError as error:
        tree = _recover_with_problem(text, error, translate=translate)
    # UTF-8 files cannot contain one, text in memory can.
    if not text.isascii() and (surrogate := SURROGATE.search(text)):
        tree = _add_problem(
            tree, TextProblem("lone-surrogate", TextSpan(*surrogate.span()), (), "", NO_PARSER)
        )
    return _reconcile_with_json(text, tree)


def _recover_with_problem(text: str, error: HjsonSyntaxError, *, translate: bool) -> LocatedTree:
    rejecting_parsers = ALL_PARSERS if error.kind in ("too-deep", "too-large") else None
    span = TextSpan(min(error.start, len(text)), min(error.end, len(text)))
    first_problem = TextProblem(error.kind, span, (), error.detail, rejecting_parsers or BOTH_JSON)
    if rejecting_parsers:
        return LocatedTree(None, (first_problem,))
    if "\0" in text:
        return LocatedTree(None, (first_problem._replace(kind="not-text"),))
    tree = recover_tree(text, translate=translate)
    if any("hjson" in problem.rejected_by for problem in tree.problems):
        return tree
    return _add_problem(tree, first_problem)


def _reconcile_with_json(text: str, tree: LocatedTree) -> LocatedTree:
    """Make the recorded problems consistent with whether Python's json accepts the text."""
    if any(problem.kind in ("too-deep", "too-large") for problem in tree.problems):
        return tree
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        if any("json" in problem.rejected_by for problem in tree.problems):
            return tree
        at = getattr(error, "pos", 0)
        return _add_problem(tree, TextProblem("unexpected", TextSpan(at, at), (), str(error), ONLY_JSON))
    kept = (problem._replace(rejected_by=problem.rejected_by - ONLY_JSON) for problem in tree.problems)
    return tree._replace(problems=tuple(kept))


def _add_problem(tree: LocatedTree, problem: TextProblem) -> LocatedTree:
    return tree._replace(problems=(*tree.problems, problem))


# The recovering parser continues after errors and keeps every key it can.
#
# It guesses like a person: a string ends with its line, a word at the comma, an object where its indentation
# ends. This part parses the root and the brackets; the next one what is between them.

_ENTRY: Final = re.compile(r"[,}\]\s]{0,200}(?:\"[^\"\r\n]*\"|'[^'\r\n]*'|[\w.$-]+)[ \t]*:")
"""Matches another entry after a bracket that closed the root too early."""
_INDENT: Final = re.compile(r"[ \t]*")


def recover_tree(text: str, *, translate: bool) -> LocatedTree:
    """Parse any text, recovering from every error."""
    attempt = _RecoveryAttempt(text, translate=translate)
    tree = attempt.parse_text()
    if attempt.unclosed:
        second = _RecoveryAttempt(text, translate=translate, by_indent=True)
        by_indent = second.parse_text()
        is_better = second.closed_by_indent and second.builder.errors <= attempt.builder.errors
        return by_indent if is_better else tree
    return tree


class _RecoveryAttempt:
    """One attempt to parse a text from start to end with error recovery.

    If `by_indent` is true, an entry that is indented no more than the line that opened its section closes the section.
    """

    __slots__ = ("builder", "by_indent", "closed_by_indent", "lines", "unclosed")

    def __init__(self, text: str, *, translate: bool, by_indent: bool = False) -> None:
        self.builder = TreeBuilder(text, translate=translate)
        self.by_indent, self.closed_by_indent = by_indent, False
        self.lines = line_starts(text) if by_indent else []
        self.unclosed = False
        """Whether the text contains a bracket that is never closed."""

    def parse_text(self) -> LocatedTree:
        """Parse the whole text and return its tree."""
        try:
            self.parse_root()
        except HjsonSyntaxError as error:  # too deep or too large
            path = self.builder.current_path()
            self.builder.stack.clear()
            self.builder.add_problem(error.kind, error.start, error.end, error.detail, ALL_PARSERS, path)
            self.builder.root = None
        return self.builder.finished_tree()

    def parse_root(self) -> None:
        """Parse the root, and record any text after it."""
        builder = self.builder
        first, pos = skip_space_and_any_comments(builder, skip_byte_order_mark(builder))
        if not first:
            builder.add_problem("empty", 0, pos, rejected_by=BOTH_JSON)
        try:
            pos = self.parse_entries(_open_root(builder, first, pos))
        except TooManyErrorsError:
            while builder.stack:
                builder.close_container(builder.stack[-1].end_of_last_entry())
            return
        char, pos = skip_space_and_any_comments(builder, pos)
        if char:
            builder.add_problem(
                "unexpected", pos, len(builder.text), builder.text[pos : pos + 80].strip(), BOTH_JSON
            )

    def parse_entries(self, pos: int) -> int:
        """Parse entries until all brackets are closed, always advancing the position."""
        stack = self.builder.stack
        while stack:
            frame = stack[-1]
            is_closed, pos = self.parse_commas_or_end(frame, pos)
            if not is_closed:
                before = pos
                pos = recover_entry(self.builder, frame, pos)
                if pos == before and stack and stack[-1] is frame:
                    pos = skip_unexpected_text(self.builder, pos, 1)
        return pos

    def parse_commas_or_end(self, frame: OpenContainer, pos: int) -> tuple[bool, int]:
        """Parse commas, or close the container where it ends or should have ended."""
        builder = self.builder
        frame.key = None
        comma = -1
        while True:
            char, pos = skip_space_and_any_comments(builder, pos)
            if char == "," and comma < 0 and len(frame):
                comma = pos
                pos += 1
            elif char and (char == "," or _is_stray_bracket(builder, char, frame, pos)):
                pos = skip_unexpected_text(builder, pos, 1)
            else:
                break
        if char == frame.closer and (char or len(frame)):
            if comma >= 0 and char:
                builder.add_problem("trailing-comma", comma, comma + 1)
            pos += len(char)
            builder.close_container(pos if frame.braces else frame.end_of_last_entry())
            return True, pos
        if not char or char in "]}" or self.is_ended_by_indentation(frame, pos):
            self.close_missing_bracket(frame)
            return True, comma if comma >= 0 else pos  # the comma belongs to the next frame
        if len(frame) and comma < 0:
            _record_missing_comma(builder, frame, pos)
        return False, pos

    def close_missing_bracket(self, frame: OpenContainer) -> None:
        """Close a container whose closing bracket is missing."""
        if frame.braces:
            self.unclosed = True
            self.builder.add_problem(
                "unclosed", frame.start, frame.start + 1, self.builder.text[frame.start], BOTH_JSON
            )
        self.builder.close_container(frame.end_of_last_entry())

    def is_ended_by_indentation(self, frame: OpenContainer, pos: int) -> bool:
        """Return whether the next entry is indented no deeper than the line that opened the section."""
        if not self.by_indent or len(self.builder.stack) < 2:
            return False
        text = self.builder.text
        line_begin = pos
        while line_begin > frame.start and text[line_begin - 1] in " \t":
            line_begin -= 1
        if text[line_begin - 1] not in "\r\n":
            return False
        opening_line = self.lines[bisect_right(self.lines, frame.start) - 1]
        indent = _INDENT.match(text, opening_line)
        is_end = indent is not None and pos - line_begin <= indent.end() - opening_line
        self.closed_by_indent |= is_end
        return is_end


def _open_root(builder: TreeBuilder, first: str, pos: int) -> int:
    """Open the root object, with or without braces, or parse a root that is one value."""
    text = builder.text
    if first == "[" or (first == "{" and not TEMPLATE.match(text, pos)):
        return recover_value(builder, pos)
    if first == "{" or _ENTRY.match(text, pos) or KEY.match(text, pos):
        builder.open_container(pos, is_object=True, braces=False)
        return pos
    if not first:
        return pos
    brace = text.find("{", pos)
    if brace > 0:
        pos = skip_unexpected_text(builder, pos, brace - pos)  # text before the root's brace
    return recover_value(builder, pos)


def _is_stray_bracket(builder: TreeBuilder, char: str, frame: OpenContainer, pos: int) -> bool:
    """Return whether a bracket closes nothing, or would close the root before its last entry."""
    if char not in "]}":
        return False
    if char == frame.closer and len(builder.stack) == 1:
        return _ENTRY.match(builder.text, pos + 1) is not None
    return not any(char == outer.closer for outer in builder.stack)


def _record_missing_comma(builder: TreeBuilder, frame: OpenContainer, pos: int) -> None:
    """Record a missing comma, which hjson needs except after a string, a bracket or a line end."""
    end = frame.end_of_last_entry()
    ends_itself = builder.text[end - 1 : end] in ("'", '"', "}", "]")
    is_needed = are_on_same_line(builder.text, end, pos) and not ends_itself
    builder.add_problem("missing-comma", end, end, rejected_by=BOTH_JSON if is_needed else ONLY_JSON)


# Keys and values of a text that hjson rejects, read as they were probably meant.
#
# The functions take the builder and a position, and return the one where they stopped.

TEMPLATE: Final = re.compile(r"\{\{.{0,200}?\}\}|\{%.{0,200}?%\}|\$\{[^}\r\n]{0,200}\}|<%.{0,200}?%>")
"""A placeholder or statement of a template."""
_WORD: Final = re.compile(r"[^,}\]\[{\r\n#/\"']*(?:/(?![/*])[^,}\]\[{\r\n#/\"']*)*[\"']?")
_KEY_WORD: Final = re.compile(r"[^\s:{}\[\],=\"'#]+[\"']?")
_BEFORE_ENTRY: Final = re.compile(
    r"(?:true|false|null|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?:[ \t]*(?=[\"'{\[])|[ \t]+(?=[\w.]+[ \t]*:))"
)
"""A number or literal that is followed by another entry without a comma."""
_PYTHON_LITERALS: Final[dict[str, bool | None]] = {"true": True, "false": False, "none": None}
"""Literals that hjson accepts only in lower case."""
_LINE_END: Final = re.compile(r"[\r\n]")
_COLON: Final = re.compile(r"[ \t]*:")
_REST_OF_LINE: Final = re.compile(r"[ \t]*,?[ \t]*(?=[\r\n]|\Z)")


def skip_space_and_any_comments(builder: TreeBuilder, pos: int) -> tuple[str, int]:
    """Skip white space and comments; an unclosed comment runs to the end of the text."""
    try:
        return skip_space_and_comments(builder, pos)
    except HjsonSyntaxError as error:
        if error.kind == "too-large":
            raise
        builder.add_problem(error.kind, error.start, error.end, error.detail, BOTH_JSON)
        return "", len(builder.text)


def skip_unexpected_text(builder: TreeBuilder, pos: int, length: int) -> int:
    """Skip unexpected text, recording it as a problem."""
    piece = builder.text[pos : pos + length]
    kind = "placeholder" if TEMPLATE.fullmatch(piece) else "unexpected"
    builder.add_problem(kind, pos, pos + length, piece[:80], BOTH_JSON)
    return pos + length


def are_on_same_line(text: str, start: int, end: int) -> bool:
    """Return whether two offsets are on the same line."""
    return not _LINE_END.search(text, start, end)


def recover_entry(builder: TreeBuilder, frame: OpenContainer, pos: int) -> int:
    """Parse as much as possible of an entry in an object or array."""
    if match := TEMPLATE.match(builder.text, pos):
        if frame.is_object:
            return skip_unexpected_text(builder, pos, match.end() - pos)
    elif frame.is_object:
        if builder.text[pos] in ":[{=":
            return pos
        pos = _recover_key_and_colon(builder, frame, pos)
        if frame.key is None:
            return pos
    return recover_value(builder, pos)


# -- keys ------------------------------------------------------------------------------------------


def _recover_key_and_colon(builder: TreeBuilder, frame: OpenContainer, start: int) -> int:
    """Parse a key and its colon, and set the container's current key if one is found."""
    parsed = _recover_key(builder, start)
    if parsed is None:
        return start
    key, end = parsed
    has_colon, pos = _recover_colon(builder, end)
    if not has_colon:
        return _skip_key(builder, start, end)
    frame.key, frame.key_span = key, TextSpan(start, end)
    return pos


def _recover_key(builder: TreeBuilder, start: int) -> tuple[str, int] | None:
    """Parse a quoted or unquoted key; return it with its end offset, or None if there is none."""
    if builder.text[start] in "\"'":
        key, end, found_problems = recover_quoted_string(builder.text, start, is_key=True)
        for problem in found_problems:
            builder.add_problem(*problem)
        return key, end
    match = _KEY_WORD.match(builder.text, start)
    if match is None:
        return None
    word, end = match.group(), match.end()
    key = word.rstrip("\"'")
    if key != word:
        builder.add_problem("unclosed", end - 1, end, word[-1], BOTH_JSON)
    else:
        builder.add_problem("unquoted-key", start, end, word[:80])
    return key, end


def _recover_colon(builder: TreeBuilder, key_end: int) -> tuple[bool, int]:
    """Parse the colon after a key, and return whether a colon or a value follows."""
    text = builder.text
    char, pos = skip_space_and_any_comments(builder, key_end)
    if char in ("'", '"') and _COLON.match(text, pos + 1):
        char, pos = skip_space_and_any_comments(builder, skip_unexpected_text(builder, pos, 1))
    if char in (":", "="):
        if char == "=":
            builder.add_problem("missing-colon", pos, pos + 1, "=", BOTH_JSON)
        char, pos = skip_space_and_any_comments(builder, pos + 1)
        while char == ":":
            char, pos = skip_space_and_any_comments(builder, skip_unexpected_text(builder, pos, 1))
        return True, pos
    if char and char not in ",}]" and are_on_same_line(text, key_end, pos):
        builder.add_problem("missing-colon", key_end, key_end, "", BOTH_JSON)
        return True, pos
    return False, pos


def _skip_key(builder: TreeBuilder, start: int, end: int) -> int:
    """Skip a key without colon and value; a lone quote counts as one character."""
    text = builder.text
    lone_quote = text[start : start + 1] in ("'", '"') and text[end - 1] not in "'\""
    if lone_quote or end - start == 1:
        return skip_unexpected_text(builder, start, 1)
    builder.add_problem("unexpected", start, end, text[start:end][:80], BOTH_JSON)
    return end


# -- values ----------------------------------------------------------------------------------------


def recover_value(builder: TreeBuilder, start: int) -> int:
    """Parse a value; if it is missing, use null."""
    text = builder.text
    char = text[start : start + 1]
    if not char or char in ",}]":
        builder.add_problem("missing-value", start, start, char, BOTH_JSON)
        builder.add_scalar("null", start, start, None)
        return start
    if text.startswith("'''", start):
        return _recover_multiline_string(builder, start)
    if char in "{[" and not TEMPLATE.match(text, start):
        builder.open_container(start, is_object=char == "{")
        return start + 1
    if char in "\"'":
        value, end, found_problems = recover_quoted_string(text, start)
        for problem in found_problems:
            builder.add_problem(*problem)
        builder.add_scalar("string", start, end, value)
        return end
    return start if char == ":" else _recover_unquoted_value(builder, start)


def _recover_multiline_string(builder: TreeBuilder, start: int) -> int:
    """Parse a string in triple quotes; if unclosed, it ends with its line."""
    try:
        value, end = parse_multiline_string(builder.text, start, translate=builder.translate)
        builder.add_problem("multiline-string", start, end)
    except HjsonSyntaxError as error:
        builder.add_problem(error.kind, start, start + 3, error.detail, BOTH_JSON)
        end = max(error.end, start + 3)
        value = builder.text[start + 3 : end].strip("'")
    builder.add_scalar("string", start, end, value)
    return end


def _recover_unquoted_value(builder: TreeBuilder, start: int) -> int:
    """Parse a number, true, false or null; otherwise a word up to the next comma or bracket."""
    text = builder.text
    next_entry = _BEFORE_ENTRY.match(text, start)  # the next entry follows without a comma
    try:
        parsed = parse_literal(text, start, next_entry.end() if next_entry else len(text))
    except HjsonSyntaxError as error:  # hjson raises where json reads infinity
        builder.add_problem(error.kind, start, error.end, error.detail, BOTH_JSON)
        builder.add_scalar("number", start, error.end, float("-inf" if text[start] == "-" else "inf"))
        return error.end
    if parsed is None:
        return _recover_unquoted_word(builder, start)
    value, end, word = parsed
    kind: NodeKind = "null" if value is None else "boolean" if isinstance(value, bool) else "number"
    builder.add_scalar(kind, start, start + len(word), value)
    return end


def _recover_unquoted_word(builder: TreeBuilder, start: int) -> int:
    """Parse an unquoted word, recording a problem if other text follows on its line."""
    text = builder.text
    match = TEMPLATE.match(text, start) or _WORD.match(text, start)
    end = start + len(match.group().rstrip()) if match else start
    if end == start:
        end = max(start + 1, find_line_end(text, start))
    word = text[start:end]
    if word[-1] in "\"'" and len(word) > 1:
        builder.add_problem("unclosed", end - 1, end, word[-1], BOTH_JSON)
        word = word[:-1].rstrip()
    else:
        rejecting: frozenset[Parser] = NO_PARSER if _REST_OF_LINE.match(text, end) else ONLY_HJSON
        builder.add_problem(classify_unquoted_word(word), start, end, word[:80], ONLY_JSON | rejecting)
        if word.lower() in _PYTHON_LITERALS:
            literal_value = _PYTHON_LITERALS[word.lower()]
            builder.add_scalar("null" if literal_value is None else "boolean", start, end, literal_value)
            return end
    builder.add_scalar("string", start, end, word)
    return end


# Strings that hjson rejects are read to their closing quote, or to the end of their line.


def recover_quoted_string(
    text: str, start: int, *, is_key: bool = False
) -> tuple[str, int, list[ProblemArguments]]:
    """Parse as much as possible of a quoted string; return its value, end and problems."""
    try:
        return parse_quoted_string(text, start)
    except HjsonSyntaxError:
        return _recover_broken_string(text, start, is_key=is_key)


def _recover_broken_string(text: str, start: int, *, is_key: bool) -> tuple[str, int, list[ProblemArguments]]:
    quote, at, chunks = text[start], start + 1, []
    found_problems = [] if quote == '"' else [single_quotes_problem(start)]
    while True:
        end = SIMPLE[quote].match(text, at).end()  # type: ignore[union-attr]  # it matches the empty string
        chunks.append(text[at:end])
        char = text[end : end + 1]
        if char == quote:
            return "".join(chunks), end + 1, found_problems
        if char in ("", "\r", "\n"):
            found_problems.append(("unclosed", start, start + 1, quote, BOTH_JSON))
            return *_cut_string_at_line_end(
                text[start + 1 : end], "".join(chunks), start + 1, is_key=is_key
            ), found_problems
        piece, at = _recover_control_or_escape(text, char, end, found_problems)
        del found_problems[MAX_PROBLEMS:]  # the limit for a whole text
        chunks.append(piece)


def _recover_control_or_escape(
    text: str, char: str, at: int, found_problems: list[ProblemArguments]
) -> tuple[str, int]:
    """Parse a control character or an escape sequence in a string."""
    if char != "\\":
        found_problems.append(("control-character", at, at + 1, char, BOTH_JSON))
        return char, at + 1
    try:
        return parse_escape(text, at)
    except HjsonSyntaxError as error:
        found_problems.append((error.kind, error.start, error.end, error.detail, BOTH_JSON))
        piece = text[at : at + 2].rstrip("\r\n")
        return piece, at + len(piece)


def _cut_string_at_line_end(raw: str, content: str, start: int, *, is_key: bool) -> tuple[str, int]:
    """End an unclosed string on its line: a key before the colon, a value before the comma."""
    cut = raw.find(":") if is_key else len(raw.rstrip(", \t"))
    if cut < 0:
        return content.rstrip(", \t"), start + len(raw)
    return raw[:cut].rstrip() if content == raw else content.rstrip(", \t"), start + cut
