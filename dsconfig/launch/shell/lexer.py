"""Split shell text into tokens, with quotes, escapes, comments, here-documents, variables and arithmetic."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Literal

from dsconfig.core.json_types import NamedTuple
from dsconfig.launch.repository_files import ReadingBudget
from dsconfig.launch.repository_files import budget_for_text as _of_text
from dsconfig.launch.shell import expressions as shell_arithmetic

_SPACE, _OPERATORS_AND_LINE_END = " \t\r", "\n;&|()"
_NESTED = re.compile(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|(?:(?<=\s)|^)#[^\n]*|[()]", re.DOTALL)
_HEREDOC = re.compile(r"(?:\d(?=<))?<<-?[ \t]*(\\?)([\"']?)([\w.-]+)\2")
_REDIRECT = re.compile(r"(?:\d+(?=[<>]))?(<<<|>>|<>|>\||&>>?|[<>]&?)[ \t]*")
_OPERATOR = re.compile(r";;&|;;|;&|&&|\|\||\|&|[\n;&|()]")
_KEYWORDS = frozenset(("if", "elif", "while", "until", "for", "then", "else", "do", "{", "!", "time"))
"""Keywords after which a command starts."""
_MAX_DEPTH = 8
"""Maximum nesting depth of substitutions that are evaluated."""
_NAME = re.compile(r"\$(?:\d|\w+|[@*#?])")
_BRACES = re.compile(r"\\.|'[^']*'|\$\{|\}", re.DOTALL)
_PARAMETER = re.compile(
    r"\{(?P<prefix>[#!]?)(?P<name>\w+|[@*])(?:\[(?P<index>[^\]]*)\])?"
    r"(?:(?P<colon>:?)(?P<sign>[-=+?])(?P<default>.*)|:(?P<slice>[^-=+?].*)|(?P<operation>[%#/^,].*))?\}",
    re.DOTALL,
)

_MAX_UNTERMINATED = 50
"""Number of unterminated here-documents after which no further ones are searched."""
_COPIES_PER_STEP = 8
MAX_LENGTH = 10_000
"""Maximum length of a word or value that is expanded; longer ones stay as written."""
Variables = Mapping[str, tuple[str, ...]]


class ShellToken(NamedTuple):
    """A token of shell text: a word as written, an operator, a redirection, `((…))` or `[[ … ]]`."""

    kind: Literal["word", "operator", "redirect", "arithmetic", "test"]
    text: str
    offset: int
    target: str = ""
    """Target of a redirection as written."""
    body: str | None = None
    """Text of a here-document."""
    is_quoted: bool = False
    """Whether the here-document is literal because its delimiter is quoted."""
    words: tuple[str, ...] = ()
    """Words between `[[` and `]]`."""


class ShellLexer:
    """Lexer for shell text nested in `depth` substitutions; `budget` limits its steps.

    Every method raises `BudgetExceededError` if the budget is exceeded.
    """

    def __init__(self, text: str, depth: int = 0, budget: ReadingBudget | None = None) -> None:
        self.text, self._depth = text, depth
        self.budget = _of_text(len(text)) if budget is None else budget
        self.used: set[str] = set()
        """Variables and command substitutions that expansions have used."""
        self.assigned: dict[str, int | None] = {}
        """Values of variables changed by arithmetic expansions such as `$((i++))`; None if unknown."""
        self.unset_is_unknown = False
        """Whether variables without a known value may be set, so that no default applies."""
        self._unclosed: dict[str, set[str]] = {}
        """For each text, the opening brackets and quotes without a closing one, so that each is searched only once."""
        self._unterminated: set[str] = set()
        """Delimiters of unterminated here-documents."""

    def tokens(self) -> Iterator[ShellToken]:
        """Yield the tokens of the text; a here-document belongs to the token of its redirection."""
        text, at = self.text, 0
        self.budget.spend(len(text))
        line: list[ShellToken] = []  # the current line, which is held back until its here-documents are read
        waits = False
        while at < len(text):
            if text[at] in _SPACE:
                at += 1
                continue
            if text.startswith("\\\n", at) or text.startswith("\\\r\n", at):
                at = text.index("\n", at) + 1
                continue
            if text[at] == "#":
                at = self._find_line_end(at)
                continue
            token, at = self._read_token(at, line[-1] if line else None)
            waits = waits or (token.kind == "redirect" and token.body is not None)
            line.append(token)
            if token.kind == "operator" and token.text == "\n":
                if waits:
                    line, at = self._read_here_documents(line, at)
                    waits = False
                yield from line[:-1]
                line = line[-1:]
                yield line.pop()
        yield from line

    def _read_token(self, at: int, before: ShellToken | None) -> tuple[ShellToken, int]:
        """Read the token at an offset, and return it with the offset after it."""
        text = self.text
        if (match := _HEREDOC.match(text, at)) and not text.startswith("<<<", at):
            is_quoted = bool(match[1] or match[2])
            return ShellToken("redirect", "<<", at, match[3], "", is_quoted), match.end()
        if (match := _REDIRECT.match(text, at)) and not (
            match[0] in "<>" and text.startswith("(", match.end())
        ):
            end = self._find_word_end(match.end())
            return ShellToken("redirect", match[1], at, text[match.end() : end]), end
        starts_command = before is None or before.kind in ("operator", "arithmetic", "test")
        starts_command = starts_command or (before is not None and before.text in _KEYWORDS)
        if text.startswith("((", at) and starts_command:
            end = self._find_closing_bracket(text, at)
            if text[end - 2 : end] == "))" and end > at + 2:
                return ShellToken("arithmetic", text[at + 2 : end - 2], at), end
        if match := _OPERATOR.match(text, at):
            return ShellToken("operator", match[0], at), match.end()
        end = max(self._find_word_end(at), at + 1)
        word = text[at:end]
        if word == "[[" and starts_command:
            return self._read_bracket_test(at, end)
        return ShellToken("word", word, at), end

    def _read_bracket_test(self, start: int, at: int) -> tuple[ShellToken, int]:
        """Read a `[[ … ]]` token, in which brackets and `<` are words; an unclosed one ends with the line."""
        text, words = self.text, list[str]()
        while at < len(text):
            if text[at] in _SPACE:
                at += 1
            elif text.startswith("\\\n", at):
                at += 2
            elif text[at] == "\n":
                if words and words[-1] not in ("&&", "||"):
                    break
                at += 1
            elif match := re.compile(r"&&|\|\||[()<>]").match(text, at):
                words.append(match[0])
                at = match.end()
            else:
                end = max(self._find_word_end(at), at + 1)
                words.append(text[at:end])
                at = end
                if words[-1] == "]]":
                    words.pop()
                    break
        return ShellToken("test", "[[", start, words=tuple(words)), at

    def _read_here_documents(self, line: list[ShellToken], at: int) -> tuple[list[ShellToken], int]:
        """Read the tokens of a line with their here-documents, and return them with the offset after them."""
        tokens = []
        for token in line:
            if token.kind == "redirect" and token.body is not None:
                body, at = self._read_here_document(at, token.target)
                tokens.append(token._replace(body=body))
            else:
                tokens.append(token)
        return tokens, at

    def split_simple_commands(self) -> Iterator[list[str]]:
        """Yield the words of each simple command as written, split at every operator."""
        words: list[str] = []
        for token in self.tokens():
            if token.kind == "word":
                words.append(token.text)
            elif token.kind == "operator":
                if words:
                    yield words
                words = []
        if words:
            yield words

    def _read_here_document(self, at: int, end: str) -> tuple[str, int]:
        """Return the text of a here-document, and the offset of its end."""
        if end in self._unterminated or len(self._unterminated) > _MAX_UNTERMINATED:
            return "", at
        if self.text.find(end, at) < 0:
            self._unterminated.add(end)
            return "", at
        match = re.compile(rf"^[ \t]*{re.escape(end)}[ \t\r]*$", re.MULTILINE).search(self.text, at)
        self._charge_characters((match.end() if match else len(self.text)) - at)
        if match is None:
            self._unterminated.add(end)
            return "", at
        return self.text[at : match.start()], match.end()

    def _find_line_end(self, at: int) -> int:
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end

    def _find_word_end(self, at: int, text: str | None = None) -> int:
        """Return the offset after the word that starts at an offset."""
        text = self.text if text is None else text
        while at < len(text):
            char = text[at]
            if char == "(" and at and text[at - 1] in "=<>":  # an array, or `<(command)`
                at = self._find_closing_bracket(text, at)
            elif char in "<>" and text.startswith("(", at + 1):
                at += 1
            elif (
                char in _SPACE
                or char in _OPERATORS_AND_LINE_END
                or char in "<>"
                or text.startswith("\\\n", at)
            ):
                break
            else:
                at = self._find_part_end(text, at)
        return at

    def _find_part_end(self, text: str, at: int) -> int:
        """Return the offset after the quoted text, substitution or single character that starts at an offset."""
        char = text[at]
        end = at + 1
        if char == "\\":
            return min(at + 2, len(text))
        if char == "'":
            return self._find_closing_mark(text, "'", at + 1)
        if char == '"':
            while end < len(text) and text[end] != '"':
                end = self._find_part_end(text, end) if text[end] in "\\$`" else end + 1
            return min(end + 1, len(text))
        if char == "`":
            return self._find_closing_mark(text, "`", at + 1)
        if text.startswith("$(", at):
            return self._find_closing_bracket(text, at + 1)
        if text.startswith("$'", at):
            return self._find_closing_mark(text, "'", at + 2)
        if text.startswith('$"', at):
            return self._find_part_end(text, at + 1)
        if text.startswith("$[", at):
            return self._find_closing_mark(text, "]", at + 2)
        if text.startswith("${", at):
            return self._find_closing_bracket(text, at, _BRACES, "${", "}")
        match = _NAME.match(text, at)
        return match.end() if match else at + 1

    def _find_closing_mark(self, text: str, mark: str, at: int) -> int:
        """Return the offset after the closing mark, or after the opening one if it is never closed."""
        if mark in self._unclosed.get(text, ()):
            return at
        end = text.find(mark, at)
        self._charge_characters((len(text) if end < 0 else end) - at)
        if end < 0:
            self._unclosed.setdefault(text, set()).add(mark)
            return at
        return end + 1

    def _charge_characters(self, count: int) -> None:
        """Charge the budget for characters processed by `re` or `str`, which is faster than a Python loop."""
        self.budget.spend(count // _COPIES_PER_STEP + 1)

    def _find_closing_bracket(
        self, text: str, at: int, marks: re.Pattern[str] = _NESTED, opens: str = "(", closes: str = ")"
    ) -> int:
        """Return the offset after the bracket that closes the one at an offset."""
        if opens in self._unclosed.get(text, ()):
            return at + len(opens)
        depth, last = 0, at
        for match in marks.finditer(text, at):
            self._charge_characters(match.end() - last)
            last = match.end()
            depth += {opens: 1, closes: -1}.get(match[0], 0)
            if not depth:
                return last
        self._unclosed.setdefault(text, set()).add(opens)
        return at + len(opens)

    # Expansion of words
    # ----------------------------------------------------------------------------------------------

    def expand_word(self, raw: str, variables: Variables, *, split: bool = True) -> list[str]:
        """Expand a word into words; parts that are unknown or too long stay as written."""
        if len(raw) > MAX_LENGTH:
            return [raw]
        self.budget.spend(len(raw))
        fields: list[str] = [""]
        has_quotes = False
        at = size = 0
        while at < len(raw):
            end = self._find_part_end(raw, at)
            part, at = raw[at:end], end
            literal = part.removeprefix("$") if part[:2] in ("$'", '$"') else part
            if literal[0] == "'" and len(literal) > 1:
                fields[-1] += literal[1:-1]
                has_quotes = True
            elif literal[0] == '"' and len(literal) > 1:
                quoted_fields = self._expand_quoted(literal[1:-1], variables)
                size += _total_length(quoted_fields)
                fields[-1:] = (
                    [fields[-1] + quoted_fields[0], *quoted_fields[1:]] if quoted_fields else fields[-1:]
                )
                has_quotes = has_quotes or bool(quoted_fields)
            elif part[0] == "\\" and len(part) > 1:
                fields[-1] += "" if part[1] == "\n" else part[1]
            elif part[0] in "$`":
                values = self._expand_part(part, variables)
                size += _total_length(values)
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
        """Expand text inside double quotes or a here-document."""
        self.used.clear()
        return body if len(body) > MAX_LENGTH else " ".join(self._expand_quoted(body, variables))

    def _expand_quoted(self, body: str, variables: Variables) -> list[str]:
        """Expand text inside double quotes into one word, or for an array, into several."""
        self.budget.spend(len(body))
        fields, at, size = [""], 0, 0
        while at < len(body):
            end = self._find_part_end(body, at) if body[at] in "\\$`" else at + 1
            part, at = body[at:end], end
            if part[0] == "\\" and len(part) > 1:
                fields[-1] += part[1] if part[1] in '"\\$`' else "" if part[1] == "\n" else part
            elif part[0] in "$`":
                values = self._expand_part(part, variables)
                if not values and not fields[0] and at == len(body):
                    return []
                fields[-1:] = [fields[-1] + value for value in values[:1]] or fields[-1:]
                fields += values[1:]
                size += _total_length(values)
                if size > MAX_LENGTH:
                    return [body]
            else:
                fields[-1] += part
        return fields

    def _expand_part(self, part: str, variables: Variables) -> list[str]:
        """Return the value of a variable or substitution, or the part as written if the value is unknown."""
        values = self._expand_dollar_expression(part, variables)
        self._charge_characters(_total_length(values))
        return values

    def _expand_dollar_expression(self, part: str, variables: Variables) -> list[str]:
        if part[0] == "`" or part.startswith(("$(", "$[")):
            return [self._expand_substitution(part, variables)]
        if part.startswith("${"):
            return self._expand_parameter(part, variables)
        name = part[1:]
        if name in ("@", "*"):
            return list(variables.get("@", (part,)))
        if (values := self._words_of_variable(name, variables)) is not None:
            return list(values[:1])
        # The script's directory is unknown; `.` keeps `$PWD/ds.json` relative.
        return ["."] if name == "PWD" else [part]

    def _words_of_variable(self, name: str, variables: Variables) -> tuple[str, ...] | None:
        """Return the words of a variable or positional argument, or None if it is unset."""
        if name.isdecimal() and name != "0" and (arguments := variables.get("@")) is not None:
            return arguments[int(name) - 1 : int(name)] if len(name) < _MAX_DIGITS else ()
        self.used.add(name)
        return variables.get(name)

    def _expand_parameter(self, part: str, variables: Variables) -> list[str]:
        """Return the value of `${...}`: a variable, a default, array elements, a length or a slice."""
        match = _PARAMETER.fullmatch(part[1:])
        if match is None:
            return list(variables.get("#", (part,))) if part == "${#}" else [part]
        prefix, name, index = match["prefix"], match["name"], match["index"]
        if name in ("@", "*"):
            index, name = name, "@"
        values = self._array_elements(name, index, variables)
        if prefix == "!":
            return self._expand_indirect(part, name, index, values, variables)
        if match["sign"] is not None:
            return self._expand_default(part, match, values, variables)
        if values is None:
            return ["."] if name == "PWD" and not index else [part]
        if match["slice"] is not None:
            values = self._expand_slice(values, match["slice"], variables, is_array=index in ("@", "*"))
            return [part] if values is None else list(values)
        if prefix == "#":
            if index in ("@", "*"):
                return [str(len(values))]
            return [part if "$" in "".join(values) else str(len("".join(values)))]
        if match["operation"] is None:
            return list(values if index in ("@", "*") else values[:1])
        if any("$" in value or "`" in value for value in values):
            return [part]
        changed = [remove_pattern(value, match["operation"]) for value in values]
        return [part] if None in changed else [value for value in changed if value is not None]

    def _array_elements(self, name: str, index: str | None, variables: Variables) -> tuple[str, ...] | None:
        """Return the values of `name[index]`, or None if the variable is unset or the index is unknown."""
        keys = variables.get(f"{name}[]")
        if keys is None:
            values = variables.get("@") if name == "@" else self._words_of_variable(name, variables)
        else:
            self.used.add(name)
            values = tuple(value for key in keys for value in variables.get(f"{name}[{key}]", ()))
        if values is None or index in ("@", "*"):
            return values
        if keys is not None:
            key = "".join(self.expand_word(index or "0", variables, split=False))
            return None if "$" in key else variables.get(f"{name}[{key}]", ())
        if index is None:
            return values[:1]
        at = self.evaluate_arithmetic(index, variables)
        if at is None:
            return None
        at = at + len(values) if at < 0 else at
        return values[at : at + 1] if at >= 0 else ()

    def _expand_indirect(
        self, part: str, name: str, index: str | None, values: tuple[str, ...] | None, variables: Variables
    ) -> list[str]:
        """Return the value of `${!name}`, or the keys of an array for `${!name[@]}`."""
        if index in ("@", "*"):
            keys = variables.get(f"{name}[]")
            return list(keys) if keys is not None else [str(at) for at in range(len(values or ()))]
        if not values or not values[0].isidentifier():
            return [part]
        return list((self._words_of_variable(values[0], variables) or (part,))[:1])

    def _expand_default(
        self, part: str, match: re.Match[str], values: tuple[str, ...] | None, variables: Variables
    ) -> list[str]:
        """Return the value of `${name:-default}`, `${name:+alternative}` or `${name:?message}`."""
        is_set = values is not None and (any(values) or (not match["colon"] and bool(values)))
        if match["sign"] == "+":
            is_set = not is_set
        if is_set and match["sign"] == "+":
            return []
        if is_set and values is not None:
            return list(values)
        if match["sign"] == "?" or self._depth >= _MAX_DEPTH or (values is None and self.unset_is_unknown):
            return [part]
        self._depth += 1
        default = self.expand_word(match["default"], variables, split=False) or [""]
        self._depth -= 1
        return default

    def _expand_slice(
        self, values: tuple[str, ...], bounds: str, variables: Variables, *, is_array: bool
    ) -> tuple[str, ...] | None:
        """Return the elements or characters of `${name:first:count}`, or None if the bounds are unknown."""
        first_text, colon, count_text = bounds.partition(":")
        first, count = (
            self.evaluate_arithmetic(first_text, variables),
            self.evaluate_arithmetic(count_text or "0", variables),
        )
        if first is None or count is None or first < 0 or count < 0:
            return None
        end = first + count if colon else None
        if is_array:
            return values[first:end]
        text = "".join(values[:1])
        return None if "$" in text or "`" in text else (text[first:end],)

    def _expand_substitution(self, part: str, variables: Variables) -> str:
        """Return the value of an arithmetic expression or command substitution, or `part` as written if unknown."""
        if part in variables:
            return variables[part][0]
        if self._depth >= _MAX_DEPTH:
            return part
        self._depth += 1
        if part.startswith(("$((", "$[")):
            number = self.evaluate_arithmetic(part[2:-1] if part[1] == "[" else part[3:-2], variables)
            result = None if number is None else str(number)
        else:
            result = self._command_output(part, variables)
        self._depth -= 1
        if result is None or "$" in result:
            if not part.startswith(("$((", "$[")):
                self.used.add(part)
            return part
        return result

    def _command_output(self, part: str, variables: Variables) -> str | None:
        lexer = ShellLexer(part[1:-1] if part[0] == "`" else part[2:-1], self._depth, self.budget)
        lexer.used = self.used
        lines = [
            [each for word in raw for each in lexer.expand_word(word, variables)]
            for raw in lexer.split_simple_commands()
        ]
        return _command_output(lines[-1], lines[:-1]) if lines and all(lines) else None

    def evaluate_arithmetic(self, text: str, variables: Variables) -> int | None:
        """Return the value of an arithmetic expression, or None if it has an unknown operand."""

        def value(name: str) -> int | None:
            self.used.add(name)
            values = variables.get(name) or ("",)
            self._charge_characters(len(values[0]))
            # A variable may hold an expression itself, as after `N=2*4`.
            return shell_arithmetic.evaluate_arithmetic(values[0])

        if not text.strip():
            return 0
        inner = " ".join(self._expand_quoted(text.replace('"', ""), variables))
        self._charge_characters(len(inner))
        return shell_arithmetic.evaluate_arithmetic(inner, value, self._record_assignment)

    def _record_assignment(self, name: str, value: int | None) -> None:
        self.assigned[name] = value


_MAX_DIGITS = 6


def _total_length(values: list[str]) -> int:
    """Return the number of characters in all words plus one per word."""
    return sum(map(len, values)) + len(values)


def _command_output(words: list[str], before: list[list[str]]) -> str | None:
    """Return the output of a command that prints a path or computes a number, or None for any other command."""
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
            result = shell_arithmetic.evaluate_arithmetic(" ".join(words[1:]))
            return None if result is None else str(result)
    return None


def _count_entries(before: list[list[str]], words: list[str]) -> str | None:
    """Evaluate `echo 0,1 | tr , '\\n' | wc -l`, with which scripts count the GPUs in CUDA_VISIBLE_DEVICES."""
    split = [line for line in before if line[0] == "tr"]
    if words[1:] != ["-l"] or len(before) != 1 + len(split) or [line[1:2] for line in split] != [[","]]:
        return None
    entries = " ".join(before[0][1:])
    return None if "$" in entries or not entries else str(entries.count(",") + 1)


_MAX_REPLACEMENT = 10_000
"""Maximum length of a replacement text."""


def remove_pattern(value: str, operation: str) -> str | None:
    """Apply an operation such as `${name%.*}`; return None if the pattern has a `*` anywhere but at its end.

    `operation` is the text between the variable's name and the closing brace.
    """
    sign = operation[0]
    if sign in "^,":
        change = str.upper if sign == "^" else str.lower
        return (
            change(value)
            if operation == sign * 2
            else change(value[:1]) + value[1:]
            if operation == sign
            else None
        )
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
