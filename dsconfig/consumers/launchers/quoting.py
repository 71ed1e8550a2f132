"""The words of shell text: quotes, escapes, comments, here-documents, variables; of any text, however odd."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

_SPACE, _ENDS = " \t\r", "\n;&|()"
_NESTED = re.compile(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|(?:(?<=\s)|^)#[^\n]*|[()]", re.DOTALL)
_HEREDOC = re.compile(r"<<-?[ \t]*(\\?)([\"']?)([\w.-]+)\2")
_REDIRECT = re.compile(r"(?:<<<|>>|<>|>\||&>>?|[<>]&?)[ \t]*")
_DEEP = 8
"""Substitutions within each other that are worked out."""
_NAME = re.compile(r"\$(?:\w+|[@*#?])")
_SUM = re.compile(r"[\d\s+*/()-]{1,60}")

LONGEST = 10_000
"""Nobody writes longer words, or keeps longer values; they stay as they are."""
Variables = Mapping[str, tuple[str, ...]]


class Quoting:
    """One text. `depth`: within how many substitutions it stands."""

    def __init__(self, text: str, depth: int = 0) -> None:
        self.text, self._depth = text, depth
        self._open: set[str] = set()
        """Brackets that nothing closes, from some place on: they are not searched for again."""

    def simple_commands(self) -> Iterator[tuple[int, list[str], str, str | None]]:
        """Where each command begins, its words as written, the file that it writes, and a here-document."""
        text, at, start = self.text, 0, 0
        words: list[str] = []
        target = ""
        pending: list[tuple[str, str]] = []
        while at < len(text):
            char = text[at]
            if char in _SPACE:
                at += 1
            elif text.startswith("\\\n", at) or text.startswith("\\\r\n", at):
                at = text.index("\n", at) + 1
            elif char == "#":
                at = self._line_end(at)
            elif match := _HEREDOC.match(text, at):
                pending.append((match[3], target))
                at = match.end()
            elif match := _REDIRECT.match(text, at):
                at = self._word_end(match.end())
                target = text[match.end() : at]
                pending = [(mark, target) for mark, _ in pending]
            elif char in _ENDS:
                if words:
                    yield start, words, target, None
                words, at = [], at + 1
                if char == "\n" and pending:
                    for mark, name in pending:
                        body, at = self._body(at, mark)
                        yield at, [], name, body
                    pending = []
                target = target if pending else ""
            else:
                start = start if words else at
                end = max(self._word_end(at), at + 1)
                words.append(text[at:end])
                at = end
        if words:
            yield start, words, target, None

    def _body(self, at: int, end: str) -> tuple[str, int]:
        """The lines of a here-document, and where they end."""
        if end in self._open:
            return "", at
        match = re.compile(rf"^[ \t]*{re.escape(end)}[ \t\r]*$", re.MULTILINE).search(self.text, at)
        if match is None:
            self._open.add(end)
            return "", at
        return self.text[at : match.start()], match.end()

    def _line_end(self, at: int) -> int:
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end

    def _word_end(self, at: int, text: str | None = None) -> int:
        """Behind the word that begins there."""
        text = self.text if text is None else text
        while at < len(text):
            char = text[at]
            if char == "(" and at and text[at - 1] == "=":
                at = self._closed(text, at)
            elif char in _SPACE or char in _ENDS or char in "<>" or text.startswith("\\\n", at):
                break
            else:
                at = self._part_end(text, at)
        return at

    def _part_end(self, text: str, at: int) -> int:
        """Behind the quoted text, substitution or single character that begins there."""
        char = text[at]
        end = at + 1
        if char == "\\":
            return min(at + 2, len(text))
        if char == "'":
            return self._find(text, "'", at + 1)
        if char == '"':
            while end < len(text) and text[end] != '"':
                end = self._part_end(text, end) if text[end] in "\\$`" else end + 1
            return min(end + 1, len(text))
        if char == "`":
            return self._find(text, "`", at + 1)
        if text.startswith("$(", at):
            return self._closed(text, at + 1)
        if text.startswith("${", at):
            return self._find(text, "}", at + 2)
        match = _NAME.match(text, at)
        return match.end() if match else at + 1

    def _find(self, text: str, mark: str, at: int) -> int:
        """Behind the mark; where there is none, the one that opens it is a character like others."""
        end = -1 if mark in self._open and text is self.text else text.find(mark, at)
        if end < 0:
            self._open |= {mark} if text is self.text else set()
            return at
        return end + 1

    def _closed(self, text: str, at: int) -> int:
        """Behind the bracket that closes the one there."""
        if "(" in self._open and text is self.text:
            return at + 1
        depth = 0
        for match in _NESTED.finditer(text, at):
            depth += {"(": 1, ")": -1}.get(match[0], 0)
            if not depth:
                return match.end()
        self._open |= {"("} if text is self.text else set()
        return at + 1

    # What a word stands for
    # ----------------------------------------------------------------------------------------------

    def expanded(self, raw: str, variables: Variables, *, split: bool = True) -> list[str]:
        """The words that a word becomes. What is not known stays as written."""
        if len(raw) > LONGEST:
            return [raw]
        fields: list[str] = [""]
        some = False
        at = 0
        while at < len(raw):
            end = self._part_end(raw, at)
            part, at = raw[at:end], end
            if part[0] == "'" and len(part) > 1:
                fields[-1] += part[1:-1]
                some = True
            elif part[0] == '"' and len(part) > 1:
                listed = self._within(part[1:-1], variables)
                fields[-1:] = [fields[-1] + listed[0], *listed[1:]] if listed else fields[-1:]
                some = some or bool(listed)
            elif part[0] == "\\" and len(part) > 1:
                fields[-1] += "" if part[1] == "\n" else part[1]
            elif part[0] in "$`":
                values = self._value(part, variables)
                for number, value in enumerate(values):
                    # What a command says is not known to hold blanks.
                    pieces = value.split() if split and "$(" not in value and "`" not in value else [value]
                    fields += [""] * (number > 0)
                    fields[-1:] = [fields[-1] + pieces[0], *pieces[1:]] if pieces else fields[-1:]
            else:
                fields[-1] += part
        return fields if some or any(fields) else []

    def _within(self, body: str, variables: Variables) -> list[str]:
        """What text in double quotes becomes: one word, unless an array is in it."""
        fields, at = [""], 0
        while at < len(body):
            end = self._part_end(body, at) if body[at] in "\\$`" else at + 1
            part, at = body[at:end], end
            if part[0] == "\\" and len(part) > 1:
                fields[-1] += part[1] if part[1] in '"\\$`' else "" if part[1] == "\n" else part
            elif part[0] in "$`":
                values = self._value(part, variables)
                if not values and not fields[0] and at == len(body):
                    return []
                fields[-1:] = [fields[-1] + value for value in values[:1]] or fields[-1:]
                fields += values[1:]
            else:
                fields[-1] += part
        return fields

    def _value(self, part: str, variables: Variables) -> list[str]:
        """What a variable or a substitution is; itself where nobody knows."""
        if part.startswith("$(("):
            return [self._sum(part, variables)]
        if part[0] == "`" or part.startswith("$("):
            return [self._substituted(part, variables)]
        name, default, whole = part[1:], None, False
        if name.startswith("{"):
            match = re.fullmatch(r"\{(\w+)(\[[@*\w]+\])?(?::?[-=](.*))?\}", name, re.DOTALL)
            if match is None:
                return [] if name in ("{@}", "{*}") else [part]
            name, default, whole = match[1], match[3], match[2] in ("[@]", "[*]")
        if name in ("@", "*"):
            return []
        if name in variables:
            return list(variables[name] if whole else variables[name][:1])
        if name == "PWD":
            return ["."]
        if default is not None:
            return self.expanded(default, variables, split=False) or [""]
        return [part]

    def _substituted(self, part: str, variables: Variables) -> str:
        """A path, where a command is asked for one; itself where only running it would tell."""
        inner = part[1:-1] if part[0] == "`" else part[2:-1]
        if self._depth == _DEEP:
            return part
        self._depth += 1
        asked = Quoting(inner, self._depth)
        lines = [
            [each for word in raw for each in asked.expanded(word, variables)]
            for _, raw, *_ in asked.simple_commands()
        ]
        self._depth -= 1
        found = _path(lines[-1], lines[:-1]) if lines and all(lines) else None
        return part if found is None or "$" in found else found

    def _sum(self, part: str, variables: Variables) -> str:
        """The number that an expression comes to, where it is one of known whole numbers."""
        inner = re.sub(
            r"\$?\{?\b([A-Za-z_]\w*)\b\}?", lambda match: (variables.get(match[1]) or ("?",))[0], part[3:-2]
        )
        if not _SUM.fullmatch(inner):
            return part
        from dsconfig.consumers.launchers.arithmetic import whole

        found = whole(inner.replace("/", "//"))
        return part if found is None else str(found)


def _path(words: list[str], before: list[list[str]]) -> str | None:
    """What a command says that asks for a path; None where it is another."""
    folder = next((line[1] for line in before if line[0] == "cd" and len(line) > 1), "")
    if words == ["pwd"] and all(line[0] == "cd" for line in before):
        return os.path.normpath(folder or os.curdir)
    given = [word for word in words[1:] if not word.startswith("-")]
    if before or not given:
        return None
    match words[0]:
        case "dirname":
            return os.path.dirname(given[0]) or os.curdir
        case "basename":
            name = os.path.basename(given[0])
            return name.removesuffix(given[1]) if len(given) > 1 else name
        case "realpath" | "readlink":
            return os.path.normpath(given[0])
        case "echo":
            return " ".join(given)
    return None
