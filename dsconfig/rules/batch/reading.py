"""The three batch keys as a config gives them, and the ranks that the batch is shared out to."""

from __future__ import annotations

from dsconfig.batch import triplet
from dsconfig.batch.triplet import STEPS
from dsconfig.batch.world_sizes import described, working_sizes
from dsconfig.evaluation.context import MISSING, Context, SkipRule
from dsconfig.json_types import Json


def written(ctx: Context) -> tuple[Json, Json, Json]:
    """The three values as written, None where a key is absent or null.

    Raises:
        SkipRule: the elastic solver takes the three over, or the consumer fills one of them.
    """
    if ctx.elastic:
        raise SkipRule
    if ctx.key("elasticity") is not None and ctx.on("elasticity.enabled"):
        raise SkipRule
    if ctx.consumer == "lightning" and not _known_to_lightning(ctx):
        raise SkipRule  # it writes the accumulation steps, and the micro batch where there is none
    values = []
    for key in triplet.KEYS:
        if ctx.written(key) is not MISSING:
            ctx.value(key)  # raises where the consumer fills it
        value = ctx.written(key)
        values.append(None if value is MISSING else value)
    if ctx.written(STEPS) is MISSING and ctx.plugged:
        values[2] = 1  # put there by accelerate's DeepSpeedPlugin.__post_init__, for the Trainer too
    return values[0], values[1], values[2]


def _known_to_lightning(ctx: Context) -> bool:
    """Whether the job says the accumulation steps, and the config enough of the rest."""
    steps = ctx.job is not None and STEPS in ctx.job.added
    return steps and any(ctx.written(key) is not MISSING for key in triplet.KEYS if key != STEPS)


def data_parallel_size(ctx: Context) -> float | None:
    """The world size that the triplet must match; None where the number of ranks is not known.

    Raises:
        SkipRule: `sequence_parallel_size` cannot be divided by, which is a finding of its own.
    """
    if ctx.world_size is None:
        return None
    size = ctx.written("sequence_parallel_size")
    ctx.depends_on("0.17.0", "0.19.3")
    try:
        found = triplet.world_size(
            ctx.world_size, triplet.ABSENT if size is MISSING else size, ctx.release, from_file=ctx.from_file
        )
    except (TypeError, ZeroDivisionError):
        raise SkipRule from None
    if not found > 0:
        raise SkipRule
    return found


def sizes(context: Context) -> tuple[int, ...] | None:
    """The world sizes at which the triplet works; None where all do, or that cannot be said."""
    if context.elastic:
        from dsconfig.rules.elasticity.plan import sizes as planned

        return planned(context)
    try:
        return working_sizes(*written(context)) or None
    except SkipRule:
        return None


def in_words(found: tuple[int, ...] | None) -> str | None:
    """The world sizes as a note says them."""
    return described(found)
