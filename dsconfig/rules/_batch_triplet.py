"""Batch triplet of a config: its keys, the data-parallel size, and the world sizes at which it works."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from dsconfig.core import batch_triplet
from dsconfig.core.batch_triplet import STEPS, Failure, Impossible, UnevenError, derive
from dsconfig.core.batch_triplet import data_parallel_size as triplet_size
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.evaluation.context import MISSING, Context, SkipRule

if TYPE_CHECKING:
    from fractions import Fraction


# The three batch keys as a config gives them, and the ranks that the batch is shared out to.


def written(ctx: Context) -> tuple[Json, Json, Json]:
    """The three values as written, None where a key is absent or null.

    Raises:
        SkipRule: the elastic solver takes the three over, the consumer fills one of them, or a program of the
            repository writes it.
    """
    return ctx.cached(_written)


def _written(ctx: Context) -> tuple[Json, Json, Json]:
    if ctx.is_elastic:
        raise SkipRule
    if ctx.key("elasticity") is not None and ctx.is_on("elasticity.enabled"):
        raise SkipRule
    if ctx.consumer == "lightning" and not _known_to_lightning(ctx):
        raise SkipRule  # it writes the accumulation steps, and the micro batch where there is none
    values = []
    for key in batch_triplet.KEYS:
        if ctx.raw(key) is not MISSING:
            ctx.value(key)  # raises where the consumer fills it
        value = ctx.raw(key)
        values.append(None if value is MISSING else value)
    if ctx.raw(STEPS) is MISSING and ctx.uses_plugin:
        values[2] = 1  # put there by accelerate's DeepSpeedPlugin.__post_init__, for the Trainer too
    if any(ctx.overwrite(key) is not None for key in batch_triplet.KEYS):
        raise SkipRule
    return values[0], values[1], values[2]


def _known_to_lightning(ctx: Context) -> bool:
    """Whether the job says the accumulation steps, and the config enough of the rest."""
    steps = ctx.filled is not None and STEPS in ctx.filled.added_keys
    return steps and any(ctx.raw(key) is not MISSING for key in batch_triplet.KEYS if key != STEPS)


def data_parallel_size(ctx: Context) -> float | None:
    """The size that the triplet must match; None where the ranks, or what divides them, are not known.

    Raises:
        SkipRule: `sequence_parallel_size`, or a degree of the job, does not divide the ranks, which is a
            finding of its own.
    """
    parallelism = ctx.facts.parallelism
    if ctx.world_size is None or parallelism.unknown is not None:
        return None
    size = ctx.raw(batch_triplet.SEQUENCE)
    ctx.depends_on("0.17.0", "0.19.3")
    size = batch_triplet.ABSENT if size is MISSING else size
    try:
        found = triplet_size(ctx.world_size, parallelism, size, ctx.release, from_file=ctx.from_file)
    except (TypeError, ZeroDivisionError, UnevenError):
        raise SkipRule from None
    if not found > 0:
        raise SkipRule
    return found


def sizes(context: Context) -> tuple[int, ...] | None:
    """The world sizes at which the triplet works; None where all do, or that cannot be said."""
    if context.is_elastic:
        from dsconfig.rules.elasticity.elastic_run import sizes as planned

        return planned(context)
    parallelism = context.facts.parallelism
    if parallelism.unknown is not None:
        return None
    try:
        found = working_sizes(*written(context)) or None
    except SkipRule:
        return None
    return found and tuple(size * parallelism.divisor() for size in found)


def in_words(found: tuple[int, ...] | None) -> str | None:
    """The world sizes as a note says them."""
    return described(found)


# Why there is no batch triplet, and how its numbers are written.


class Failed(NamedTuple):
    """Written values of which no triplet can be derived."""

    why: Impossible
    values: tuple[Json, Json, Json]
    world: float | None
    """The size at which there is none; None: there is none at any."""

    @property
    def too_small(self) -> bool:
        """Whether the total is smaller than one step: of positive values, one that is not is derived."""
        return all(value is None or value > 0 for value in self.values)


def failed(ctx: Context, *failures: Failure) -> Failed | None:
    """Why there is no triplet, where it is for one of these reasons.

    Where a value of the batch contradicts the job's arguments, the consumer stops before anything is derived.
    """
    found = ctx.cached(_failed)
    return found if found is not None and found.why.failure in failures else None


def _failed(ctx: Context) -> Failed | None:
    if ctx.filled is not None and any(each.key in batch_triplet.KEYS for each in ctx.filled.mismatches):
        return None
    values = written(ctx)
    world = data_parallel_size(ctx)
    if world is None and working_sizes(*values) != ():
        return None
    outcome = batch_triplet.derive(*values, 1 if world is None else world)
    return Failed(outcome, values, world) if isinstance(outcome, Impossible) else None


def plain(number: float) -> str:
    """8.0 as 8."""
    return str(int(number)) if isinstance(number, float) and number.is_integer() else str(number)


# At which world sizes a batch triplet works, and which values are near.

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
