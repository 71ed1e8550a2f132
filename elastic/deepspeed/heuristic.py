"""DeepSpeed's way to a batch size: scale a few bases by highly composite numbers, keep the best.

Source: `elasticity/elasticity.py`: `get_candidate_batch_sizes`, `get_best_candidates`,
`_get_compatible_gpus_v01`.  Same answers, but divisors come from prime factors.  The functions here return
what DeepSpeed returns, usable or not; `elastic.deepspeed.differences` says which answers are refused.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from elastic.constants import HCN_LIST, MOST_DIVISIONS, MOST_MICRO_BATCHES
from elastic.deepspeed.semantics import LATEST, Semantics
from elastic.divisors import maximal, minimal, sizes_of_units
from elastic.errors import ElasticityConfigError


def candidates(bases: Iterable[int], cap: float, *, keeps_to_cap: bool) -> list[int]:
    """Each base times the largest highly composite number that keeps it within `cap`, without duplicates.

    A base above the cap is left out (`keeps_to_cap`) or kept as it is.  The order is that of a set of ints.
    """
    found: list[int] = []
    for base in bases:
        if base > cap:
            if not keeps_to_cap:
                found.append(base)
        elif base == cap:
            found.append(base)
        else:
            found.append(HCN_LIST[bisect_right(HCN_LIST, cap // base) - 1] * base)
    return list(set(found))


def best_candidate(
    batches: Sequence[int], micro_batches: Sequence[int], low: float, high: float, prefer_larger: bool
) -> tuple[int, list[int] | None]:
    """The batch with most world sizes in `low..high` ranks, ties by size; `None` where none has any."""
    require_solvable(batches, micro_batches, high)
    if prefer_larger:
        # A multiple runs wherever its divisor runs, and is larger.
        batches = maximal(batches)
    best: list[int] | None = None
    count, final = 0, min(micro_batches)
    units = minimal(micro_batches)
    for batch in batches:
        sizes = sizes_of_units(batch, units, low, high)
        wins_tie = batch > final if prefer_larger else batch < final
        if len(sizes) > count or (len(sizes) == count and wins_tie):
            count, best, final = len(sizes), sizes, batch
    return int(final), best


def compatible_v01(
    micro_batches: Sequence[int],
    cap: float,
    min_gpus: float | None,
    max_gpus: float | None,
    prefer_larger: bool,
    semantics: Semantics = LATEST,
) -> tuple[int, list[int] | None]:
    """Batch size and world sizes of v0.1; raises the release's error where a micro batch exceeds `cap`."""
    low = min_gpus or 1
    high = max_gpus or cap // min(micro_batches)
    require_number(cap)
    for micro_batch in micro_batches:
        if not micro_batch <= cap:
            raise semantics.small_cap_error(
                f"micro batch {micro_batch} is larger than the batch it is part of: `max_train_batch_size` "
                f"allows {cap} samples (a node's share, in v0.2); raise it or drop that micro batch"
            )
    # numpy's lcm, which DeepSpeed calls, takes neither an empty list nor one of booleans alone.
    if all(isinstance(micro_batch, bool) for micro_batch in micro_batches):
        raise TypeError(f"`micro_batch_sizes` must hold at least one integer: {micro_batches!r}")
    bases = [*micro_batches, _common_multiple(micro_batches, cap if semantics.keeps_to_cap else math.inf)]
    found = candidates(bases, cap, keeps_to_cap=semantics.keeps_to_cap)
    return best_candidate(found, micro_batches, low, high, prefer_larger)


def _common_multiple(numbers: Sequence[int], most: float) -> int:
    """The least common multiple of all, or of the first of them where it is beyond `most` already."""
    if not all(isinstance(number, int) for number in numbers):
        return math.lcm(*numbers)  # which says what it does not take
    least = 1
    for number in numbers:
        least = math.lcm(least, number)
        if least > most:
            break
    return least


def require_solvable(batches: Sequence[int], micro_batches: Sequence[int], high: float) -> None:
    """Raise an `ElasticityConfigError` where the search would take longer than anybody waits."""
    # The candidates are the micro batches, scaled, and their least common multiple.
    number = max(len(set(batches)) - 1, len(set(micro_batches)))
    if number > MOST_MICRO_BATCHES:
        raise ElasticityConfigError(
            f"`micro_batch_sizes` holds {number} sizes, more than {MOST_MICRO_BATCHES}: give fewer"
        )
    if high > MOST_DIVISIONS and any(batch > MOST_DIVISIONS**2 for batch in batches):
        raise ElasticityConfigError(
            f"a batch above {MOST_DIVISIONS**2} cannot be searched for more than {MOST_DIVISIONS} world "
            "sizes: give a smaller `max_train_batch_size` or `max_gpus`"
        )


def require_number(cap: object) -> None:
    """Raise a `TypeError` that names the key where DeepSpeed's arithmetic would raise a bare one."""
    if cap is None or isinstance(cap, (str, bytes, list, dict)):
        raise TypeError(f"`max_train_batch_size` must be a number, not {cap!r}")


def largest_micro_batch(batch: int, ranks: int, micro_batches: Iterable[int]) -> int | None:
    """The largest micro batch that divides the whole part of a rank's share, as DeepSpeed looks for it."""
    share = batch // ranks
    fitting = [micro_batch for micro_batch in micro_batches if share % micro_batch == 0]
    return int(max(fitting)) if fitting else None
