"""`show`: what counts in a config, and where each value comes from, for any source."""

from __future__ import annotations

import os

from dsconfig.check.build_job import MappingSource, ModelSource, asked, build_job, known_of, mapping
from dsconfig.core.releases import Target
from dsconfig.launch.config_source import ConfigSource, read
from dsconfig.launch.located_config import locate
from dsconfig.resolve.effective import Shown, effective_in


def show(
    source: ConfigSource,
    *keys: str,
    target: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
    every: bool = False,
) -> Shown:
    """The value of every key that counts, and where it comes from: `.values`, each with `.key` and `.origin`.

    Args:
        source: a path, text, bytes, a dict or a `Config`; see `check`.
        keys: list only these keys and what is below them, with all defaults.
        world_size: number of ranks; None: as the file itself or its launch file says, else the batch is a
            formula in the number of GPUs.
        target: the release that reads it, of a range the newest; None: as for `check`.
        consumer: who reads the file; see `check`.
        training_args: what the consumer fills "auto" from; see `resolve`.
        model: the model, for its hidden size; None: see `resolve`.
        launch: the launch file whose arguments count; see `check`.
        every: whether to list the defaults of sections that are not written, too.

    Raises:
        ResolveError: the config cannot be read.
        OSError: a path cannot be read.
        UnknownReleaseError: the target names no release.
        ValueError: an argument is impossible.
    """
    located = locate(read(source))
    job = build_job(located, asked(target, world_size, consumer, known_of(model), launch=launch))
    return effective_in(located, job, training_args=mapping(training_args), every=every, keys=keys)
