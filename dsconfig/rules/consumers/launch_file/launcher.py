"""`distributed_type`: what is launched at all."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.consumers.accelerate_launch_file import BLOCK, DISTRIBUTED_TYPES
from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule

_LAUNCH = "accelerate commands/launch.py:_validate_launch_command"


@rule("DSC823", effect="ignored", source=_LAUNCH, reads="launch file")
def deepspeed_not_launched(ctx: Context) -> Iterator[Finding]:
    """The launch file has a block `deepspeed_config`, and launches something else.

    `distributed_type` decides; unless it is `DEEPSPEED`, the block is not looked at, and the run is plain
    data-parallel training (`--use_deepspeed` on the command line turns it round). Without the key Accelerate
    refuses the file.

    Bad:

        {"distributed_type": "MULTI_GPU", "deepspeed_config": {"zero_stage": 2}}

    Good:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2}}
    """
    key = "distributed_type"
    value = ctx.data.get(key)
    if value == "DEEPSPEED":
        return
    fix = Fix('set it to `"DEEPSPEED"`', (Set((key,), "DEEPSPEED"),))
    if key not in ctx.data:
        message = f"`{key}` is absent, and Accelerate refuses a file without it"
        yield ctx.at(
            (key,), message, help=f'write `{key}: "DEEPSPEED"`', effect="rejected", fix=fix, part="key"
        )
    elif value in DISTRIBUTED_TYPES:
        yield ctx.at(
            (key,),
            f"`{key}` is {quoted(value)}, so that `{BLOCK}` is not looked at",
            help='set it to `"DEEPSPEED"`, or remove the block',
            related=[("the block stands here", (BLOCK,))],
            fix=fix,
        )
    else:
        yield ctx.at(
            (key,),
            f"`{key}` is {quoted(value)}, which Accelerate does not know",
            help='set it to `"DEEPSPEED"`',
            effect="rejected",
            fix=fix,
        )
