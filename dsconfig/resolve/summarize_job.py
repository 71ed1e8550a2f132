"""Summarize the job that loads a config (consumer, world size and batch) in one line of the report."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dsconfig.check.report import Report
from dsconfig.core.batch_triplet import KEYS
from dsconfig.document.located_tree import unknown_paths, without_unknown
from dsconfig.launch.launch_file_formats import SCRIPT
from dsconfig.launch.launched_job import PROGRAM, PROGRAM_FILE
from dsconfig.render.report_protocols import JobSummary
from dsconfig.resolve.batch import ConfigWithoutWorldSize, unknown_world_size_error
from dsconfig.resolve.errors import ResolveError, UnfilledError
from dsconfig.resolve.input_config import launch_world_size
from dsconfig.resolve.resolve import resolve_job
from dsconfig.resolve.resolved_run import ParallelDegrees

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.job.job import Job
    from dsconfig.launch.launched_job import LaunchedJob
    from dsconfig.launch.located_config import LocatedConfig

_CONSUMERS = {
    "transformers": "Trainer",
    "accelerate": "Accelerate",
    "lightning": "Lightning",
    "deepspeed": "DeepSpeed",
    "elastic": "elastic",
}


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
    """Return whether the program fills micro batches up to a number of tokens, like OpenRLHF's dynamic batches."""
    flags = job.arguments or {}
    return job.format.name == "OpenRLHF" and bool(
        flags.get("train.dynamic_batch_enable") or flags.get("use_dynamic_batch")
    )


def _why_config_is_missing(located: LocatedConfig) -> str:
    """Return why a job has no config, without the location, which the summary shows already."""
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
