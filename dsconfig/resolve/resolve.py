"""`resolve`: derive the batch triplet as DeepSpeed does, and return the config with which a release runs.

raw config → resolved "auto" values → data-parallel ranks → triplet (or elastic solution) → `ResolvedRun`
"""

from __future__ import annotations

import os
from collections import Counter
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
from dsconfig.check.report import Report
from dsconfig.core.batch_triplet import KEYS
from dsconfig.core.releases import ReleaseTarget
from dsconfig.document import Document
from dsconfig.document.located_tree import unknown_paths, without_unknown
from dsconfig.job.consumers.autofill import AssumedArguments, AutofillState
from dsconfig.launch.config_source import ConfigSource
from dsconfig.launch.launch_file_formats import PROGRAM_FILE, SCRIPT
from dsconfig.launch.launched_job import HYDRA, PROGRAM
from dsconfig.launch.locate_configs_of_jobs import read_config_of_job
from dsconfig.launch.located_config import LocatedConfig, locate_config
from dsconfig.render.report_protocols import JobSummary
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
    from collections.abc import Iterator

    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.job.detect_consumer import LaunchArguments
    from dsconfig.job.job import Job
    from dsconfig.launch.launched_job import LaunchedJob
    from dsconfig.launch.located_config import LocatedConfig


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
    """Resolve a config for a number of ranks, as DeepSpeed does.

    Args:
        source: a path, text, bytes, a dict, or a document that has been read; see `check`.
        world_size: number of ranks, one per GPU; None: the environment's `WORLD_SIZE`, else the file's
            `"$dsconfig"` block, else the launch file of its job.
        target: a DeepSpeed release, or a range, of which the newest release is used; None: as for `check`.
        consumer: the library that loads the file: `deepspeed`, `transformers`, `accelerate`, `lightning` or
            `elastic`; None: auto-detected.
        tp: tensor-parallel ranks; None: from the launch file of the job, else 1.
        pp: pipeline stages; None: as for `tp`.
        sp: sequence-parallel ranks; None: as for `tp`.
        ep: expert-parallel ranks; None: 1.
        set: values to set in the config before it is resolved, by dotted path.
        training_args: arguments from which the consumer resolves "auto"; see `check`.
        model: the model, whose hidden size is used; None: from the config's `"$dsconfig"` block or its launch file, if
            the model is on disk; see `check`.
        launch: the launch file to use; see `check`.
        job: number of the job in a script, or of the config in a Python source, counted from 1. Default: the first one,
            with a warning that names the others.

    Raises:
        UnknownWorldSizeError: the world size is unknown; `.formula` is the batch as a formula in the number of GPUs.
        ResolveError: the config cannot be resolved; the message says why, and what to change.
        OSError: a path cannot be read.
        UnknownReleaseError: the target names no release.
        ValueError: an argument is invalid.
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
    """Return the elastic batch as training arguments, if only the `elasticity` block determines the batch."""
    if not arguments.unknown.issuperset(_OF_BATCH) or not has_elasticity(raw.config):
        return {}
    if not FIRST_ELASTIC <= target_run.number <= LAST_ELASTIC:
        return {}
    without_batch = {key: value for key, value in raw.config.items() if key not in KEYS}
    triplet, _ = solve_elastic(without_batch, target_run.release, target_run.ranks)
    _, micro, steps = triplet.values_in_key_order()
    return dict(zip(_OF_BATCH, (micro, steps), strict=True))


def _require_known_batch(config: JsonObject, assumed: AssumedArguments) -> None:
    """Raise an error if the batch depends on an argument whose value only the job's shell knows."""
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
    """Return the run of a resolved config; if that fails, add mismatched arguments to the error's hints."""
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


_CONSUMERS = {
    "transformers": "Trainer",
    "accelerate": "Accelerate",
    "lightning": "Lightning",
    "deepspeed": "DeepSpeed",
    "elastic": "elastic",
    "inference": "DeepSpeed inference",
}


