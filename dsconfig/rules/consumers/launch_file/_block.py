"""The block `deepspeed_config` of a launch file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.consumers.accelerate_launch_file import BLOCK, block
from dsconfig.core.json_types import JsonObject
from dsconfig.evaluation.context import Context

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


ENVIRONMENT = "accelerate utils/launch.py:prepare_deepspeed_cmd_env"
PLUGIN = "accelerate utils/dataclasses.py:DeepSpeedPlugin"


def launched(ctx: Context) -> JsonObject:
    """The block, empty where DeepSpeed is not what is launched."""
    return block(ctx.data) if ctx.data.get("distributed_type") == "DEEPSPEED" else {}


def in_block(key: str) -> KeyPath:
    """The path of a key of the block."""
    return (BLOCK, key)
