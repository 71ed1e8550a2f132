"""Evaluate shell expressions: integer arithmetic, and conditions with known operands.

Arithmetic occurs in `$((8 * N))`, `((i++))`, `let M=N/4` and array indices, conditions in `[ … ]` and `[[ … ]]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

from dsconfig.core.json_types import NamedTuple

MAX_EXPRESSION = 400
"""Maximum length of an expression that is evaluated."""
_MAX_VALUE = 1 << 63
"""Limit of the 64-bit integers with which shells calculate."""
_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|\d+)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<operator>\+\+|--|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^<>=!~?:(),]))"
)
_ASSIGNED_NAME = re.compile(
    r"([A-Za-z_]\w*)\s*(?:(?:<<|>>|[-+*/%&|^])?=(?!=)|\+\+|--)|(?:\+\+|--)\s*([A-Za-z_]\w*)"
)
_BINARY: Mapping[str, int] = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
"""Binary operators and their precedence. `**` is left out: its result could have any length."""
_ASSIGNMENTS = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^="))

Lookup = Callable[[str], "int | None"]
"""Function that returns the value of a variable by name, or None if the value is unknown."""
Assign = Callable[[str, "int | None"], object]
"""Function that sets a variable to a value, or to an unknown value with None."""


class _UnknownValueError(Exception):
    """Raised if an expression is invalid or has an unknown operand."""


class _ArithmeticToken(NamedTuple):
    kind: str
    text: str


def assigned_variables(text: str) -> list[str]:
    """Return the variables that an arithmetic expression changes."""
    return [first or second for first, second in _ASSIGNED_NAME.findall(text)]


def evaluate_arithmetic(
    text: str, lookup: Lookup = lambda _: None, assign: Assign = lambda *_: None
) -> int | None:
    """Evaluate an arithmetic expression; return None if it is invalid or has an unknown operand."""
    if len(text) > MAX_EXPRESSION:
        return None
    try:
        return _ArithmeticEvaluator(text, lookup, assign).evaluate_expression()
    except (_UnknownValueError, RecursionError):
        return None


class _ArithmeticEvaluator:
    """Evaluates one arithmetic expression by precedence climbing."""

    def __init__(self, text: str, lookup: Lookup, assign: Assign) -> None:
        self._lookup, self._assign = lookup, assign
        self._tokens: list[_ArithmeticToken] = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise _UnknownValueError
            kind = match.lastgroup or ""
            self._tokens.append(_ArithmeticToken(kind, match[kind]))
            at = match.end()
        self._at = 0

    def evaluate_expression(self) -> int:
        value = self._evaluate_comma()
        if self._at < len(self._tokens):
            raise _UnknownValueError
        return value

    def _peek_token(self) -> str:
        return self._tokens[self._at].text if self._at < len(self._tokens) else ""

    def _accept_token(self, *texts: str) -> str:
        token = self._peek_token()
        if token in texts and token:
            self._at += 1
            return token
        return ""

    def _require_token(self, text: str) -> None:
        if not self._accept_token(text):
            raise _UnknownValueError

    def _evaluate_comma(self) -> int:
        value = self._evaluate_assignment()
        while self._accept_token(","):
            value = self._evaluate_assignment()
        return value

    def _evaluate_assignment(self) -> int:
        here = self._tokens[self._at : self._at + 2]
        if len(here) == 2 and here[0].kind == "name" and here[1].text in _ASSIGNMENTS:
            name, operator = here[0].text, here[1].text
            self._at += 2
            value = self._evaluate_assignment()
            if operator != "=":
                value = _apply_operator(operator[:-1], self._variable_value(name), value)
            self._assign(name, value)
            return value
        return self._evaluate_ternary()

    def _evaluate_ternary(self) -> int:
        condition = self._evaluate_binary(1)
        if not self._accept_token("?"):
            return condition
        # Both sides are evaluated: one that assigns is too rare to matter.
        first = self._evaluate_assignment()
        self._require_token(":")
        second = self._evaluate_ternary()
        return first if condition else second

    def _evaluate_binary(self, least: int) -> int:
        left = self._evaluate_unary()
        while (rank := _BINARY.get(self._peek_token(), 0)) >= least:
            operator = self._accept_token(self._peek_token())
            left = _apply_operator(operator, left, self._evaluate_binary(rank + 1))
        return left

    def _evaluate_unary(self) -> int:
        if operator := self._accept_token("-", "+", "!", "~"):
            value = self._evaluate_unary()
            return {"-": -value, "+": value, "!": int(not value), "~": ~value}[operator]
        if step := self._accept_token("++", "--"):
            return self._increment_variable(self._evaluate_name(), step, before=True)
        if self._accept_token("("):
            value = self._evaluate_comma()
            self._require_token(")")
            return value
        if self._at >= len(self._tokens):
            raise _UnknownValueError
        token = self._tokens[self._at]
        if token.kind == "number":
            self._at += 1
            return _parse_number(token.text)
        name = self._evaluate_name()
        if step := self._accept_token("++", "--"):
            return self._increment_variable(name, step, before=False)
        return self._variable_value(name)

    def _evaluate_name(self) -> str:
        if self._at >= len(self._tokens) or self._tokens[self._at].kind != "name":
            raise _UnknownValueError
        self._at += 1
        return self._tokens[self._at - 1].text

    def _increment_variable(self, name: str, step: str, *, before: bool) -> int:
        old = self._variable_value(name)
        new = old + 1 if step == "++" else old - 1
        self._assign(name, new)
        return new if before else old

    def _variable_value(self, name: str) -> int:
        value = self._lookup(name)
        if value is None:
            raise _UnknownValueError
        return value


def _parse_number(text: str) -> int:
    if len(text) > 20:
        raise _UnknownValueError
    if text[:2].lower() == "0x":
        return int(text, 16)
    try:
        return int(text, 8) if len(text) > 1 and text[0] == "0" else int(text)
    except ValueError:
        raise _UnknownValueError from None


def _apply_operator(operator: str, left: int, right: int) -> int:
    if operator in ("/", "%"):
        if not right:
            raise _UnknownValueError
        # Rounded toward zero, while Python's `//` rounds down.
        quotient = left // right if (left < 0) == (right < 0) else -(-left // right)
        return quotient if operator == "/" else left - quotient * right
    if operator in ("<<", ">>"):
        if not 0 <= right < 64:
            raise _UnknownValueError
        value = left << right if operator == "<<" else left >> right
    else:
        value = _SIMPLE[operator](left, right)
    if abs(value) >= _MAX_VALUE:
        raise _UnknownValueError
    return value


_SIMPLE: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "&": lambda left, right: left & right,
    "|": lambda left, right: left | right,
    "^": lambda left, right: left ^ right,
    "==": lambda left, right: int(left == right),
    "!=": lambda left, right: int(left != right),
    "<": lambda left, right: int(left < right),
    ">": lambda left, right: int(left > right),
    "<=": lambda left, right: int(left <= right),
    ">=": lambda left, right: int(left >= right),
    "&&": lambda left, right: int(bool(left and right)),
    "||": lambda left, right: int(bool(left or right)),
}


_MAX_WORDS = 200


def contains_unknown_value(*texts: str) -> bool:
    """Return whether a text contains a value known only at run time."""
    return any("$" in text or "`" in text for text in texts)


def evaluate_test(words: list[str], *, is_double: bool) -> bool | None:
    """Evaluate a test of expanded words; return None if a value is unknown or there are too many words."""
    words = words if len(words) <= _MAX_WORDS else ["$"]
    for operators, absorbing in ((("||", "-o"), True), (("&&", "-a"), False)):
        at = next(
            (at for at, word in enumerate(words) if word in operators and 0 < at < len(words) - 1), None
        )
        if at is not None:
            left = evaluate_test(words[:at], is_double=is_double)
            right = evaluate_test(words[at + 1 :], is_double=is_double)
            if absorbing in (left, right):
                return absorbing
            return None if None in (left, right) else not absorbing
    if words[:1] == ["!"]:
        result = evaluate_test(words[1:], is_double=is_double)
        return None if result is None else not result
    if any(word in ("(", ")") for word in words):
        return None
    if len(words) == 1:
        return None if contains_unknown_value(words[0]) else bool(words[0])
    if len(words) == 2:
        return (
            None
            if contains_unknown_value(words[1]) or words[0] not in ("-z", "-n")
            else (words[0] == "-z") != bool(words[1])
        )
    if len(words) != 3 or contains_unknown_value(words[0], words[2]):
        return None
    left_word, operator, right_word = words
    if operator in ("=", "==", "!="):
        is_equal = fnmatchcase(left_word, right_word) if is_double else left_word == right_word
        return is_equal if operator != "!=" else not is_equal
    numbers = [evaluate_arithmetic(each) for each in (left_word, right_word)]
    if operator not in _COMPARISONS or numbers[0] is None or numbers[1] is None:
        return None
    return _COMPARISONS[operator](numbers[0], numbers[1])


_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": int.__eq__,
    "-ne": int.__ne__,
    "-lt": int.__lt__,
    "-le": int.__le__,
    "-gt": int.__gt__,
    "-ge": int.__ge__,
}
