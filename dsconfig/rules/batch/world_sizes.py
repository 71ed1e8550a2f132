"""At which world sizes a batch triplet works, and which values are near."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from dsconfig.core.batch_triplet import Impossible, derive
from dsconfig.core.json_types import Json

if TYPE_CHECKING:
    from fractions import Fraction

_TRIED = 1024
"""World sizes tried one by one where floats are so large, or infinite, that rounding decides."""
_EXACT = 2.0**53
"""From here on not every integer is a float."""
_NUMBERS = frozenset((int, float, bool, type(None)))
_MOST_DIGITS = 24
"""A world size of more is cut where it is shown."""


def working_sizes(train: Json, micro: Json, steps: Json) -> tuple[int, ...] | None:
    """The world sizes, ascending, at which DeepSpeed derives a triplet; None: at every one, empty: at none.

    The values are as written, None where a key is absent. A batch works only where the world size divides a
    quotient that does not depend on it, so the divisors of that quotient are the only sizes to try.
    """
    if not _NUMBERS.issuperset(map(type, (train, micro, steps))):
        return ()  # whatever the world size, the arithmetic ends in a TypeError
    return _working_sizes(train, micro, steps)


@lru_cache(maxsize=256, typed=True)
def _working_sizes(train: float | None, micro: float | None, steps: float | None) -> tuple[int, ...] | None:
    if train is None:
        works = not isinstance(derive(train, micro, steps, 1), Impossible)
        return None if works else ()
    return tuple(size for size in _candidates(train, micro, steps) if _works(train, micro, steps, size))


def _candidates(train: float, micro: float | None, steps: float | None) -> Iterable[int]:
    """World sizes among which all are at which the batch can work; `derive` has the last word on each."""
    if any(value is not None and not value > 0 for value in (train, micro, steps)):
        return ()
    given = [value for value in (train, micro, steps) if value is not None]
    if any(isinstance(value, float) for value in given) and not max(given) < _EXACT:
        return range(1, _TRIED + 1)
    if micro is not None and steps is not None:
        near = _exact(train) // (_exact(micro) * _exact(steps))
        return range(max(1, near - 1), near + 3)  # the product of floats may be off by a rounding
    if micro is not None and isinstance(train // micro, float):
        # With floats, DeepSpeed's floor division decides, which knows nothing of what was rounded away.
        quotient = train // micro
        return divisors(int(quotient)) if math.isfinite(quotient) else ()
    divisor = steps if isinstance(steps, int) else 1
    quotient, rest = divmod(_exact(train), divisor if micro is None else _exact(micro))
    return () if rest else divisors(quotient)


def _exact(value: float) -> int | Fraction:
    """The value as a number that arithmetic does not round."""
    if isinstance(value, int):
        return value
    from fractions import Fraction  # which costs 4 ms to import, and almost every batch is of integers

    return Fraction(value)


def _works(train: Json, micro: Json, steps: Json, size: int) -> bool:
    return not isinstance(derive(train, micro, steps, size), Impossible)


@lru_cache(maxsize=64)
def divisors(number: int) -> tuple[int, ...]:
    """The divisors of a number, ascending, none where it is not positive.

    Beyond 10^12 only those up to 10^6 (from 10^18 on, up to 10^4), and their partners.
    """
    from elastic.divisors import divisors_up_to

    if number < 1:
        return ()
    small = divisors_up_to(number, min(math.isqrt(number), 1_000_000 if number < 10**18 else 10_000))
    large = [number // d for d in reversed(small) if d * d != number]
    return (*small, *large)


def described(sizes: tuple[int, ...] | None) -> str | None:
    """The sizes in words, for a note under a report; None where every size works."""
    if sizes is None:
        return None
    if len(sizes) > 16:
        return f"{', '.join(map(_spelled, sizes[:8]))}, … {_spelled(sizes[-1])} ({len(sizes)} sizes)"
    return ", ".join(map(_spelled, sizes))


def _spelled(size: int) -> str:
    text = str(size)
    return text if len(text) <= _MOST_DIGITS else f"{text[:8]}… ({len(text)} digits)"