# Summary of the job that loads a config, in one line of the report.


def add_job_summary(report: Report, located: LocatedConfig, job: Job) -> Report:
    """Add the summary of the job to the report on a launch file or script."""
    if located.job is not None and not report.why_not_config:
        report.summary = summarize_job(located, job, report)
    return report


def summarize_job(located: LocatedConfig, job: Job, report: Report) -> JobSummary:
    """Summarize the job of a launch file or script."""
    assert located.job is not None
    open_expressions = located.job.processes.open_expressions
    counts = Counter[str](diagnostic.severity for diagnostic in _all_diagnostics(report))
    program, library = located.job.format.name, _CONSUMERS[job.reader.name]
    is_same = program in (SCRIPT.name, PROGRAM_FILE.name, library) or not located.program_name
    consumer = library if is_same else f"{program}, {library}"
    # The line of the job says what these notes say.
    notes = (located.note, *located.job.describe_unknown_batch_sizes(job.ranks)[: job.ranks is None])
    has_file = located.config is not None and not located.job.is_embedded
    config = located.config.name if has_file and located.config else ""
    if located.job.format.builds == PROGRAM:
        config, consumer = located.job.reference, library
    if located.job.format.builds == HYDRA:
        config = located.job.reference
    summary = JobSummary(
        located.job.location, consumer, config, job.ranks, None, None, "", "", "", notes, counts
    )
    if located.config is None and located.relation == "missing":
        return summary._replace(why_not_checked=_why_config_is_missing(located))
    if _has_dynamic_batches(located.job):
        return summary._replace(unknown="batch chosen at run time")
    unknown = () if located.config is None else tuple(unknown_paths(located.config.value()))
    is_batch_unknown = any(path[0] in _BATCH_KEYS for path in unknown)
    if unknown and located.config is not None:
        known = located.config.with_value(without_unknown(located.config.value()))
        located = located._replace(config=known)
    size = launch_world_size(located, job)
    if size is None or size.ranks is None:
        unsized = ConfigWithoutWorldSize(located, job, ParallelDegrees(None, None, None, None), {})
        formula = None if is_batch_unknown else unknown_world_size_error(unsized, size, None).formula
        expressions = " and ".join(f"`{word}`" for word in open_expressions)
        return summary._replace(unknown=expressions, formula=formula or "")
    if is_batch_unknown:
        return summary._replace(unknown="batch known at run time only")
    try:
        run = resolve_job(located, job, (None, None, None, None), {}, None, None)
    except UnfilledError:
        return summary._replace(unknown="batch unknown without the training arguments")
    except (ResolveError, ValueError, OSError):
        return summary  # the diagnostics say why there is no batch
    batch = run.train_batch_size, run.train_micro_batch_size_per_gpu, run.gradient_accumulation_steps
    if not all(type(each) is int for each in batch):
        return summary
    return summary._replace(batch=batch, data_parallel_size=run.data_parallel_size)


_BATCH_KEYS = (*KEYS, "elasticity")
"""Keys on which the batch of a config depends."""


def _has_dynamic_batches(job: LaunchedJob) -> bool:
    """Return whether the program fills micro batches up to a number of tokens, as OpenRLHF can do."""
    flags = job.arguments or {}
    return job.format.name == "OpenRLHF" and bool(
        flags.get("train.dynamic_batch_enable") or flags.get("use_dynamic_batch")
    )


def _why_config_is_missing(located: LocatedConfig) -> str:
    """Return why a job has no config, without the location, which is part of the summary."""
    note = located.why_not_checked or located.note
    return (
        (note.partition(": ")[2] or note)
        .partition(", so it is not checked")[0]
        .removesuffix(" and is not checked")
    )


def _all_diagnostics(report: Report) -> Iterator[Diagnostic]:
    yield from report.diagnostics
    for child in report.children:
        yield from _all_diagnostics(child)
