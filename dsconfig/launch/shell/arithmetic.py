"""Integer arithmetic of shells: `$((8 * N))`, `((i++))`, `let M=N/4`, and indices of arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from dsconfig.core.json_types import NamedTuple

MAX_EXPRESSION = 400
"""Longest expression that is evaluated."""
_MAX_VALUE = 1 << 63
"""Limit of 64-bit integers, with which shells calculate."""
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
"""Function from the name of a variable to its value; None if unknown."""
Assign = Callable[[str, "int | None"], object]
"""Function that sets a variable; None: to an unknown value."""


class _UnknownError(Exception):
    """The expression is invalid, or depends on an unknown value."""


class _Token(NamedTuple):
    kind: str
    text: str


def assigned_names(text: str) -> list[str]:
    """Variables that an expression changes."""
    return [first or second for first, second in _ASSIGNED_NAME.findall(text)]


def evaluate(text: str, lookup: Lookup = lambda _: None, assign: Assign = lambda *_: None) -> int | None:
    """Evaluate an expression; None if it is invalid or depends on an unknown value."""
    if len(text) > MAX_EXPRESSION:
        return None
    try:
        return _Evaluator(text, lookup, assign).result()
    except (_UnknownError, RecursionError):
        return None


class _Evaluator:
    """Precedence climbing over the tokens of one expression."""

    def __init__(self, text: str, lookup: Lookup, assign: Assign) -> None:
        self._lookup, self._assign = lookup, assign
        self._tokens: list[_Token] = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise _UnknownError
            kind = match.lastgroup or ""
            self._tokens.append(_Token(kind, match[kind]))
            at = match.end()
        self._at = 0

    def result(self) -> int:
        value = self._comma()
        if self._at < len(self._tokens):
            raise _UnknownError
        return value

    def _peek(self) -> str:
        return self._tokens[self._at].text if self._at < len(self._tokens) else ""

    def _accept(self, *texts: str) -> str:
        token = self._peek()
        if token in texts and token:
            self._at += 1
            return token
        return ""

    def _require(self, text: str) -> None:
        if not self._accept(text):
            raise _UnknownError

    def _comma(self) -> int:
        value = self._assignment()
        while self._accept(","):
            value = self._assignment()
        return value

    def _assignment(self) -> int:
        here = self._tokens[self._at : self._at + 2]
        if len(here) == 2 and here[0].kind == "name" and here[1].text in _ASSIGNMENTS:
            name, operator = here[0].text, here[1].text
            self._at += 2
            value = self._assignment()
            if operator != "=":
                value = _calculate(operator[:-1], self._value_of(name), value)
            self._assign(name, value)
            return value
        return self._ternary()

    def _ternary(self) -> int:
        condition = self._binary(1)
        if not self._accept("?"):
            return condition
        # Both sides are evaluated: one that assigns is too rare to matter.
        first = self._assignment()
        self._require(":")
        second = self._ternary()
        return first if condition else second

    def _binary(self, least: int) -> int:
        left = self._unary()
        while (rank := _BINARY.get(self._peek(), 0)) >= least:
            operator = self._accept(self._peek())
            left = _calculate(operator, left, self._binary(rank + 1))
        return left

    def _unary(self) -> int:
        if operator := self._accept("-", "+", "!", "~"):
            value = self._unary()
            return {"-": -value, "+": value, "!": int(not value), "~": ~value}[operator]
        if step := self._accept("++", "--"):
            return self._step(self._name(), step, before=True)
        if self._accept("("):
            value = self._comma()
            self._require(")")
            return value
        if self._at >= len(self._tokens):
            raise _UnknownError
        token = self._tokens[self._at]
        if token.kind == "number":
            self._at += 1
            return _number(token.text)
        name = self._name()
        if step := self._accept("++", "--"):
            return self._step(name, step, before=False)
        return self._value_of(name)

    def _name(self) -> str:
        if self._at >= len(self._tokens) or self._tokens[self._at].kind != "name":
            raise _UnknownError
        self._at += 1
        return self._tokens[self._at - 1].text

    def _step(self, name: str, step: str, *, before: bool) -> int:
        old = self._value_of(name)
        new = old + 1 if step == "++" else old - 1
        self._assign(name, new)
        return new if before else old

    def _value_of(self, name: str) -> int:
        value = self._lookup(name)
        if value is None:
            raise _UnknownError
        return value


def _number(text: str) -> int:
    if len(text) > 20:
        raise _UnknownError
    if text[:2].lower() == "0x":
        return int(text, 16)
    try:
        return int(text, 8) if len(text) > 1 and text[0] == "0" else int(text)
    except ValueError:
        raise _UnknownError from None


def _calculate(operator: str, left: int, right: int) -> int:
    if operator in ("/", "%"):
        if not right:
            raise _UnknownError
        # Rounded toward zero, while Python's `//` rounds down.
        quotient = left // right if (left < 0) == (right < 0) else -(-left // right)
        return quotient if operator == "/" else left - quotient * right
    if operator in ("<<", ">>"):
        if not 0 <= right < 64:
            raise _UnknownError
        value = left << right if operator == "<<" else left >> right
    else:
        value = _SIMPLE[operator](left, right)
    if abs(value) >= _MAX_VALUE:
        raise _UnknownError
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
