"""`resolve`: derive the batch triplet like DeepSpeed, and return the config with which a release runs.

raw config → resolved "auto" values → data-parallel ranks → triplet (or elastic solution) → `ResolvedRun`
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dsconfig.check.build_job import (
    MappingSource,
    ModelSource,
    build_job,
    explicit_model_and_hosts,
    job_from_arguments,
    read_training_arguments,
)
from dsconfig.core.batch_triplet import KEYS
from dsconfig.core.releases import ReleaseTarget
from dsconfig.document import Document
from dsconfig.job.consumers.autofill import AssumedArguments, AutofillState
from dsconfig.launch.config_source import ConfigSource
from dsconfig.launch.locate_configs_of_jobs import read_config_of_job
from dsconfig.launch.located_config import LocatedConfig, locate_config
from dsconfig.resolve.batch import (
    FIRST_ELASTIC,
    LAST_ELASTIC,
    ConfigWithoutWorldSize,
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
    reject_resolved_config,
)
from dsconfig.resolve.resolved_run import ParallelDegrees, ResolutionTarget, ResolvedRun, resolution_target

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.job.detect_consumer import LaunchArguments
    from dsconfig.job.job import Job

_OF_BATCH = ("per_device_train_batch_size", "gradient_accumulation_steps")


def resolve(  # noqa: PLR0913  every argument stands for an option of the command
    source: ConfigSource | Document,
    *,
    target: str | ReleaseTarget | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
    job: int | None = None,
    tp: int | None = None,
    pp: int | None = None,
    sp: int | None = None,
    ep: int | None = None,
    set: Mapping[str, Json] | None = None,
) -> ResolvedRun:
    """Resolve a config for a number of ranks like DeepSpeed.

    Args:
        source: a path, text, bytes, a dict, or a document that has been read; see `check`.
        world_size: number of ranks, one per GPU; None: the environment's `WORLD_SIZE`, else the file's
            `"$dsconfig"` block, else the launch file of its job.
        target: the DeepSpeed release, or a range, of which the newest is used; None: as for `check`.
        consumer: the library that loads the file: `deepspeed`, `transformers`, `accelerate`, `lightning` or
            `elastic`; None: auto-detected.
        tp: tensor-parallel ranks; None: from the launch file of the job, else 1.
        pp: pipeline stages; None: as for `tp`.
        sp: sequence-parallel ranks; None: as for `tp`.
        ep: expert-parallel ranks; None: 1.
        set: values to set in the config before it is resolved, by dotted path.
        training_args: arguments from which the consumer resolves "auto"; see `check`.
        model: the model, for its hidden size; None: from the config's own block or its launch file, if it
            is on disk; see `check`.
        launch: the launch file to use; see `check`.
        job: which job of a script, or config of a Python source, is meant if there are several, from 1. Default:
            the first job, with a warning that names the others.

    Raises:
        UnknownWorldSizeError: the world size is not known; `.formula` is the batch in the number of GPUs.
        ResolveError: the config cannot be resolved; the message says why, and what to change.
        OSError: a path cannot be read.
        UnknownReleaseError: the target names no release.
        ValueError: an argument is impossible.
    """
    located = locate_config(read_config_of_job(source, job))
    merged = build_job(
        located,
        job_from_arguments(target, world_size, consumer, explicit_model_and_hosts(model), launch=launch),
    )
    return resolve_job(
        located, merged, (tp, pp, sp, ep), set or {}, read_training_arguments(training_args), None
    )


def resolve_job(
    located: LocatedConfig,
    job: Job,
    degrees: tuple[int | None, int | None, int | None, int | None],
    changes: Mapping[str, Json],
    training_args: Mapping[str, Json] | None,
    model_config: Mapping[str, Json] | None,
) -> ResolvedRun:
    """Resolve a config for its job; `degrees` are tp, pp, sp and ep as in `resolve`."""
    launch_size = launch_world_size(located, job)
    try:
        target_run = resolution_target(job, degrees, launch_size)
    except UnknownWorldSizeError:
        unsized = ConfigWithoutWorldSize(located, job, ParallelDegrees(*degrees), changes)
        raise unknown_world_size_error(unsized, launch_size, training_args) from None
    input_config = read_input_config(located, job)
    parallelism = target_run.requested.over(input_config.facts.parallelism)
    target_run = replace(target_run, consumer=input_config.consumer, parallelism=parallelism)
    raw = read_raw_config(input_config.document, target_run.release, input_config.consumer, changes)
    suppressed = reject_raw_config(located.host, input_config, raw.config, changes, target_run)
    run = derive_run(
        input_config, raw, target_run, training_args, model_config or model_config_of(input_config.facts)
    )
    reject_resolved_config(run, suppressed, input_config.document.name)
    return run


def derive_run(
    input_config: InputConfig,
    raw: RawConfig,
    target_run: ResolutionTarget,
    training_args: Mapping[str, Json] | None,
    model_config: Mapping[str, Json] | None,
) -> ResolvedRun:
    """Derive the run of a config without checking the result."""
    raw.reject_overwritten(input_config.document)
    if input_config.arguments is not None:
        training_args = {
            **_elastic_batch_arguments(input_config.arguments, raw, target_run),
            **(training_args or {}),
        }
    filling, assumed = fill_raw_config(
        input_config,
        raw,
        target_run.ranks,
        training_args,
        model_config,
        sp=target_run.parallelism.degree_of_kind("sequence"),
    )
    _require_known_batch(raw.config, assumed)
    return _build_run(raw, filling, target_run, input_config)


def _elastic_batch_arguments(
    arguments: LaunchArguments, raw: RawConfig, target_run: ResolutionTarget
) -> dict[str, Json]:
    """Return the elastic batch as arguments if nothing but the `elasticity` block determines the batch."""
    if not arguments.unknown.issuperset(_OF_BATCH) or not has_elasticity(raw.config):
        return {}
    if not FIRST_ELASTIC <= target_run.number <= LAST_ELASTIC:
        return {}
    without_batch = {key: value for key, value in raw.config.items() if key not in KEYS}
    triplet, _ = solve_elastic(without_batch, target_run.release, target_run.ranks)
    _, micro, steps = triplet.values_in_key_order()
    return dict(zip(_OF_BATCH, (micro, steps), strict=True))


def _require_known_batch(config: JsonObject, assumed: AssumedArguments) -> None:
    """Raise an error if the batch depends on an argument that only the job's shell knows."""
    unknown = [name for name in _OF_BATCH if name in assumed.unknown]
    unresolved = [key for key in KEYS if config.get(key) == "auto"]
    if unknown and unresolved:
        raise UnfilledError(
            unresolved,
            config,
            f"`{unknown[0]}` of the job is not known, because its launch file leaves it to the run",
            "pass it as `training_args`",
        )


def _build_run(
    raw: RawConfig, filling: AutofillState, target_run: ResolutionTarget, input_config: InputConfig
) -> ResolvedRun:
    """Return the run of a resolved config; on failure, add mismatched arguments to the error's hints."""
    try:
        batch = derive_batch(raw, target_run)
    except ResolveError as error:
        hints = (*error.hints, *map(str, filling.mismatches))
        raise ResolveError(error.reason, hints, error.diagnostics) from None
    return ResolvedRun(
        *batch.triplet.values_in_key_order(),
        config=batch.config,
        release=target_run.release,
        consumer=input_config.consumer,
        world_size=target_run.ranks,
        data_parallel_size=batch.size,
        messages=(
            *input_config.messages,
            *target_run.messages,
            *filling.messages,
            *batch.messages,
            *raw.overwrite_messages(input_config.document),
        ),
        mismatches=tuple(filling.mismatches),
        filled=tuple(filling.filled),
        unknown=frozenset(filling.unknown),
        elastic=batch.elastic,
    )
