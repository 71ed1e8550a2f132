"""The batch that most world sizes share, by counting the sizes of every batch under the cap.

A batch `b` runs on `w` ranks when `b = w * k` and some micro batch divides `k`.  So each world size adds one
to the batches `w, 2w, 3w, ...` whose factor `k` is such a multiple: a sieve of cost `cap x ln(sizes)`.  It is
done in numpy where that is installed (the extra `search`) and the cap so large that its import pays.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import compress, islice

from elastic.divisors import minimal

LARGE_CAP = 10**5
"""Samples, from which on importing numpy, a tenth of a second, is quicker than counting without it."""
LARGEST_CAP, LARGEST_WITH_NUMPY = 10**7, 10**8
"""The most samples that are counted through: for some seconds, and some bytes for each."""


def has_numpy() -> bool:
    """Whether numpy is installed."""
    return find_spec("numpy") is not None


def best_batch(
    cap: int, micro_batches: Sequence[int], wanted: Sequence[int], *, larger: bool
) -> tuple[int, int] | None:
    """The batch with most of the `wanted` sizes (ascending), and how many tie; `None` where none admits any.

    Of those that tie, the largest or the smallest.
    """
    units = minimal(micro_batches)
    quick = cap > LARGE_CAP and has_numpy()
    return (with_numpy if quick else without_numpy)(cap, units, wanted, larger=larger)


def without_numpy(
    cap: int, units: Sequence[int], wanted: Sequence[int], *, larger: bool
) -> tuple[int, int] | None:
    """The same, a step for each batch and size; no unit is a multiple of another."""
    factors = _multiples(units, cap // wanted[0] if wanted else 0)
    counts = array("L", bytes(array("L").itemsize * (cap + 1)))
    for size in wanted:
        for factor in islice(factors, bisect_right(factors, cap // size)):
            counts[factor * size] += 1
    most = max(counts)
    if most == 0:
        return None
    last = cap - counts[::-1].index(most)
    return last if larger else counts.index(most), counts.count(most)


def _multiples(units: Sequence[int], most: int) -> Sequence[int]:
    """The multiples of any of the units, ascending."""
    splits = bytearray(most + 1)
    for unit in units:
        splits[unit::unit] = b"\1" * (most // unit)
    return array("L", compress(range(most + 1), splits))


def with_numpy(
    cap: int, units: Sequence[int], wanted: Sequence[int], *, larger: bool
) -> tuple[int, int] | None:
    """The same, all batches of a size at once."""
    import numpy as np

    width = np.uint16 if len(wanted) < 2**16 else np.uint32
    splits = np.zeros(cap + 1, dtype=width)
    for unit in units:
        splits[unit::unit] = 1
    counts = np.zeros(cap + 1, dtype=width)
    for size in wanted:
        if size > cap:
            break
        counts[::size] += splits[: cap // size + 1]
    most = int(counts.max(initial=0))
    if most == 0:
        return None
    best = np.flatnonzero(counts == most)
    return int(best[-1 if larger else 0]), len(best)
