"""Words of shell text: quotes, escapes, comments, here-documents, variables and arithmetic."""

from __future__ import annotations

import ast
import operator
import os
import re
from collections.abc import Callable, Iterator, Mapping

from dsconfig.launch.repository import Budget
from dsconfig.launch.repository import text_budget as _of_text

_SPACE, _OPERATORS_AND_LINE_END = " \t\r", "\n;&|()"
_NESTED = re.compile(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|(?:(?<=\s)|^)#[^\n]*|[()]", re.DOTALL)
_HEREDOC = re.compile(r"<<-?[ \t]*(\\?)([\"']?)([\w.-]+)\2")
_REDIRECT = re.compile(r"(?:<<<|>>|<>|>\||&>>?|[<>]&?)[ \t]*")
_MAX_DEPTH = 8
"""Deepest nesting of substitutions that are evaluated."""
_NAME = re.compile(r"\$(?:\w+|[@*#?])")
_BRACES = re.compile(r"\\.|'[^']*'|\$\{|\}", re.DOTALL)
_PARAMETER = re.compile(r"\{(#?)(\w+)(?:\[([@*\w]+)\])?(?:(:?)[-=](.*)|([%#/].+))?\}", re.DOTALL)
_BARE_NAME = re.compile(r"(?<![\w$])[A-Za-z_]\w*")
_ARITHMETIC = re.compile(r"[\d\s+*/%()-]{1,60}")

_MAX_UNTERMINATED = 50
"""Unterminated here-documents after which no further ones are searched."""
_COPIES_PER_STEP = 8
MAX_LENGTH = 10_000
"""Longest word or value that is expanded; longer ones stay as written."""
Variables = Mapping[str, tuple[str, ...]]


class Lexer:
    """Lexer of one text. `depth`: nesting of substitutions around it. `budget`: limit of the steps.

    Every method raises `SpentError` if the budget is exceeded.
    """

    def __init__(self, text: str, depth: int = 0, budget: Budget | None = None) -> None:
        self.text, self._depth = text, depth
        self.budget = _of_text(len(text)) if budget is None else budget
        self.used: set[str] = set()
        """Variables and command substitutions whose values were requested."""
        self._unclosed: dict[str, set[str]] = {}
        """By text, the brackets and quotes without a closing partner, so that they are searched only once."""
        self._unterminated: set[str] = set()
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
            elif char in _OPERATORS_AND_LINE_END:
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
        if end in self._unterminated or len(self._unterminated) > _MAX_UNTERMINATED:
            return "", at
        if self.text.find(end, at) < 0:
            self._unterminated.add(end)
            return "", at
        match = re.compile(rf"^[ \t]*{re.escape(end)}[ \t\r]*$", re.MULTILINE).search(self.text, at)
        self._charge((match.end() if match else len(self.text)) - at)
        if match is None:
            self._unterminated.add(end)
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
                at = self._bracket_end(text, at)
            elif (
                char in _SPACE
                or char in _OPERATORS_AND_LINE_END
                or char in "<>"
                or text.startswith("\\\n", at)
            ):
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
            return self._mark_end(text, "'", at + 1)
        if char == '"':
            while end < len(text) and text[end] != '"':
                end = self._part_end(text, end) if text[end] in "\\$`" else end + 1
            return min(end + 1, len(text))
        if char == "`":
            return self._mark_end(text, "`", at + 1)
        if text.startswith("$(", at):
            return self._bracket_end(text, at + 1)
        if text.startswith("${", at):
            return self._bracket_end(text, at, _BRACES, "${", "}")
        match = _NAME.match(text, at)
        return match.end() if match else at + 1

    def _mark_end(self, text: str, mark: str, at: int) -> int:
        """Offset behind the closing mark; without one, the opening mark counts as a plain character."""
        if mark in self._unclosed.get(text, ()):
            return at
        end = text.find(mark, at)
        self._charge((len(text) if end < 0 else end) - at)
        if end < 0:
            self._unclosed.setdefault(text, set()).add(mark)
            return at
        return end + 1

    def _charge(self, count: int) -> None:
        """Charge characters that `re` or `str` examine or copy, which is faster than a Python loop."""
        self.budget.spend(count // _COPIES_PER_STEP + 1)

    def _bracket_end(
        self, text: str, at: int, marks: re.Pattern[str] = _NESTED, opens: str = "(", closes: str = ")"
    ) -> int:
        """Offset behind the bracket that closes the one at `at`."""
        if opens in self._unclosed.get(text, ()):
            return at + len(opens)
        depth, last = 0, at
        for match in marks.finditer(text, at):
            self._charge(match.end() - last)
            last = match.end()
            depth += {opens: 1, closes: -1}.get(match[0], 0)
            if not depth:
                return last
        self._unclosed.setdefault(text, set()).add(opens)
        return at + len(opens)

    # Expansion of words
    # ----------------------------------------------------------------------------------------------

    def expand(self, raw: str, variables: Variables, *, split: bool = True) -> list[str]:
        """Expand a word into words. Unknown values, and results that are too long, stay as written."""
        if len(raw) > MAX_LENGTH:
            return [raw]
        self.budget.spend(len(raw))
        fields: list[str] = [""]
        has_quotes = False
        at = size = 0
        while at < len(raw):
            end = self._part_end(raw, at)
            part, at = raw[at:end], end
            if part[0] == "'" and len(part) > 1:
                fields[-1] += part[1:-1]
                has_quotes = True
            elif part[0] == '"' and len(part) > 1:
                quoted_fields = self._expand_quoted(part[1:-1], variables)
                size += _total_size(quoted_fields)
                fields[-1:] = (
                    [fields[-1] + quoted_fields[0], *quoted_fields[1:]] if quoted_fields else fields[-1:]
                )
                has_quotes = has_quotes or bool(quoted_fields)
            elif part[0] == "\\" and len(part) > 1:
                fields[-1] += "" if part[1] == "\n" else part[1]
            elif part[0] in "$`":
                values = self._value(part, variables)
                size += _total_size(values)
                for number, value in enumerate(values):
                    # The output of a command is unknown and might contain no blanks, so it stays one word.
                    pieces = value.split() if split and "$(" not in value and "`" not in value else [value]
                    fields += [""] * (number > 0)
                    fields[-1:] = [fields[-1] + pieces[0], *pieces[1:]] if pieces else fields[-1:]
            else:
                fields[-1] += part
            if size > MAX_LENGTH:
                return [raw]
        return fields if has_quotes or any(fields) else []

    def expand_quoted(self, body: str, variables: Variables) -> str:
        """Expand text in double quotes, or a here-document."""
        self.used.clear()
        return body if len(body) > MAX_LENGTH else " ".join(self._expand_quoted(body, variables))

    def _expand_quoted(self, body: str, variables: Variables) -> list[str]:
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
                size += _total_size(values)
                if size > MAX_LENGTH:
                    return [body]
            else:
                fields[-1] += part
        return fields

    def _value(self, part: str, variables: Variables) -> list[str]:
        """Value of a variable or substitution; unchanged if unknown."""
        values = self._look_up(part, variables)
        self._charge(_total_size(values))
        return values

    def _look_up(self, part: str, variables: Variables) -> list[str]:
        if part[0] == "`" or part.startswith("$("):
            return [self._substitute(part, variables)]
        if part.startswith("${"):
            return self._parameter(part, variables)
        name = part[1:]
        if name in ("@", "*"):
            return []
        self.used.add(name)
        if name in variables:
            return list(variables[name][:1])
        # The script's directory is unknown; `.` keeps `$PWD/ds.json` relative.
        return ["."] if name == "PWD" else [part]

    def _parameter(self, part: str, variables: Variables) -> list[str]:
        """Value of `${...}`: a variable, its default, an array element or length, or part of a value."""
        match = _PARAMETER.fullmatch(part[1:])
        if match is None:
            return [] if part in ("${@}", "${*}") else [part]
        counts, name, index, unless_empty, default, operation = match.groups()
        self.used.add(name)
        values = variables.get(name)
        if values is None or (unless_empty and not any(values)):
            if default is not None and self._depth < _MAX_DEPTH:
                self._depth += 1
                values = tuple(self.expand(default, variables, split=False) or [""])
                self._depth -= 1
            elif values is None:
                return ["."] if name == "PWD" else [part]
        if index in ("@", "*"):
            return [str(len(values))] if counts else list(values)
        at = int(index) if index and index.isdecimal() and len(index) < _MAX_DIGITS else 0
        element = values[at : at + 1]
        if not element or not (counts or operation):
            return list(element)
        if counts:
            return [str(len(element[0]))] if "$" not in element[0] else [part]

        value = None if "$" in element[0] else trim(element[0], operation)
        return [part if value is None else value]

    def _substitute(self, part: str, variables: Variables) -> str:
        """Value of an arithmetic expression or of a command with known output; unchanged if unknown."""
        if part in variables:
            return variables[part][0]
        if self._depth >= _MAX_DEPTH:
            return part
        self._depth += 1
        result = (
            self._arithmetic(part, variables)
            if part.startswith("$((")
            else self._command_output(part, variables)
        )
        self._depth -= 1
        if result is None or "$" in result:
            if not part.startswith("$(("):
                self.used.add(part)
            return part
        return result

    def _command_output(self, part: str, variables: Variables) -> str | None:
        lexer = Lexer(part[1:-1] if part[0] == "`" else part[2:-1], self._depth, self.budget)
        lexer.used = self.used
        lines = [
            [each for word in raw for each in lexer.expand(word, variables)]
            for _, raw, *_ in lexer.simple_commands()
        ]
        return _command_output(lines[-1], lines[:-1]) if lines and all(lines) else None

    def _arithmetic(self, part: str, variables: Variables) -> str | None:
        """Value of `$((...))` if all its variables are whole numbers."""

        def value(match: re.Match[str]) -> str:
            self.used.add(match[0])
            text = (variables.get(match[0]) or ("?",))[0]
            self._charge(len(text))
            return text

        inner = _BARE_NAME.sub(value, " ".join(self._expand_quoted(part[3:-2], variables)))
        if not _ARITHMETIC.fullmatch(inner):
            return None

        result = evaluate(inner)
        return None if result is None else str(result)


_MAX_DIGITS = 6


def _total_size(values: list[str]) -> int:
    """Number of characters in all words, plus one per word."""
    return sum(map(len, values)) + len(values)


def _command_output(words: list[str], before: list[list[str]]) -> str | None:
    """Output of a command that prints a path or calculates; None for any other command."""
    folder = next((line[1] for line in before if line[0] == "cd" and len(line) > 1), "")
    if words == ["pwd"] and all(line[0] == "cd" for line in before):
        return os.path.normpath(folder or os.curdir)
    if before and words[0] == "wc" and before[0][0] == "echo":
        return _count_entries(before, words)
    operands = [word for word in words[1:] if not word.startswith("-")]
    if before or not operands:
        return None
    match words[0]:
        case "dirname":
            return os.path.dirname(operands[0]) or os.curdir
        case "basename":
            name = os.path.basename(operands[0])
            return name.removesuffix(operands[1]) if len(operands) > 1 else name
        case "realpath" | "readlink":
            return os.path.normpath(operands[0])
        case "echo":
            return " ".join(operands)
        case "expr":
            sums = " ".join(words[1:])
            result = evaluate(sums) if _ARITHMETIC.fullmatch(sums) else None
            return None if result is None else str(result)
    return None


def _count_entries(before: list[list[str]], words: list[str]) -> str | None:
    """Number of entries in `echo 0,1 | tr , '\\n' | wc -l`, which scripts use to count CUDA_VISIBLE_DEVICES."""
    split = [line for line in before if line[0] == "tr"]
    if words[1:] != ["-l"] or len(before) != 1 + len(split) or [line[1:2] for line in split] != [[","]]:
        return None
    entries = " ".join(before[0][1:])
    return None if "$" in entries or not entries else str(entries.count(",") + 1)


# Integer arithmetic such as `$((8 * 2))`, and substring removal such as `${name%.*}`.

_MAX_VALUE = 1 << 63
"""Limit of 64-bit integers, with which shells calculate."""
_MAX_REPLACEMENT = 10_000
"""Longest replacement text."""


def evaluate(text: str) -> int | None:
    """Evaluate a short integer expression; None if it is invalid."""
    try:
        return _evaluate_node(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _evaluate_node(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate_node(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _evaluate_node(node.left), _evaluate_node(node.right)
        if abs(result := _OPERATORS[type(node.op)](left, right)) < _MAX_VALUE:
            return result
    raise ValueError("no sum of whole numbers")


def _quotient(left: int, right: int) -> int:
    """Integer division as in a shell: rounded toward zero, while Python's `//` rounds down."""
    return left // right if (left < 0) == (right < 0) else -(-left // right)


def _remainder(left: int, right: int) -> int:
    return left - _quotient(left, right) * right


# Without `**` and shifts: their results could have any length.
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
    ast.Mod: _remainder,
}


def trim(value: str, operation: str) -> str | None:
    """Apply `${name%.*}` and similar operations; None if the pattern has more than one `*` at its end.

    `operation`: everything after the name.
    """
    sign = operation[0]
    pattern = operation.lstrip(sign)
    is_greedy = len(operation) - len(pattern) > 1
    text = pattern.strip("*")
    if sign == "/":
        search, _, replacement = pattern.partition("/")
        if (
            not search
            or any(char in _WILDCARDS for char in search)
            or value.count(search) * len(replacement) > _MAX_REPLACEMENT
        ):
            return None
        return value.replace(search, replacement, -is_greedy or 1)
    if not text or any(char in _WILDCARDS for char in text) or len(pattern) - len(text) > 1:
        return None
    if sign == "#":
        if pattern == text:
            return value.removeprefix(text)
        at = value.rfind(text) if is_greedy else value.find(text)
        return value if at < 0 or pattern[0] != "*" else value[at + len(text) :]
    if pattern == text:
        return value.removesuffix(text)
    at = value.find(text) if is_greedy else value.rfind(text)
    return value if at < 0 or pattern[-1] != "*" else value[:at]


_WILDCARDS = "*?[]\\$"
