"""`dsconfig.check`: what DeepSpeed will do with a config."""

from __future__ import annotations

import os

from dsconfig.check.build_job import (
    MappingSource,
    ModelSource,
    build_job,
    job_from_arguments,
    model_and_hosts,
)
from dsconfig.check.check import check as judge
from dsconfig.check.report import Report
from dsconfig.core.releases import Target
from dsconfig.fix.verify import with_verified_fixes
from dsconfig.launch.config_source import ConfigSource, read
from dsconfig.launch.located_config import locate


def check(
    source: ConfigSource,
    *,
    target: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
    host_memory: int | None = None,
    gpus_per_node: int | None = None,
) -> Report:
    """Check a config.

    Text is judged as DeepSpeed judges a file (Hjson, duplicate keys), a dict as it judges a dict. A string
    with a bracket, quote, line end or colon in it, and no file of that name, is text; any other string is a
    path, or the URL-safe base64 that launchers pass on.

    Args:
        source: a path, text, bytes, base64, a dict or a `Config`.
        target: a release (`0.19.8`), a range (`>=0.14,<0.19.8`) or `installed`; None: what the file's
            `"$dsconfig"` says, else what the repository pins, else the installed DeepSpeed, else the latest
            release known.
        world_size: number of ranks (GPUs); None: what the file's `"$dsconfig"` or the launch file of its job
            says; where nothing does, only what fails at every world size is an error.
        consumer: who reads the file: `deepspeed`, `transformers`, `accelerate`, `lightning` or `elastic`;
            None: it is found out, and `report.reader` says why.
        training_args: what the consumer is started with: a `TrainingArguments` object, a mapping, or the path
            of a JSON or YAML file. They go over those of the script that starts the job.
        model: the model that it trains: the path of its `config.json`, or what stands in it, or a name such
            as `llama-3-8b`; None: what the file's `"$dsconfig"` or the launch file of its job says.
        launch: the script or launch file whose arguments count, where several start a job with the config.
        host_memory: bytes that a host has.
        gpus_per_node: ranks that share a host; None: 8, or all of fewer.

    Raises:
        OSError: a path cannot be read.
        UnknownReleaseError: the target names no release.
        ValueError: the consumer, the world size or a size of the hosts is impossible, or there is no such
            model.
    """
    located = locate(read(source))
    known = model_and_hosts(model, host_memory, gpus_per_node)
    job = build_job(located, job_from_arguments(target, world_size, consumer, known, training_args, launch))
    return with_verified_fixes(judge(located, job))
