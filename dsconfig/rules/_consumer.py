"""Consumer of a config, and the keys that Accelerate overwrites."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.consumers import consumer_versions
from dsconfig.evaluation.context import Context

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath

FILL = "accelerate utils/dataclasses.py:DeepSpeedPlugin.deepspeed_config_process"
INIT = "accelerate utils/dataclasses.py:DeepSpeedPlugin.__post_init__"


def reader(ctx: Context) -> str:
    """The program that reads the config, for messages."""
    return "the Trainer" if ctx.consumer == "transformers" else ctx.consumer.capitalize()


def does(ctx: Context, word: str) -> bool:
    """Whether the version that reads the config does what a change of `consumers.versions` brought."""
    return consumer_versions.does(word, ctx.consumer, ctx.version)


def overwritten(ctx: Context, path: KeyPath) -> bool:
    """Whether Accelerate writes its own value there before it looks for what is not filled."""
    own_optimizer = path == ("zero_allow_untested_optimizer",) and "optimizer" not in ctx.data
    return path == ("steps_per_print",) or own_optimizer
