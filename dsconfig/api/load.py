"""`load`: the typed model of a config, or the findings that rule it out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dsconfig.api.config import Config
from dsconfig.api.from_source import Options, read_into

if TYPE_CHECKING:
    from dsconfig.check.build_job import MappingSource, ModelSource
    from dsconfig.core.releases import Target
    from dsconfig.launch.config_source import ConfigSource


def load(
    source: ConfigSource,
    *,
    target: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
) -> Config:
    """Read a config into the typed model, with the eyes of the target's newest release.

    The model holds what is written, value for value, so that `.to_dict()` gives it back; keys that the model
    does not know are kept too. Attributes that are not written hold that release's defaults.

    Args:
        source: a path, text, bytes or a dict; see `check`.
        target: a release or a range; see `check`.
        world_size: number of ranks; see `check`.
        consumer: who reads the file; see `check`.
        training_args: what the consumer is started with; see `check`.
        model: the model that it trains; see `check`.
        launch: the launch file whose arguments count; see `check`.

    Raises:
        ConfigError: DeepSpeed refuses the config in one of the target's releases, and the config does not
            silence that finding itself.
        OSError: the path cannot be read.
    """
    options = Options(target, world_size, consumer, training_args, model, launch)
    return read_into(Config, source, options)[0]
