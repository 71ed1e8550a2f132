"""Words of shell text: quotes, escapes, comments, here-documents, variables and arithmetic."""

from __future__ import annotations

import ast
import operator
import os
import re
from collections.abc import Callable, Iterator, Mapping

from dsconfig.launch.repository import Budget
from dsconfig.launch.repository import of_text as _of_text

_SPACE, _ENDS = " \t\r", "\n;&|()"
_NESTED = re.compile(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|(?:(?<=\s)|^)#[^\n]*|[()]", re.DOTALL)
_HEREDOC = re.compile(r"<<-?[ \t]*(\\?)([\"']?)([\w.-]+)\2")
_REDIRECT = re.compile(r"(?:<<<|>>|<>|>\||&>>?|[<>]&?)[ \t]*")
_DEEP = 8
"""Deepest nesting of substitutions that are evaluated."""
_NAME = re.compile(r"\$(?:\w+|[@*#?])")
_BRACES = re.compile(r"\\.|'[^']*'|\$\{|\}", re.DOTALL)
_PARAMETER = re.compile(r"\{(#?)(\w+)(?:\[([@*\w]+)\])?(?:(:?)[-=](.*)|([%#/].+))?\}", re.DOTALL)
_BARE = re.compile(r"(?<![\w$])[A-Za-z_]\w*")
_SUM = re.compile(r"[\d\s+*/%()-]{1,60}")

_UNCLOSED = 50
"""Unterminated here-documents after which no further ones are searched."""
_FAST = 8
LONGEST = 10_000
"""Longest word or value that is expanded; longer ones stay as written."""
Variables = Mapping[str, tuple[str, ...]]


class Quoting:
    """Lexer of one text. `depth`: nesting of substitutions around it. `budget`: limit of the steps.

    Every method raises `SpentError` if the budget is exceeded.
    """

    def __init__(self, text: str, depth: int = 0, budget: Budget | None = None) -> None:
        self.text, self._depth = text, depth
        self.budget = _of_text(len(text)) if budget is None else budget
        self.read: set[str] = set()
        """Variables and command substitutions whose values were requested."""
        self._open: dict[str, set[str]] = {}
        """By text, the brackets and quotes without a closing partner, so that they are searched only once."""
        self._endless: set[str] = set()
        """Delimiters of unterminated here-documents."""

    def simple_commands(self) -> Iterator[tuple[int, list[str], str, str | None]]:
        """Yield the offset of each command, its words as written, its output file, and its here-document."""
        text, at, start = self.text, 0, 0
        self.budget.spend(len(text))
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
                self.budget.spend(len(pending))
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
        """The lines of a here-document, and the offset of their end."""
        if end in self._endless or len(self._endless) > _UNCLOSED:
            return "", at
        if self.text.find(end, at) < 0:
            self._endless.add(end)
            return "", at
        match = re.compile(rf"^[ \t]*{re.escape(end)}[ \t\r]*$", re.MULTILINE).search(self.text, at)
        self._looked_at((match.end() if match else len(self.text)) - at)
        if match is None:
            self._endless.add(end)
            return "", at
        return self.text[at : match.start()], match.end()

    def _line_end(self, at: int) -> int:
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end

    def _word_end(self, at: int, text: str | None = None) -> int:
        """Offset behind the word that starts at `at`."""
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
        """Offset behind the quoted text, substitution or single character that starts at `at`."""
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
            return self._closed(text, at, _BRACES, "${", "}")
        match = _NAME.match(text, at)
        return match.end() if match else at + 1

    def _find(self, text: str, mark: str, at: int) -> int:
        """Offset behind the closing mark; without one, the opening mark counts as a plain character."""
        if mark in self._open.get(text, ()):
            return at
        end = text.find(mark, at)
        self._looked_at((len(text) if end < 0 else end) - at)
        if end < 0:
            self._open.setdefault(text, set()).add(mark)
            return at
        return end + 1

    def _looked_at(self, count: int) -> None:
        """Charge characters that `re` or `str` examine or copy, which is faster than a Python loop."""
        self.budget.spend(count // _FAST + 1)

    def _closed(
        self, text: str, at: int, marks: re.Pattern[str] = _NESTED, opens: str = "(", closes: str = ")"
    ) -> int:
        """Offset behind the bracket that closes the one at `at`."""
        if opens in self._open.get(text, ()):
            return at + len(opens)
        depth, last = 0, at
        for match in marks.finditer(text, at):
            self._looked_at(match.end() - last)
            last = match.end()
            depth += {opens: 1, closes: -1}.get(match[0], 0)
            if not depth:
                return last
        self._open.setdefault(text, set()).add(opens)
        return at + len(opens)

    # Expansion of words
    # ----------------------------------------------------------------------------------------------

    def expanded(self, raw: str, variables: Variables, *, split: bool = True) -> list[str]:
        """Expand a word into words. Unknown values, and results that are too long, stay as written."""
        if len(raw) > LONGEST:
            return [raw]
        self.budget.spend(len(raw))
        fields: list[str] = [""]
        some = False
        at = size = 0
        while at < len(raw):
            end = self._part_end(raw, at)
            part, at = raw[at:end], end
            if part[0] == "'" and len(part) > 1:
                fields[-1] += part[1:-1]
                some = True
            elif part[0] == '"' and len(part) > 1:
                listed = self._within(part[1:-1], variables)
                size += _size(listed)
                fields[-1:] = [fields[-1] + listed[0], *listed[1:]] if listed else fields[-1:]
                some = some or bool(listed)
            elif part[0] == "\\" and len(part) > 1:
                fields[-1] += "" if part[1] == "\n" else part[1]
            elif part[0] in "$`":
                values = self._value(part, variables)
                size += _size(values)
                for number, value in enumerate(values):
                    # The output of a command is unknown and might contain no blanks, so it stays one word.
                    pieces = value.split() if split and "$(" not in value and "`" not in value else [value]
                    fields += [""] * (number > 0)
                    fields[-1:] = [fields[-1] + pieces[0], *pieces[1:]] if pieces else fields[-1:]
            else:
                fields[-1] += part
            if size > LONGEST:
                return [raw]
        return fields if some or any(fields) else []

    def in_quotes(self, body: str, variables: Variables) -> str:
        """Expand text in double quotes, or a here-document."""
        self.read.clear()
        return body if len(body) > LONGEST else " ".join(self._within(body, variables))

    def _within(self, body: str, variables: Variables) -> list[str]:
        """Expand text in double quotes: one word, unless it contains an array; unchanged if too long."""
        self.budget.spend(len(body))
        fields, at, size = [""], 0, 0
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
                size += _size(values)
                if size > LONGEST:
                    return [body]
            else:
                fields[-1] += part
        return fields

    def _value(self, part: str, variables: Variables) -> list[str]:
        """Value of a variable or substitution; unchanged if unknown."""
        values = self._looked_up(part, variables)
        self._looked_at(_size(values))
        return values

    def _looked_up(self, part: str, variables: Variables) -> list[str]:
        if part[0] == "`" or part.startswith("$("):
            return [self._substituted(part, variables)]
        if part.startswith("${"):
            return self._parameter(part, variables)
        name = part[1:]
        if name in ("@", "*"):
            return []
        self.read.add(name)
        if name in variables:
            return list(variables[name][:1])
        return ["."] if name == "PWD" else [part]

    def _parameter(self, part: str, variables: Variables) -> list[str]:
        """Value of `${...}`: a variable, its default, an array element or length, or part of a value."""
        match = _PARAMETER.fullmatch(part[1:])
        if match is None:
            return [] if part in ("${@}", "${*}") else [part]
        counts, name, index, unless_empty, default, operation = match.groups()
        self.read.add(name)
        found = variables.get(name)
        if found is None or (unless_empty and not any(found)):
            if default is not None and self._depth < _DEEP:
                self._depth += 1
                found = tuple(self.expanded(default, variables, split=False) or [""])
                self._depth -= 1
            elif found is None:
                return ["."] if name == "PWD" else [part]
        if index in ("@", "*"):
            return [str(len(found))] if counts else list(found)
        at = int(index) if index and index.isdecimal() and len(index) < _DIGITS else 0
        here = found[at : at + 1]
        if not here or not (counts or operation):
            return list(here)
        if counts:
            return [str(len(here[0]))] if "$" not in here[0] else [part]

        value = None if "$" in here[0] else trimmed(here[0], operation)
        return [part if value is None else value]

    def _substituted(self, part: str, variables: Variables) -> str:
        """Value of an arithmetic expression or of a command with known output; unchanged if unknown."""
        if part in variables:
            return variables[part][0]
        if self._depth >= _DEEP:
            return part
        self._depth += 1
        found = self._sum(part, variables) if part.startswith("$((") else self._printed(part, variables)
        self._depth -= 1
        if found is None or "$" in found:
            if not part.startswith("$(("):
                self.read.add(part)
            return part
        return found

    def _printed(self, part: str, variables: Variables) -> str | None:
        asked = Quoting(part[1:-1] if part[0] == "`" else part[2:-1], self._depth, self.budget)
        asked.read = self.read
        lines = [
            [each for word in raw for each in asked.expanded(word, variables)]
            for _, raw, *_ in asked.simple_commands()
        ]
        return _output(lines[-1], lines[:-1]) if lines and all(lines) else None

    def _sum(self, part: str, variables: Variables) -> str | None:
        """Value of `$((...))` if all its variables are whole numbers."""

        def value(match: re.Match[str]) -> str:
            self.read.add(match[0])
            found = (variables.get(match[0]) or ("?",))[0]
            self._looked_at(len(found))
            return found

        inner = _BARE.sub(value, " ".join(self._within(part[3:-2], variables)))
        if not _SUM.fullmatch(inner):
            return None

        found = whole(inner)
        return None if found is None else str(found)


_DIGITS = 6


def _size(values: list[str]) -> int:
    """Number of characters in all words, plus one per word."""
    return sum(map(len, values)) + len(values)


def _output(words: list[str], before: list[list[str]]) -> str | None:
    """Output of a command that prints a path or calculates; None for any other command."""
    folder = next((line[1] for line in before if line[0] == "cd" and len(line) > 1), "")
    if words == ["pwd"] and all(line[0] == "cd" for line in before):
        return os.path.normpath(folder or os.curdir)
    if before and words[0] == "wc" and before[0][0] == "echo":
        return _counted(before, words)
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
        case "expr":
            sums = " ".join(words[1:])
            found = whole(sums) if _SUM.fullmatch(sums) else None
            return None if found is None else str(found)
    return None


def _counted(before: list[list[str]], words: list[str]) -> str | None:
    """Number of entries in `echo 0,1 | tr , '\\n' | wc -l`, which scripts use to count CUDA_VISIBLE_DEVICES.
    """
    split = [line for line in before if line[0] == "tr"]
    if words[1:] != ["-l"] or len(before) != 1 + len(split) or [line[1:2] for line in split] != [[","]]:
        return None
    listed = " ".join(before[0][1:])
    return None if "$" in listed or not listed else str(listed.count(",") + 1)


# Integer arithmetic such as `$((8 * 2))`, and substring removal such as `${name%.*}`.

_LARGEST = 1 << 63
_LONGEST = 10_000
"""Longest replacement text."""


def whole(text: str) -> int | None:
    """Evaluate a short integer expression; None if it is invalid."""
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left), _value(node.right)
        if abs(found := _OPERATORS[type(node.op)](left, right)) < _LARGEST:
            return found
    raise ValueError("no sum of whole numbers")


def _quotient(left: int, right: int) -> int:
    """Integer division as in a shell: rounded toward zero, while Python's `//` rounds down."""
    return left // right if (left < 0) == (right < 0) else -(-left // right)


def _remainder(left: int, right: int) -> int:
    return left - _quotient(left, right) * right


_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
    ast.Mod: _remainder,
}


def trimmed(value: str, operation: str) -> str | None:
    """Apply `${name%.*}` and similar operations; None if the pattern has more than one `*` at its end.

    `operation`: everything after the name.
    """
    sign = operation[0]
    pattern = operation.lstrip(sign)
    greedy = len(operation) - len(pattern) > 1
    text = pattern.strip("*")
    if sign == "/":
        old, _, new = pattern.partition("/")
        if not old or any(char in _WILD for char in old) or value.count(old) * len(new) > _LONGEST:
            return None
        return value.replace(old, new, -greedy or 1)
    if not text or any(char in _WILD for char in text) or len(pattern) - len(text) > 1:
        return None
    if sign == "#":
        if pattern == text:
            return value.removeprefix(text)
        at = value.rfind(text) if greedy else value.find(text)
        return value if at < 0 or pattern[0] != "*" else value[at + len(text) :]
    if pattern == text:
        return value.removesuffix(text)
    at = value.find(text) if greedy else value.rfind(text)
    return value if at < 0 or pattern[-1] != "*" else value[:at]


_WILD = "*?[]\\$"
