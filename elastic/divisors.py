"""Divisors of integers, which determine the world sizes of a batch.

A batch `b` runs on `w` ranks with micro batch `m` if and only if `m * w` divides `b`.  So the world sizes of a batch
are the divisors of its quotients `b // m`, which are enumerated from prime factors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def prime_powers(number: int, limit: float) -> list[tuple[int, int]]:
    """Return the primes up to `limit` that divide `number` (>= 1), in ascending order, with their exponents.

    Costs at most `min(sqrt(number), limit)` trial divisions: larger primes cannot divide a divisor up to `limit`.
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
    # The rest is 1, a prime, or (after stopping at the limit) a product of primes above the limit.
    if 1 < number <= limit:
        powers.append((number, 1))
    return powers


def divisors_up_to(number: int, limit: float) -> list[int]:
    """Return all divisors of `number` (>= 1) up to `limit`, in ascending order."""
    if limit < 1:
        return []
    limit = min(number, limit)
    divisors = [1]
    for prime, exponent in prime_powers(number, limit):
        layer = divisors
        bound = limit // prime
        for _ in range(exponent):
            layer = [divisor * prime for divisor in layer if divisor <= bound]
            divisors = divisors + layer
        # The list consists of a few ascending runs, which timsort merges in linear time.
        divisors.sort()
    return divisors


def drop_divisors(numbers: Iterable[int]) -> list[int]:
    """Return the positive `numbers` that do not divide any other of them, whose divisors include all the rest."""
    distinct = set(numbers)
    result: list[int] = []
    for number in sorted(distinct, reverse=True):
        ratio = result[0] // number if result else 1
        if ratio <= len(result):
            divides = any(multiple in distinct for multiple in range(2 * number, ratio * number + 1, number))
        else:
            divides = _divides_any(number, result)
        if not divides:
            result.append(number)
    return result


def _divides_any(number: int, descending: Iterable[int]) -> bool:
    """Return whether `number` divides any of the larger numbers `descending`, sorted in descending order."""
    for larger in descending:
        if not larger % number:
            return True
        if larger < 2 * number:
            return False
    return False


def drop_multiples(numbers: Iterable[int]) -> list[int]:
    """Return the positive `numbers` that are not multiples of any other of them, in ascending order."""
    ascending = sorted(set(numbers))
    distinct, multiples = set(ascending), set[int]()
    result: list[int] = []
    small: list[int] = []
    """Numbers with too many multiples to list; larger numbers are divided by each of them instead."""
    for number in ascending:
        if number in multiples or any(not number % smaller for smaller in small):
            continue
        result.append(number)
        if ascending[-1] // number <= len(ascending):
            multiples.update(distinct.intersection(range(2 * number, ascending[-1] + 1, number)))
        else:
            small.append(number)
    return result


def world_sizes(batch: int, micro_batches: Sequence[int], low: float, high: float) -> list[int]:
    """Return, in ascending order, the world sizes in `low..high` for which `batch` splits into whole micro batches."""
    return world_sizes_of_units(batch, drop_multiples(micro_batches), low, high)


def world_sizes_of_units(batch: int, units: Iterable[int], low: float, high: float) -> list[int]:
    """Return the world sizes of `batch` for micro batches `units`, none of which is a multiple of another."""
    quotients = drop_divisors([batch // unit for unit in units if not batch % unit])
    if not quotients:
        return []
    sizes = divisors_up_to(math.lcm(*quotients), high)
    if len(quotients) > 1:
        sizes = _sizes_dividing_any(sizes, quotients)
    return sizes if low <= 1 else [size for size in sizes if size >= low]


def _sizes_dividing_any(sizes: list[int], quotients: Iterable[int]) -> list[int]:
    """Return the sizes that divide at least one of the quotients, in ascending order."""
    result: list[int] = []
    for quotient in quotients:
        result += [size for size in sizes if not quotient % size]
        sizes = [size for size in sizes if quotient % size]
    result.sort()
    return result
