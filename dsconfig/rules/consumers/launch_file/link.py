"""`deepspeed_config_file` and what stands beside it; filters of hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.consumers.accelerate_launch_file import LINK, NOT_BESIDE_LINK
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules.consumers._reader import does
from dsconfig.rules.consumers.launch_file._block import ENVIRONMENT, PLUGIN, in_block, launched

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


@rule("DSC822", effect="rejected", source=f"{PLUGIN}._deepspeed_config_checks", reads="launch file")
def setting_beside_config_file(ctx: Context) -> Iterator[Finding]:
    """Accelerate's launch file names a DeepSpeed config and holds settings of its own.

    Beside `deepspeed_config_file` nothing may stand that the named file could say too: stage, accumulation,
    clipping, offload, saving, and `mixed_precision` at the top. Accelerate speaks of variables that "will be
    ignored", and raises.

    Bad:

        {"distributed_type": "DEEPSPEED", "mixed_precision": "bf16",
        "deepspeed_config": {"deepspeed_config_file": "ds_config.json", "zero3_init_flag": true}}

    Good:

        {"distributed_type": "DEEPSPEED",
        "deepspeed_config": {"deepspeed_config_file": "ds_config.json", "zero3_init_flag": true}}

    Fixed:

        {"distributed_type": "DEEPSPEED",
        "deepspeed_config": {"deepspeed_config_file": "ds_config.json", "zero3_init_flag": true}}
    """
    written = launched(ctx)
    if str(written.get(LINK) or "none") == "none" or not does(ctx, "beside_file"):
        return
    paths: list[KeyPath] = [in_block(key) for key in written if key in NOT_BESIDE_LINK]
    if ctx.data.get("mixed_precision") is not None:
        paths.append(("mixed_precision",))
    for path in paths:
        top = len(path) == 1
        yield ctx.at(
            path,
            f"`{path[-1]}` stands beside `{LINK}`, which Accelerate refuses"
            + (", unless `--mixed_precision` is given too" if top else ""),
            help=f"remove it, and say it in {quoted(written[LINK])}",
            part="key",
            related=[("the config is named here", in_block(LINK))],
            fix=removal(path),
        )


@rule("DSC827", effect="ignored", source=ENVIRONMENT, reads="launch file")
def inclusion_beside_exclusion(ctx: Context) -> Iterator[Finding]:
    """The launch file's block has both filters of hosts, and the inclusion filter loses.

    Bad:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2,
        "deepspeed_inclusion_filter": "worker-0", "deepspeed_exclusion_filter": "worker-1"}}

    Good:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2,
        "deepspeed_exclusion_filter": "worker-1"}}
    """
    written = launched(ctx)
    keys = ("deepspeed_inclusion_filter", "deepspeed_exclusion_filter")
    if all(written.get(key) is not None for key in keys):
        yield ctx.at(
            in_block(keys[0]),
            f"`{keys[0]}` has no effect beside `{keys[1]}`",
            help="keep one of them",
            part="key",
            related=[("the other stands here", in_block(keys[1]))],
        )
