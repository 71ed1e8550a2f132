"""`resolve`: the batch triplet as DeepSpeed derives it, and the config that a release runs with.

text → what the consumer fills → data-parallel ranks → triplet, or the elastic solver's → `Run`
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dsconfig.check.build_job import MappingSource, ModelSource, asked, build_job, known_of, mapping
from dsconfig.consumers.autofill import Assumed, Filling
from dsconfig.core.batch_triplet import KEYS
from dsconfig.core.releases import Target
from dsconfig.document import Document
from dsconfig.launch.config_source import ConfigSource, read
from dsconfig.launch.located_config import LocatedConfig, locate
from dsconfig.resolve.batch import (
    FIRST_ELASTIC,
    LAST_ELASTIC,
    UnsizedConfig,
    derive_batch,
    has_elasticity,
    solve_elastic,
    unknown_world_size_error,
)
from dsconfig.resolve.errors import ResolveError, UnfilledError, UnknownWorldSizeError
from dsconfig.resolve.input_config import InputConfig, launch_world_size, model_config_of, read_input_config
from dsconfig.resolve.raw_config import (
    RawConfig,
    fill_raw_config,
    read_raw_config,
    reject_raw_config,
    reject_result,
)
from dsconfig.resolve.run import Parallel, Run, Runtime, runtime

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.job.detect_consumer import Given
    from dsconfig.job.job import Job

_OF_BATCH = ("per_device_train_batch_size", "gradient_accumulation_steps")


def resolve(  # noqa: PLR0913  every argument stands for an option of the command
    source: ConfigSource | Document,
    *,
    target: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
    tp: int | None = None,
    pp: int | None = None,
    sp: int | None = None,
    ep: int | None = None,
    set: Mapping[str, Json] | None = None,
) -> Run:
    """Resolve a config for a number of ranks.

    Args:
        source: a path, text, bytes, a dict or a document that was read; see `check`.
        world_size: number of ranks, one a GPU; None: the environment's `WORLD_SIZE`, else what the file's
            `"$dsconfig"` says, else what the launch file of its job says.
        target: the release that runs it, of a range the newest; None: as for `check`.
        consumer: who reads the file: `deepspeed`, `transformers`, `accelerate`, `lightning` or `elastic`;
            None: it is found out.
        tp: ranks that share each layer; None: as the launch file of the job says, else 1.
        pp: pipeline stages; None: likewise.
        sp: ranks that share one sequence; None: likewise.
        ep: ranks that share the experts; None: 1.
        set: values to write first, by dotted path.
        training_args: what the consumer fills "auto" from; see `check`.
        model: the model, for its hidden size; None: that which the config's own block or its launch file
            names, where that is on disk; see `check`.
        launch: the launch file whose arguments count; see `check`.

    Raises:
        UnknownWorldSizeError: nothing says how many ranks there are; `.formula` is the batch in their number.
        ResolveError: the config cannot be resolved; the text says why, and what to change.
        OSError: a path cannot be read.
        UnknownReleaseError: the target names no release.
        ValueError: an argument is impossible.
    """
    located = locate(source if isinstance(source, Document) else read(source))
    job = build_job(located, asked(target, world_size, consumer, known_of(model), launch=launch))
    return resolve_job(located, job, (tp, pp, sp, ep), set or {}, mapping(training_args), None)


def resolve_job(
    located: LocatedConfig,
    job: Job,
    degrees: tuple[int | None, int | None, int | None, int | None],
    changes: Mapping[str, Json],
    training_args: Mapping[str, Json] | None,
    model_config: Mapping[str, Json] | None,
) -> Run:
    """Resolve a config in its job; `degrees` are tp, pp, sp and ep, and see `resolve`."""
    found = launch_world_size(located, job)
    try:
        chosen = runtime(job, degrees, found)
    except UnknownWorldSizeError:
        question = UnsizedConfig(located, job, Parallel(*degrees), changes)
        raise unknown_world_size_error(question, found, training_args) from None
    seen = read_input_config(located, job)
    parallelism = chosen.requested.over(seen.facts.parallelism)
    chosen = replace(chosen, consumer=seen.consumer, parallelism=parallelism)
    written = read_raw_config(seen.document, chosen.release, seen.consumer, changes)
    silenced = reject_raw_config(located.host, seen, written.config, changes, chosen)
    run = derive_run(seen, written, chosen, training_args, model_config or model_config_of(seen.facts))
    reject_result(run, silenced, seen.document.name)
    return run


def derive_run(
    seen: InputConfig,
    written: RawConfig,
    chosen: Runtime,
    training_args: Mapping[str, Json] | None,
    model_config: Mapping[str, Json] | None,
) -> Run:
    """The run of a config, whatever `check` finds in it."""
    written.reject_overwritten(seen.document)
    if seen.arguments is not None:
        training_args = {**_elastic(seen.arguments, written, chosen), **(training_args or {})}
    filling, assumed = fill_raw_config(
        seen, written, chosen.ranks, training_args, model_config, sp=chosen.parallelism.of("sequence")
    )
    _require_batch(written.config, assumed)
    return _run(written, filling, chosen, seen)


def _elastic(known: Given, written: RawConfig, chosen: Runtime) -> dict[str, Json]:
    """The batch of the elasticity block, where nothing but that decides the arguments of the job."""
    if not known.unknown.issuperset(_OF_BATCH) or not has_elasticity(written.config):
        return {}
    if not FIRST_ELASTIC <= chosen.number <= LAST_ELASTIC:
        return {}
    alone = {key: value for key, value in written.config.items() if key not in KEYS}
    triplet, _ = solve_elastic(alone, chosen.release, chosen.ranks)
    _, micro, steps = triplet.values()
    return dict(zip(_OF_BATCH, (micro, steps), strict=True))


def _require_batch(config: JsonObject, assumed: Assumed) -> None:
    """Stop where the batch is left to an argument which only the shell of the job knows."""
    unknown = [name for name in _OF_BATCH if name in assumed.unknown]
    left = [key for key in KEYS if config.get(key) == "auto"]
    if unknown and left:
        raise UnfilledError(
            left,
            config,
            f"`{unknown[0]}` of the job is not known: its launch file leaves it to the run",
            "give it as `training_args`",
        )


def _run(written: RawConfig, filling: Filling, chosen: Runtime, seen: InputConfig) -> Run:
    """The run of a config that is filled; where it fails, mismatches stand among the hints."""
    try:
        batch = derive_batch(written, chosen)
    except ResolveError as error:
        hints = (*error.hints, *map(str, filling.mismatches))
        raise ResolveError(error.reason, hints, error.diagnostics) from None
    return Run(
        *batch.triplet.values(),
        config=batch.config,
        release=chosen.release,
        consumer=seen.consumer,
        world_size=chosen.ranks,
        data_parallel_size=batch.size,
        messages=(
            *seen.messages,
            *chosen.messages,
            *filling.messages,
            *batch.messages,
            *written.overwrite_messages(seen.document),
        ),
        mismatches=tuple(filling.mismatches),
        filled=tuple(filling.filled),
        unknown=frozenset(filling.unknown),
        elastic=batch.elastic,
    )
