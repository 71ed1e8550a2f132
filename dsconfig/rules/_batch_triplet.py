"""The batch triplet of a config, its data-parallel size, and the world sizes for which it is valid."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from dsconfig.core import batch_triplet
from dsconfig.core.batch_triplet import (
    STEPS,
    Failure,
    ImpossibleTriplet,
    UnevenRanksError,
    derive_batch_triplet,
)
from dsconfig.core.batch_triplet import data_parallel_size as triplet_size
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.evaluation.rule_context import MISSING, Context, SkipRule

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from fractions import Fraction


# The three batch keys of a config, and the data-parallel size.


def batch_values(ctx: Context) -> tuple[Json, Json, Json]:
    """Return the three batch values in the config, each None if absent or null.

    Raises:
        SkipRule: the elastic solver overrides all three, the consumer resolves one of them, or a program of
            the repository sets it.
    """
    return ctx.cached(_read_batch_values)


def _read_batch_values(ctx: Context) -> tuple[Json, Json, Json]:
    if ctx.is_elastic:
        raise SkipRule
    if ctx.key("elasticity") is not None and ctx.is_on("elasticity.enabled"):
        raise SkipRule
    if ctx.consumer == "lightning" and not _lightning_sets_only_steps(ctx):
        raise SkipRule  # Lightning sets the accumulation steps, and the micro batch if the config has none
    values = []
    for key in batch_triplet.KEYS:
        if ctx.raw(key) is not MISSING:
            ctx.value(key)  # raises if the consumer resolves it
        value = ctx.raw(key)
        values.append(None if value is MISSING else value)
    if ctx.raw(STEPS) is MISSING and ctx.uses_plugin:
        values[2] = 1  # set by Accelerate's DeepSpeedPlugin.__post_init__, also for the Trainer
    if any(ctx.overwrite(key) is not None for key in batch_triplet.KEYS):
        raise SkipRule
    return values[0], values[1], values[2]


def _lightning_sets_only_steps(ctx: Context) -> bool:
    """Return whether Lightning sets the accumulation steps while the config sets another batch key."""
    has_steps = ctx.filled is not None and STEPS in ctx.filled.added_keys
    return has_steps and any(ctx.raw(key) is not MISSING for key in batch_triplet.KEYS if key != STEPS)


def accumulation_steps(ctx: Context) -> Json:
    """Return the number of gradient accumulation steps, deriving it if necessary, or None if unknown.

    Raises:
        SkipRule: the elastic solver or the consumer determines the number.
    """
    train, micro, steps = batch_values(ctx)
    ranks = data_parallel_size(ctx)
    if ranks is None and train is not None and micro is not None:
        return steps
    triplet = derive_batch_triplet(train, micro, steps, ranks or 1)
    return None if isinstance(triplet, ImpossibleTriplet) else triplet.gradient_accumulation_steps


def data_parallel_size(ctx: Context) -> float | None:
    """Return the data-parallel size by which the batch is divided, or None if unknown.

    Raises:
        SkipRule: `sequence_parallel_size`, or a parallelism degree of the job, does not divide the ranks.
            Another rule reports that.
    """
    parallelism = ctx.facts.parallelism
    if ctx.world_size is None or parallelism.unknown_degree is not None:
        return None
    size = ctx.raw(batch_triplet.SEQUENCE)
    ctx.depends_on("0.17.0", "0.19.3")
    size = batch_triplet.ABSENT if size is MISSING else size
    try:
        data_parallel = triplet_size(ctx.world_size, parallelism, size, ctx.release, from_file=ctx.from_file)
    except (TypeError, ZeroDivisionError, UnevenRanksError):
        raise SkipRule from None
    if not data_parallel > 0:
        raise SkipRule
    return data_parallel


def supported_world_sizes(context: Context) -> tuple[int, ...] | None:
    """Return the world sizes for which the triplet is valid; None if it is valid anyway, or if they are unknown."""
    if context.is_elastic:
        from dsconfig.rules.consumers.elastic_run_plan import planned_gpu_counts

        return planned_gpu_counts(context)
    parallelism = context.facts.parallelism
    if parallelism.unknown_degree is not None:
        return None
    try:
        sizes = working_world_sizes(*batch_values(context)) or None
    except SkipRule:
        return None
    return sizes and tuple(size * parallelism.ranks_per_sample() for size in sizes)


# Why DeepSpeed cannot derive a batch triplet.


class DerivationFailure(NamedTuple):
    """Batch values from which DeepSpeed cannot derive a triplet, and the reason."""

    cause: ImpossibleTriplet
    values: tuple[Json, Json, Json]
    world_size: float | None
    """Data-parallel size that fails, or None if every size fails."""

    @property
    def is_total_too_small(self) -> bool:
        """Whether the total is less than one step needs, so that a derived value is not positive."""
        return all(value is None or value > 0 for value in self.values)


def derivation_failure(ctx: Context, *failures: Failure) -> DerivationFailure | None:
    """Return why DeepSpeed cannot derive the triplet, or None unless the reason is one of `failures`.

    If a batch value contradicts the job's arguments, the consumer raises before DeepSpeed derives anything.
    """
    failure = ctx.cached(_find_derivation_failure)
    return failure if failure is not None and failure.cause.failure in failures else None


def _find_derivation_failure(ctx: Context) -> DerivationFailure | None:
    if ctx.filled is not None and any(
        mismatch.key in batch_triplet.KEYS for mismatch in ctx.filled.mismatches
    ):
        return None
    values = batch_values(ctx)
    world_size = data_parallel_size(ctx)
    if world_size is None and working_world_sizes(*values) != ():
        return None
    outcome = batch_triplet.derive_batch_triplet(*values, 1 if world_size is None else world_size)
    return DerivationFailure(outcome, values, world_size) if isinstance(outcome, ImpossibleTriplet) else None


def format_number(number: float) -> str:
    """Format a number without a trailing `.0`, such as `8` for 8.0."""
    return str(int(number)) if isinstance(number, float) and number.is_integer() else str(number)


# World sizes that a batch triplet supports.

_MAX_TRIED = 1024
"""Number of world sizes to try one by one if a float is so large, or infinite, that rounding decides."""
_EXACT = 2.0**53
"""Bound up to which floats represent every integer exactly."""
_NUMBERS = frozenset((int, float, bool, type(None)))
_MAX_DIGITS = 24
"""Maximum number of digits of a world size in messages; longer ones are abbreviated."""


def working_world_sizes(train: Json, micro: Json, steps: Json) -> tuple[int, ...] | None:
    """Return, in ascending order, the world sizes for which a triplet is valid, or None if all are.

    The result is empty if no world size is valid. The values are those in the config, or None for an absent key. A
    valid world size divides a quotient that does not depend on it, so only the divisors of that quotient are tried.
    """
    if not _NUMBERS.issuperset(map(type, (train, micro, steps))):
        return ()  # the arithmetic raises a TypeError at every world size
    return _compute_working_world_sizes(train, micro, steps)


@lru_cache(maxsize=256, typed=True)
def _compute_working_world_sizes(
    train: float | None, micro: float | None, steps: float | None
) -> tuple[int, ...] | None:
    if train is None:
        works = not isinstance(derive_batch_triplet(train, micro, steps, 1), ImpossibleTriplet)
        return None if works else ()
    return tuple(
        size
        for size in _candidate_world_sizes(train, micro, steps)
        if _works_at_world_size(train, micro, steps, size)
    )


def _candidate_world_sizes(train: float, micro: float | None, steps: float | None) -> Iterable[int]:
    """Return a superset of the valid world sizes of a batch, to be tested one by one."""
    if any(value is not None and not value > 0 for value in (train, micro, steps)):
        return ()
    numbers = [value for value in (train, micro, steps) if value is not None]
    if any(isinstance(value, float) for value in numbers) and not max(numbers) < _EXACT:
        return range(1, _MAX_TRIED + 1)
    if micro is not None and steps is not None:
        near = _as_exact_number(train) // (_as_exact_number(micro) * _as_exact_number(steps))
        return range(max(1, near - 1), near + 3)  # the product of floats may be off by a rounding
    if micro is not None and isinstance(train // micro, float):
        # With floats DeepSpeed's floor division decides, which already includes the rounding error.
        quotient = train // micro
        return divisors(int(quotient)) if math.isfinite(quotient) else ()
    divisor = steps if isinstance(steps, int) else 1
    quotient, rest = divmod(_as_exact_number(train), divisor if micro is None else _as_exact_number(micro))
    return () if rest else divisors(quotient)


def _as_exact_number(value: float) -> int | Fraction:
    """Convert a number to an integer or a fraction, which compute without rounding."""
    if isinstance(value, int):
        return value
    from fractions import Fraction  # 4 ms to import, and nearly every batch uses integers

    return Fraction(value)


def _works_at_world_size(train: Json, micro: Json, steps: Json, size: int) -> bool:
    return not isinstance(derive_batch_triplet(train, micro, steps, size), ImpossibleTriplet)


@lru_cache(maxsize=64)
def divisors(number: int) -> tuple[int, ...]:
    """Return the divisors of a number in ascending order; empty unless the number is positive.

    For a number above 10^12, only the divisors up to 10^6 (10^4 for numbers above 10^18) and their cofactors are found.
    """
    from elastic.divisors import divisors_up_to

    if number < 1:
        return ()
    small = divisors_up_to(number, min(math.isqrt(number), 1_000_000 if number < 10**18 else 10_000))
    large = [number // d for d in reversed(small) if d * d != number]
    return (*small, *large)


def format_world_sizes(sizes: tuple[int, ...] | None) -> str | None:
    """Format world sizes for a note in a report; return None if every size is valid."""
    if sizes is None:
        return None
    if len(sizes) > 16:
        return f"{', '.join(map(_format_size, sizes[:8]))}, … {_format_size(sizes[-1])} ({len(sizes)} sizes)"
    return ", ".join(map(_format_size, sizes))


def _format_size(size: int) -> str:
    text = str(size)
    return text if len(text) <= _MAX_DIGITS else f"{text[:8]}… ({len(text)} digits)"
