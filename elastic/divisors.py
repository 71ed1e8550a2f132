"""Divisors and dominance: the number theory under the solver, pure integers.

A batch `b` runs on `w` ranks with micro batch `m` exactly when `m * w` divides `b`.  So the sizes of a batch
are the divisors of its quotients `b // m`, and listing divisors from prime factors replaces counting up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def prime_powers(number: int, limit: float) -> list[tuple[int, int]]:
    """Primes up to `limit` that divide `number` (>= 1), each with its exponent, smallest first.

    Costs at most `min(sqrt(number), limit)` trial divisions: larger primes cannot be in a divisor up to
    `limit`.
    """
    powers: list[tuple[int, int]] = []
    prime, step = 2, 1
    while prime * prime <= number and prime <= limit:
        exponent = 0
        while not number % prime:
            number //= prime
            exponent += 1
        if exponent:
            powers.append((prime, exponent))
        prime += step
        step = 2
    # What is left is 1, a prime, or (stopped at the limit) made of primes above the limit.
    if 1 < number <= limit:
        powers.append((number, 1))
    return powers


def divisors_up_to(number: int, limit: float) -> list[int]:
    """All divisors of `number` (>= 1) that are at most `limit`, ascending."""
    if limit < 1:
        return []
    limit = min(number, limit)
    found = [1]
    for prime, exponent in prime_powers(number, limit):
        layer = found
        fits = limit // prime
        for _ in range(exponent):
            layer = [divisor * prime for divisor in layer if divisor <= fits]
            found = found + layer
        # Sorted after each prime, a list is a few ascending runs, which merge in linear time.
        found.sort()
    return found


def maximal(numbers: Iterable[int]) -> list[int]:
    """The positive `numbers` that divide no other of them: their divisors include those of all the rest."""
    every = set(numbers)
    kept: list[int] = []
    for number in sorted(every, reverse=True):
        most = kept[0] // number if kept else 1
        if most <= len(kept):
            divides = any(multiple in every for multiple in range(2 * number, most * number + 1, number))
        else:
            divides = _divides_any(number, kept)
        if not divides:
            kept.append(number)
    return kept


def _divides_any(number: int, descending: Iterable[int]) -> bool:
    """Whether a number is a proper divisor of one of these, the largest first."""
    for larger in descending:
        if not larger % number:
            return True
        if larger < 2 * number:
            return False
    return False


def minimal(numbers: Iterable[int]) -> list[int]:
    """The positive `numbers` that are multiples of no other of them, smallest first."""
    ascending = sorted(set(numbers))
    known, multiples = set(ascending), set[int]()
    kept: list[int] = []
    few: list[int] = []
    """Those with more multiples than there are numbers, which are divided by instead."""
    for number in ascending:
        if number in multiples or any(not number % smaller for smaller in few):
            continue
        kept.append(number)
        if ascending[-1] // number <= len(ascending):
            multiples.update(known.intersection(range(2 * number, ascending[-1] + 1, number)))
        else:
            few.append(number)
    return kept


def world_sizes(batch: int, micro_batches: Sequence[int], low: float, high: float) -> list[int]:
    """Sizes within `low..high` at which `batch` (>= 1) splits into whole micro batches, ascending."""
    return sizes_of_units(batch, minimal(micro_batches), low, high)


def sizes_of_units(batch: int, units: Iterable[int], low: float, high: float) -> list[int]:
    """The same, for micro batches of which none is a multiple of another one."""
    quotients = maximal([batch // unit for unit in units if not batch % unit])
    if not quotients:
        return []
    sizes = divisors_up_to(math.lcm(*quotients), high)
    if len(quotients) > 1:
        sizes = _dividing_any(sizes, quotients)
    return sizes if low <= 1 else [size for size in sizes if size >= low]


def _dividing_any(sizes: list[int], quotients: Iterable[int]) -> list[int]:
    """The `sizes` (ascending) that divide at least one of the quotients; one pass each over what is left."""
    found: list[int] = []
    for quotient in quotients:
        found += [size for size in sizes if not quotient % size]
        sizes = [size for size in sizes if quotient % size]
    found.sort()
    return found
