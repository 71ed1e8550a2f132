"""`dsconfig.check`: what DeepSpeed will do with a config."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.check.build_job import asked, asked_model, build_job
from dsconfig.check.check import check as judge
from dsconfig.check.report import Report
from dsconfig.core.releases import Target
from dsconfig.fix.verify import with_proven_fixes
from dsconfig.job.run_facts import Known
from dsconfig.launch.config_source import ConfigSource, read
from dsconfig.launch.located_config import locate

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

ModelSource: TypeAlias = "Mapping[str, Json] | str | os.PathLike[str]"
"""A model: what stands in its `config.json`, or its path or name."""


def check(
    source: ConfigSource,
    target: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    *,
    model: ModelSource | None = None,
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
            `"$dsconfig"` says, else the installed DeepSpeed, else the latest release known.
        world_size: number of ranks (GPUs); None: what the file's `"$dsconfig"` says; where it says nothing,
            only what fails at every world size is an error.
        consumer: who reads the file: `deepspeed`, `transformers`, `accelerate`, `lightning` or `elastic`;
            None: it is found out, and `report.reader` says why.
        model: the model that it trains: the path of its `config.json`, or what stands in it, or a name such
            as `llama-3-8b`; None: what the file's `"$dsconfig"` or the launch file of its job says.
        host_memory: bytes that a host has.
        gpus_per_node: ranks that share a host; None: 8, or all of fewer.

    Raises:
        OSError: the path cannot be read.
        UnknownReleaseError: the target names no release.
        ValueError: the consumer, the world size or a size of the hosts is impossible, or there is no such
            model.
    """
    document = read(source)
    known = _known(model, host_memory, gpus_per_node)
    located = locate(document)
    return with_proven_fixes(judge(located, build_job(located, asked(target, world_size, consumer, known))))


def _known(model: ModelSource | None, host_memory: int | None, gpus_per_node: int | None) -> Known:
    for name, value in (("host memory", host_memory), ("GPUs of a node", gpus_per_node)):
        if value is not None and (type(value) is not int or value < 1):
            raise ValueError(f"{name} {value!r}: expected an integer of at least 1")
    if model is None:
        return Known(None, host_memory, gpus_per_node)
    named = asked_model(model if isinstance(model, Mapping) else os.fspath(model))
    return Known(named, host_memory, gpus_per_node)
