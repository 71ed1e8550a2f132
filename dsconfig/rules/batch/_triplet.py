"""The three batch keys as a config gives them, and the ranks that the batch is shared out to."""

from __future__ import annotations

from dsconfig.core import batch_triplet
from dsconfig.core.batch_triplet import STEPS
from dsconfig.core.data_parallel import UnevenError
from dsconfig.core.data_parallel import data_parallel_size as triplet_size
from dsconfig.core.json_types import Json
from dsconfig.evaluation.context import MISSING, Context, SkipRule
from dsconfig.rules.batch.world_sizes import described, working_sizes


def written(ctx: Context) -> tuple[Json, Json, Json]:
    """The three values as written, None where a key is absent or null.

    Raises:
        SkipRule: the elastic solver takes the three over, the consumer fills one of them, or a program of the
            repository writes it.
    """
    return ctx.once(_written)


def _written(ctx: Context) -> tuple[Json, Json, Json]:
    if ctx.elastic:
        raise SkipRule
    if ctx.key("elasticity") is not None and ctx.on("elasticity.enabled"):
        raise SkipRule
    if ctx.consumer == "lightning" and not _known_to_lightning(ctx):
        raise SkipRule  # it writes the accumulation steps, and the micro batch where there is none
    values = []
    for key in batch_triplet.KEYS:
        if ctx.written(key) is not MISSING:
            ctx.value(key)  # raises where the consumer fills it
        value = ctx.written(key)
        values.append(None if value is MISSING else value)
    if ctx.written(STEPS) is MISSING and ctx.plugged:
        values[2] = 1  # put there by accelerate's DeepSpeedPlugin.__post_init__, for the Trainer too
    if any(ctx.overwrite(key) is not None for key in batch_triplet.KEYS):
        raise SkipRule
    return values[0], values[1], values[2]


def _known_to_lightning(ctx: Context) -> bool:
    """Whether the job says the accumulation steps, and the config enough of the rest."""
    steps = ctx.job is not None and STEPS in ctx.job.added
    return steps and any(ctx.written(key) is not MISSING for key in batch_triplet.KEYS if key != STEPS)


def data_parallel_size(ctx: Context) -> float | None:
    """The size that the triplet must match; None where the ranks, or what divides them, are not known.

    Raises:
        SkipRule: `sequence_parallel_size`, or a degree of the job, does not divide the ranks, which is a
            finding of its own.
    """
    parallelism = ctx.known.parallelism
    if ctx.world_size is None or parallelism.unknown is not None:
        return None
    size = ctx.written(batch_triplet.SEQUENCE)
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
    if context.elastic:
        from dsconfig.rules.elasticity.elastic_run import sizes as planned

        return planned(context)
    parallelism = context.known.parallelism
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
