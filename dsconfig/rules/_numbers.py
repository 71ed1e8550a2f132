"""Numbers in a config, and how messages write them."""

from __future__ import annotations

from typing import TypeGuard


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number in JSON; to Python, true and false are numbers too."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_number(value: object) -> float | None:
    """The value, where it is a number."""
    return value if is_number(value) else None


def is_integer(value: object) -> TypeGuard[int]:
    """Whether it is an integer in JSON; to Python, true and false are integers too."""
    return isinstance(value, int) and not isinstance(value, bool)


def spelled(value: object) -> int | None:
    """The integer that a string spells in decimal digits, where it is one that somebody may have meant."""
    if not isinstance(value, str) or not (digits := value.strip()).isdecimal() or len(value) > _LONGEST:
        return None
    return int(digits)  # which itself takes fewer characters for space than `strip`


_LONGEST = 20
"""Characters of the longest string that is read as a number: Python refuses to convert some thousands."""


def division(number: int, divisor: int) -> str:
    """A division with its remainder: `12 = 1 × 8 + 4`."""
    return f"{number} = {number // divisor} × {divisor} + {number % divisor}"


def rounded(count: int) -> int:
    """A number of elements as people write it: no larger, of two digits and zeros."""
    return count // _unit(count) * _unit(count)


def rounded_up(count: int) -> int:
    """The next larger number of two digits and zeros."""
    return (count // _unit(count) + 1) * _unit(count)


def _unit(count: int) -> int:
    return int(10 ** max(0, len(str(count)) - 2))
