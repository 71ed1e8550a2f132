"""`dsconfig.check`: find what DeepSpeed rejects, ignores or changes in a config."""

from __future__ import annotations

import os

from dsconfig.check.build_job import (
    MappingSource,
    ModelSource,
    build_job,
    explicit_model_and_hosts,
    job_from_arguments,
)
from dsconfig.check.check import check as judge
from dsconfig.check.report import Report, combine_jobs
from dsconfig.core.releases import ReleaseTarget
from dsconfig.fix.verify_fixes import verify_fixes_of_reports
from dsconfig.fix.verify_fixes_in_python import verify_fixes_in_python
from dsconfig.job.job import Job
from dsconfig.launch.config_source import ConfigSource, read_config_source
from dsconfig.launch.locate_configs_of_jobs import locate_jobs, select_job
from dsconfig.launch.located_config import LocatedConfig, locate_config


def check(
    source: ConfigSource,
    *,
    target: str | ReleaseTarget | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
    host_memory: int | None = None,
    gpus_per_node: int | None = None,
    job: int | None = None,
) -> Report:
    """Check a config, or every config in a Python source or in a script that starts several jobs.

    If there are several configs or jobs, `report.jobs` has one report for each.

    Text is checked as DeepSpeed reads a file (Hjson, duplicate keys), a dict as DeepSpeed reads a dict. A string that
    contains a bracket, quote, line end or colon and is not the name of a file is text; any other string is a path, or
    the URL-safe base64 that launchers pass.

    Args:
        source: a path, text, bytes, base64, a dict or a `Config`.
        target: a release (`0.19.8`), a range (`>=0.14,<0.19.8`) or `installed`. Default: the target in the file's
            `"$dsconfig"`, else the release that the repository pins, else the installed DeepSpeed, else the latest
            known release.
        world_size: number of ranks (GPUs). Default: from the file's `"$dsconfig"` or the launch file of its job;
            if unknown, only problems that occur at every world size are errors.
        consumer: library that loads the file: `deepspeed`, `transformers`, `accelerate`, `lightning` or `elastic`.
            Default: auto-detected; `report.reader` has the evidence.
        training_args: training arguments of the consumer: a `TrainingArguments` object, a mapping, or the path to a
            JSON or YAML file. They override those of the script that starts the job.
        model: the model to train: the path to its `config.json`, its content, or a name such as `llama-3-8b`. Default:
            from the file's `"$dsconfig"` or the launch file of its job.
        launch: the script or launch file that starts the job, if several of them use the config.
        host_memory: memory of a node in bytes.
        gpus_per_node: GPUs per node. Default: 8, or the world size if that is less.
        job: number of the job in a script, or of the config in a Python source, counted from 1. Default: all.

    Raises:
        OSError: a path cannot be read.
        UnknownReleaseError: the target is not a known release.
        ValueError: the consumer, the world size or a hardware size is invalid, the model is unknown, or there is no
            such job.
    """
    facts = explicit_model_and_hosts(model, host_memory, gpus_per_node)
    arguments = job_from_arguments(target, world_size, consumer, facts, training_args, launch)
    document = read_config_source(source)
    if job is not None:
        document = select_job(document, job).document
    if document.is_in_program:
        from dsconfig.launch.python.config_dicts import sibling_documents

        documents = [document] if job is not None else sibling_documents(document) or [document]
        configs = [locate_config(each) for each in documents]
        reports = [judge(located, build_job(located, arguments)) for located in configs]
        return combine_jobs(verify_fixes_in_python(reports))
    return combine_jobs([_check_job(located, arguments) for located in locate_jobs(document)])


def _check_job(located: LocatedConfig, arguments: Job) -> Report:
    job = build_job(located, arguments)
    report = verify_fixes_of_reports(judge(located, job))
    if located.job is None:
        return report
    from dsconfig.resolve.resolve import add_job_summary

    return add_job_summary(report, located, job)
