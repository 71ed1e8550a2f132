"""At which world sizes a batch triplet works, and which values are near."""

from __future__ import annotations

from math import isqrt
from typing import Any

from dsconfig.batch.triplet import Impossible, derive

_TRIED = 1024
"""World sizes tried one by one where the values are odd (fractions, booleans) and no formula holds."""


def working_sizes(train: Any, micro: Any, steps: Any) -> tuple[int, ...] | None:
    """The world sizes, ascending, at which DeepSpeed derives a triplet; None: at every one. Empty: at
    none.
    """
    if train is None:
        works = not isinstance(derive(train, micro, steps, 1), Impossible)
        return None if works else ()
    if not all(_plain(value) for value in (train, micro, steps)):
        return tuple(size for size in range(1, _TRIED + 1) if _works(train, micro, steps, size))
    step = (1 if micro is None else micro) * (1 if steps is None else steps)
    if train <= 0 or step <= 0 or train % step:
        return ()
    quotient = train // step
    return (quotient,) if micro is not None and steps is not None else divisors(quotient)


def _plain(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def _works(train: Any, micro: Any, steps: Any, size: int) -> bool:
    return not isinstance(derive(train, micro, steps, size), Impossible)


def divisors(number: int) -> tuple[int, ...]:
    """The divisors of a positive number, ascending; beyond 10^12 only those up to 10^6 and their partners."""
    from elastic.divisors import divisors_up_to

    small = divisors_up_to(number, min(isqrt(number), 1_000_000))
    large = [number // d for d in reversed(small) if d * d != number]
    return (*small, *large)


def nearest_multiples(value: Any, step: Any) -> tuple[Any, ...]:
    """The multiples of `step` just below and above `value`, positive ones only."""
    if not isinstance(value, int | float) or not step:
        return ()
    below = value // step * step
    return tuple(number for number in (below, below + step) if number > 0)


def described(sizes: tuple[int, ...] | None) -> str | None:
    """The sizes in words, for a note under a report; None where every size works."""
    if sizes is None:
        return None
    if len(sizes) > 16:
        return f"{', '.join(map(str, sizes[:8]))}, … {sizes[-1]} ({len(sizes)} sizes)"
    return ", ".join(map(str, sizes))
