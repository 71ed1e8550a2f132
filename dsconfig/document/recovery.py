"""The forgiving reading of a text that hjson refuses: it goes on, and keeps every key it can.

It guesses as a person would: a string ends with its line, a word at the comma, an object where its
indentation ends.
"""

from __future__ import annotations

import re
from typing import Final

from dsconfig.document.scanner import KEY, Frame, Scanner
from dsconfig.document.strings import SIMPLE, TO_LINE_END, ReadError, bare, multiline, unescape
from dsconfig.document.tree import (
    BOTH_JSON,
    EVERYBODY,
    MAX_PROBLEMS,
    NOBODY,
    ONLY_HJSON,
    ONLY_JSON,
    Node,
    Parser,
    Path,
    Span,
    Tree,
)

_TEMPLATE: Final = re.compile(r"\{\{.{0,200}?\}\}|\{%.{0,200}?%\}|\$\{[^}\r\n]{0,200}\}|<%.{0,200}?%>")
_WORD: Final = re.compile(r"[^,}\]\[{\r\n#/\"']*(?:/(?![/*])[^,}\]\[{\r\n#/\"']*)*[\"']?")
_KEY_WORD: Final = re.compile(r"[^\s:{}\[\],=\"'#]+[\"']?")
_BEFORE_ENTRY: Final = re.compile(
    r"(?:true|false|null|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?:[ \t]*(?=[\"'{\[])|[ \t]+(?=[\w.]+[ \t]*:))"
)
"""A number or literal that the next entry follows without a comma."""
_ENTRY: Final = re.compile(r"[,}\]\s]{0,200}(?:\"[^\"\r\n]*\"|'[^'\r\n]*'|[\w.$-]+)[ \t]*:")
"""What follows a bracket that closed the root too early: another entry."""
_LINE_END: Final = re.compile(r"[\r\n]")
_INDENT: Final = re.compile(r"[ \t]*")
_COLON: Final = re.compile(r"[ \t]*:")
_WHOLE: Final = re.compile(r"[ \t]*,?[ \t]*(?=[\r\n]|\Z)")


class _GiveUpError(Exception):
    """There are so many errors that the rest is not worth reading."""


