"""Type guards for JSON numbers, and number formats for messages."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import TypeGuard


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a JSON number; in Python, booleans are numbers too."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_number(value: object) -> float | None:
    """Return the value if it is a number, else None."""
    return value if is_number(value) else None


def is_integer(value: object) -> TypeGuard[int]:
    """Whether it is a JSON integer; in Python, booleans are integers too."""
    return isinstance(value, int) and not isinstance(value, bool)


def parse_integer(value: object) -> int | None:
    """Parse a string of decimal digits of plausible length; None for anything else."""
    if not isinstance(value, str) or not (digits := value.strip()).isdecimal() or len(value) > _LONGEST:
        return None
    return int(digits)  # `int` itself strips fewer kinds of whitespace than `strip`


_LONGEST = 20
"""Maximum length: Python raises on strings of more than 4,300 digits."""


def format_division(number: int, divisor: int) -> str:
    """Format a division with remainder: `12 = 1 × 8 + 4`."""
    return f"{number} = {number // divisor} × {divisor} + {number % divisor}"


def round_down(count: int) -> int:
    """Round down to two significant digits."""
    return count // _rounding_unit(count) * _rounding_unit(count)


def round_up(count: int) -> int:
    """Round up to two significant digits."""
    return (count // _rounding_unit(count) + 1) * _rounding_unit(count)


def _rounding_unit(count: int) -> int:
    return int(10 ** max(0, len(str(count)) - 2))
