"""`show`: what counts in a config, and where each value comes from, for any source."""

from __future__ import annotations

from dsconfig.core.releases import Target
from dsconfig.launch.config_source import ConfigSource
from dsconfig.resolve.effective import Shown, effective
from dsconfig.resolve.resolve import MappingSource, mapping


def show(
    source: ConfigSource,
    *keys: str,
    world_size: int | None = None,
    target: str | Target | None = None,
    consumer: str | None = None,
    training_args: MappingSource = None,
    model_config: MappingSource = None,
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
        model_config: the model's `config.json`, for its hidden size; None: see `resolve`.
        every: whether to list the defaults of sections that are not written, too.

    Raises:
        ResolveError: the config cannot be read.
        OSError: a path cannot be read.
        UnknownReleaseError: the target names no release.
        ValueError: an argument is impossible.
    """
    return effective(
        source,
        world_size,
        target,
        consumer,
        training_args=mapping(training_args),
        model_config=mapping(model_config),
        every=every,
        keys=keys,
    )