class Recovery(Scanner):
    """Reads any text to its end. `by_indent`: an entry indented less than its section closes that section."""

    def __init__(self, text: str, *, translate: bool = True, by_indent: bool = False) -> None:
        super().__init__(text, translate=translate)
        self.by_indent = by_indent
        self.closed_by_indent = False
        self.unclosed = False
        self.errors = 0

    def read(self) -> Tree:
        """The whole text, whatever it is."""
        try:
            self.read_root()
        except ReadError as fault:  # too deep or too large
            self.note(fault.kind, fault.start, fault.end, fault.detail, EVERYBODY)
            self.root = None
        if self.root and self.root.kind != "object":
            self.note("root-not-object", *self.root.span, self.root.kind, NOBODY, path=())
        return self.tree()

    def read_root(self) -> None:
        """The root, and whatever follows it."""
        self.skip_mark()
        first = self.skip()
        if not first:
            self.note("empty", 0, self.pos, refused_by=BOTH_JSON)
        try:
            self.start_root(first)
            self.run()
        except _GiveUpError:
            while self.stack:
                self.close(self.stack[-1], self.last_end(self.stack[-1]))
        if self.skip():
            self.note("unexpected", self.pos, len(self.text), "after the end", BOTH_JSON)

    def start_root(self, first: str) -> None:
        """Go into the root, with or without its braces."""
        if first == "[" or (first == "{" and not _TEMPLATE.match(self.text, self.pos)):
            self.value()
        elif first == "{" or _ENTRY.match(self.text, self.pos) or KEY.match(self.text, self.pos):
            self.open(is_object=True, braces=False)
        elif first:
            self.skip_preface()
            self.value()

    def skip_preface(self) -> None:
        """Words before the root's brace."""
        brace = self.text.find("{", self.pos)
        if brace > 0:
            self.step_over(brace - self.pos)

    def run(self) -> None:
        """Read until every open bracket is closed; each turn moves on."""
        while self.stack:
            frame = self.stack[-1]
            if not self.close_or_go_on(frame):
                before = self.pos
                self.element(frame)
                if self.pos == before and self.stack and self.stack[-1] is frame:
                    self.step_over(1)

    def note(
        self,
        kind: str,
        start: int,
        end: int,
        detail: str = "",
        refused_by: frozenset[Parser] = ONLY_JSON,
        path: Path | None = None,
    ) -> None:
        """Keep an oddity; give up on a text that is nothing but errors."""
        super().note(kind, start, end, detail, refused_by, path)
        self.errors += "hjson" in refused_by
        if self.errors == MAX_PROBLEMS and self.stack:
            raise _GiveUpError

    def step_over(self, length: int) -> None:
        """Leave out what does not belong here."""
        piece = self.text[self.pos : self.pos + length]
        kind = "placeholder" if _TEMPLATE.fullmatch(piece) else "unexpected"
        self.note(kind, self.pos, self.pos + length, piece[:80], BOTH_JSON)
        self.pos += length

    def skip(self) -> str:
        """Step over white space and comments; a comment without end takes the rest."""
        try:
            return super().skip()
        except ReadError as fault:
            if fault.kind == "too-large":
                raise
            self.note(fault.kind, fault.start, fault.end, fault.detail, BOTH_JSON)
            self.pos = len(self.text)
            return ""

    # -- between values ----------------------------------------------------------------------------

    def close_or_go_on(self, frame: Frame) -> bool:
        """Read the commas; close the frame where it ends, or where it should have ended. True: closed."""
        frame.key = None
        comma = -1
        while char := self.skip():
            if char == "," and comma < 0 and len(frame):
                comma = self.pos
                self.pos += 1
            elif char == "," or self.is_stray(char, frame):
                self.step_over(1)
            else:
                break
        if char == frame.closer and (char or len(frame)):
            if comma >= 0 and char:
                self.note("trailing-comma", comma, comma + 1)
            self.pos += len(char)
            self.close(frame)
            return True
        if not char or char in "]}" or self.ends_by_indent(frame):
            self.pos = comma if comma >= 0 else self.pos  # it is the next frame's
            self.close_unclosed(frame)
            return True
        if len(frame) and comma < 0:
            self.note_missing_comma(frame)
        return False

    def is_stray(self, char: str, frame: Frame) -> bool:
        """A closing bracket that closes nothing, or the root before its last entry."""
        if char not in "]}":
            return False
        if char == frame.closer and len(self.stack) == 1:
            return _ENTRY.match(self.text, self.pos + 1) is not None
        return not any(char == outer.closer for outer in self.stack)

    def close_unclosed(self, frame: Frame) -> None:
        """The frame's bracket never comes."""
        if frame.braces:
            self.unclosed = True
            self.note("unclosed", frame.start, frame.start + 1, self.text[frame.start], BOTH_JSON)
        self.close(frame, self.last_end(frame))

    def ends_by_indent(self, frame: Frame) -> bool:
        """What comes next starts its line no further right than the line that opened this section."""
        if not self.by_indent or len(self.stack) < 2:
            return False
        here = self.pos
        while here > frame.start and self.text[here - 1] in " \t":
            here -= 1
        if self.text[here - 1] not in "\r\n":
            return False
        opened = _INDENT.match(self.text, self.line_start(frame.start))
        ends = opened is not None and self.pos - here <= opened.end() - opened.start()
        self.closed_by_indent |= ends
        return ends

    def line_start(self, at: int) -> int:
        """Where the line of this offset starts."""
        return max(self.text.rfind("\n", 0, at), self.text.rfind("\r", 0, at)) + 1

    def note_missing_comma(self, frame: Frame) -> None:
        """hjson needs no comma after a string or bracket, nor at a line's end."""
        end = self.last_end(frame)
        closed = self.text[end - 1 : end] in ("'", '"', "}", "]")
        same_line = not _LINE_END.search(self.text, end, self.pos)
        self.note("missing-comma", end, end, refused_by=BOTH_JSON if same_line and not closed else ONLY_JSON)

    # -- entries -----------------------------------------------------------------------------------

    def element(self, frame: Frame) -> None:
        """One entry, as far as there is one."""
        if match := _TEMPLATE.match(self.text, self.pos):
            if frame.is_object:
                self.step_over(match.end() - self.pos)
                return
        elif frame.is_object and (self.text[self.pos] in ":[{=" or not self.read_key(frame)):
            return
        self.value()

    def read_key(self, frame: Frame) -> bool:
        """The key and its colon. False: what stands here is no key."""
        start = self.pos
        if self.text[start] in "\"'":
            key = self.quoted(self.text[start], is_key=True)
        elif match := _KEY_WORD.match(self.text, start):
            word = match.group()
            key, self.pos = word.rstrip("\"'"), match.end()
            if key != word:
                self.note("unclosed", self.pos - 1, self.pos, word[-1], BOTH_JSON)
            else:
                self.note("unquoted-key", start, self.pos, word[:80])
        else:
            return False
        end = self.pos
        if not self.colon(start):
            return False
        frame.key, frame.key_span = key, Span(start, end)
        self.skip()
        return True

    def colon(self, key_start: int) -> bool:
        """The colon behind a key. False: there is none, and no value either; the key is left out."""
        end = self.pos
        char = self.skip()
        if char in ("'", '"') and _COLON.match(self.text, self.pos + 1):
            self.step_over(1)
            char = self.skip()
        if char in (":", "="):
            if char == "=":
                self.note("missing-colon", self.pos, self.pos + 1, "=", BOTH_JSON)
            self.pos += 1
            while self.skip() == ":":
                self.step_over(1)
            return True
        same_line = not _LINE_END.search(self.text, end, self.pos)
        if char and char not in ",}]" and same_line:
            self.note("missing-colon", end, end, "", BOTH_JSON)
            return True
        self.pos = end
        lone_quote = self.text[key_start : key_start + 1] in ("'", '"') and self.text[end - 1] not in "'\""
        if lone_quote or end - key_start == 1:
            self.pos = key_start
            self.step_over(1)
        else:
            self.note("unexpected", key_start, end, self.text[key_start:end][:80], BOTH_JSON)
        return False

    def value(self) -> None:
        """Whatever value starts here, or a null that stands for none."""
        start = self.pos
        char = self.text[start : start + 1]
        if not char or char in ",}]":
            self.note("missing-value", start, start, char, BOTH_JSON)
            self.scalar("null", start, start, None)
        elif self.text.startswith("'''", start):
            self.multiline(start)
        elif char in "{[" and not _TEMPLATE.match(self.text, start):
            self.open(is_object=char == "{")
        elif char in "\"'":
            value = self.quoted(char)
            self.scalar("string", start, self.pos, value)
        elif char != ":":
            self.bare()

    def multiline(self, start: int) -> None:
        """A string in triple quotes; one without end takes its line."""
        try:
            value, self.pos = multiline(self.text, start, translate=self.translate)
            self.note("multiline-string", start, self.pos)
        except ReadError as fault:
            self.note(fault.kind, start, start + 3, fault.detail, BOTH_JSON)
            self.pos = max(fault.end, start + 3)
            value = self.text[start + 3 : self.pos].strip("'")
        self.scalar("string", start, self.pos, value)

    def quoted(self, quote: str, *, is_key: bool = False) -> str:
        """The string in these quotes, or what is left of it on this line."""
        start, before = self.pos, len(self.problems)
        try:
            return super().quoted(quote)
        except ReadError:
            del self.problems[before:]
        if quote == "'":
            self.note("single-quotes", start, start + 1)
        text, end, chunks = self.text, start + 1, []
        while True:
            after = SIMPLE[quote].match(text, end).end()  # type: ignore[union-attr]
            chunks.append(text[end:after])
            char = text[after : after + 1]
            if char == quote:
                self.pos = after + 1
                return "".join(chunks)
            if char in ("", "\r", "\n"):
                return self.unclosed_string(start, after, "".join(chunks), is_key=is_key)
            piece, end = self.odd_piece(char, after)
            chunks.append(piece)

    def odd_piece(self, char: str, at: int) -> tuple[str, int]:
        """A control character or an escape inside a string."""
        if char != "\\":
            self.note("control-character", at, at + 1, char, BOTH_JSON)
            return char, at + 1
        try:
            return unescape(self.text, at)
        except ReadError as fault:
            self.note(fault.kind, fault.start, fault.end, fault.detail, BOTH_JSON)
            return self.text[at : at + 2].rstrip("\r\n"), at + len(self.text[at : at + 2].rstrip("\r\n"))

    def unclosed_string(self, start: int, end: int, content: str, *, is_key: bool) -> str:
        """A string that its line ends: a key stops at its colon, a value before its comma."""
        self.note("unclosed", start, start + 1, self.text[start], BOTH_JSON)
        raw = self.text[start + 1 : end]
        cut = raw.find(":") if is_key else len(raw.rstrip(", \t"))
        self.pos = start + 1 + cut if cut >= 0 else end
        return raw[:cut].rstrip() if cut >= 0 and content == raw else content.rstrip(", \t")

    def bare(self) -> None:
        """A number, true, false or null; else a word, up to the comma or bracket behind it."""
        text, start = self.text, self.pos
        if match := _BEFORE_ENTRY.match(text, start):
            text = text[: match.end()]  # only a comma is missing
        try:
            found = bare(text, start)
            if found is None:
                self.word(start)
            else:
                self.known(start, found[0], found[2], end=found[1])
        except ReadError as fault:  # hjson overflows where json gives infinity
            self.note(fault.kind, start, fault.end, fault.detail, BOTH_JSON)
            self.pos = fault.end
            value = float("-inf" if text[start] == "-" else "inf")
            self.scalar("number", start, fault.end, value)

    def known(self, start: int, value: bool | float | None, word: str, *, end: int) -> None:
        """A literal or number."""
        self.pos = end
        kind = "null" if value is None else "boolean" if isinstance(value, bool) else "number"
        self.attach(Node(kind, Span(start, start + len(word)), value))  # type: ignore[arg-type]

    def word(self, start: int) -> None:
        """A word without quotes. hjson takes the whole line: it refuses unless the word is the whole line."""
        text = self.text
        match = _TEMPLATE.match(text, start) or _WORD.match(text, start)
        end = start + len(match.group().rstrip()) if match else start
        if end == start:
            end = max(start + 1, TO_LINE_END.match(text, start).end())  # type: ignore[union-attr]
        word = text[start:end]
        refused: frozenset[Parser] = NOBODY if _WHOLE.match(text, end) else ONLY_HJSON
        self.pos = end
        if word[-1] in "\"'" and len(word) > 1:
            self.note("unclosed", end - 1, end, word[-1], BOTH_JSON)
            word = word[:-1].rstrip()
        else:
            self.note_word(start, word, refused)
        self.scalar("string", start, end, word)
