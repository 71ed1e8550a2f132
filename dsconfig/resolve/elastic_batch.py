"""The batch of an elastic config: as the release itself derives it, or in its stead from 0.19.8 on.

Source: runtime/config.py, DeepSpeedConfig.__init__ of 0.3.9 to 0.19.7; 0.19.8 refuses the block.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dsconfig.consumers import ELASTIC
from dsconfig.consumers.autofill.log import Message
from dsconfig.core.batch_triplet import KEYS, Impossible, Triplet, derive
from dsconfig.resolve.errors import ResolveError
from dsconfig.resolve.run_target import Runtime
from elastic import constants as c

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from elastic.deepspeed.semantics import Semantics
    from elastic.planning.plan import Plan

FIRST, LAST = 3009, 19007
"""The first and the last release that read the block."""


def is_on(config: Mapping[str, Json]) -> bool:
    """Whether the block is there and enabled, as DeepSpeed asks (elasticity.py, elasticity_enabled)."""
    block = config.get(c.ELASTICITY)
    return isinstance(block, Mapping) and bool(block.get(c.ENABLED, c.ENABLED_DEFAULT))


def as_released(config: JsonObject, release: str, size: float) -> tuple[Triplet, list[Message]]:
    """The triplet that a release with elasticity derives on `size` data-parallel ranks.

    Raises:
        ResolveError: the release refuses the block, the world size, or batch keys next to the block.
    """
    from elastic import as_released as solve
    from elastic import semantics_for

    semantics = semantics_for(release)
    try:
        answer = solve(config, release, size, semantics=semantics)  # type: ignore[arg-type]  # 4.0 ranks too
    except Exception as error:  # whatever a release's code runs into with odd values
        raise ResolveError(f"elasticity: {error}", _nearest(config, semantics, size)) from None
    messages = _scheduler(config[c.ELASTICITY], semantics)
    _refuse_batch_keys(config)
    micro = answer.micro_batch_size
    if not micro:
        raise ResolveError(
            f"elasticity: no micro batch fits batch {answer.batch_size} on {size:g} ranks",
            _nearest(config, semantics, size),
        )
    steps = answer.batch_size // (micro * size)
    found = derive(answer.batch_size, micro, steps, size)
    if isinstance(found, Impossible):
        raise ResolveError(
            f"elasticity: batch {answer.batch_size} ≠ {micro} × {steps:g} × {size:g} = "
            f"{micro * steps * size:g} (micro batch × accumulation steps × data-parallel ranks)",
            _nearest(config, semantics, size),
        )
    return found, messages + _overridden(config, found)


def instead(config: JsonObject, size: float, runtime: Runtime) -> tuple[JsonObject, int, list[Message]]:
    """For a release without elasticity: the config with the triplet in place of the block, and the ranks.

    The batch is that of 0.19.7, so the job goes on as it would have there. `model_parallel_size` of the block
    counts where tp and pp are not given. `dsconfig elastic run` does the same with any release, and keeps to
    the sizes of its plan.

    Raises:
        ResolveError: there is no plan, or it has no row for these ranks.
    """
    from elastic import ElasticityError, plan
    from elastic.deepspeed.semantics import LATEST

    try:
        found = plan(config)
        messages = _scheduler(config[c.ELASTICITY], LATEST)
        size = _data_parallel(found, runtime, size)
        applied = found.apply(config, size, fallback=runtime.consumer != ELASTIC)
    except ElasticityError as error:
        raise ResolveError(f"elasticity: {error}") from None
    triplet = Triplet(*(applied[key] for key in KEYS))
    messages += _overridden(config, triplet)
    messages += [Message("note", note, c.ELASTICITY) for note in found.notes]
    if not found.admits(size):
        messages.append(_fallback_note(found, size, triplet.train_batch_size))
    by = (
        "which `dsconfig elastic run` takes out"
        if runtime.consumer == ELASTIC
        else "which this release refuses"
    )
    text = f"the `elasticity` block, {by}, is replaced by the batch for {size} ranks"
    return applied, size, [*messages, Message("removed", text, c.ELASTICITY)]


def _data_parallel(found: Plan, runtime: Runtime, size: float) -> int:
    model = found.block.model_parallel_size
    given = runtime.parallelism.of("tensor") * runtime.parallelism.of("pipeline")
    if size != int(size):
        raise ResolveError(f"{size:g} is not a whole number of data-parallel ranks")
    if model in (1, given):
        return int(size)
    if given > 1:
        raise ResolveError(
            f"`elasticity.model_parallel_size` is {model}, but tp × pp is {given}",
            ("give the same degree, or only one of the two",),
        )
    if int(size) % model:
        raise ResolveError(
            f"{runtime.ranks} GPUs hold no whole number of models of `elasticity.model_parallel_size` {model}"
        )
    return int(size) // model


def _fallback_note(found: Plan, size: int, batch: int) -> Message:
    return Message(
        "note",
        f"{found.why_not(size)}; version 0.2 takes a batch for this size alone, {batch} in place of "
        f"{found.batch_size} samples a step",
        c.ELASTICITY,
    )


def _scheduler(block: Mapping[str, Json], semantics: Semantics) -> list[Message]:
    """Compare the block with the one that the scheduler left in the environment, where it left one."""
    if c.DEEPSPEED_ELASTICITY_CONFIG not in os.environ:
        return []
    from elastic import ensure_immutable_elastic_config

    try:
        ensure_immutable_elastic_config(block, semantics=semantics)
    except Exception as error:
        raise ResolveError(f"{c.DEEPSPEED_ELASTICITY_CONFIG}: {error}") from None
    text = f"the block equals the scheduler's in {c.DEEPSPEED_ELASTICITY_CONFIG}"
    return [Message("environment", text, c.ELASTICITY)]


def _refuse_batch_keys(config: Mapping[str, Json]) -> None:
    written = [key for key in KEYS if key in config]
    if written and not config[c.ELASTICITY].get(c.IGNORE_NON_ELASTIC_BATCH_INFO):
        raise ResolveError(
            f"`{'`, `'.join(written)}` and `elasticity` both set the batch",
            (f"remove them, or set `elasticity.{c.IGNORE_NON_ELASTIC_BATCH_INFO}` to have them overridden",),
        )


def _overridden(config: Mapping[str, Json], found: Triplet) -> list[Message]:
    return [
        Message("overridden", f"elasticity overrides `{key}`: {config[key]!r} becomes {value}", key)
        for key, value in zip(KEYS, found.values(), strict=True)
        if key in config
    ]


def _nearest(config: Mapping[str, Json], semantics: Semantics, size: float) -> tuple[str, ...]:
    """The admissible sizes around one that is not; empty where the block has no strict plan."""
    from elastic import ElasticityError, plan

    try:
        found = plan(config, semantics=semantics)
        why = found.why_not(int(size))
    except (ElasticityError, TypeError, ValueError):
        return ()
    return (why,) if why else ()


def batch_of(release: str, world_size: int) -> Callable[[JsonObject], dict[str, int]]:
    """What derives the batch of an `elasticity` block as the release does on so many ranks."""

    def solve(config: JsonObject) -> dict[str, int]:
        triplet, _ = as_released(config, release, world_size)
        return {key: int(value) for key, value in zip(KEYS, triplet.values(), strict=True)}

    return solve
