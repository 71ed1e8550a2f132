"""Describe a config's consumer: its name, version changes, and the keys that Accelerate overwrites."""

from __future__ import annotations

from dsconfig.evaluation.rule_context import Context
from dsconfig.job.consumers import consumer_versions

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath

FILL = "accelerate utils/dataclasses.py:DeepSpeedPlugin.deepspeed_config_process"
INIT = "accelerate utils/dataclasses.py:DeepSpeedPlugin.__post_init__"


def consumer_label(ctx: Context) -> str:
    """Return the consumer's name for messages."""
    return "the Trainer" if ctx.consumer == "transformers" else ctx.consumer.capitalize()


def consumer_has_change(ctx: Context, change: str) -> bool:
    """Return whether the consumer's version includes a change listed in `consumer_versions`."""
    return consumer_versions.version_includes_change(change, ctx.consumer, ctx.version)


def is_overwritten_by_accelerate(ctx: Context, path: KeyPath) -> bool:
    """Return whether Accelerate overwrites a key before it looks for unresolved "auto" values."""
    if path == ("zero_allow_untested_optimizer",):
        return "optimizer" not in ctx.data
    return path == ("steps_per_print",)
