"""Offloading: paths that are never handed on."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.consumers.accelerate_launch_file import LINK
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules.consumers.launch_file._block import ENVIRONMENT, in_block, launched


@rule("DSC821", effect="ignored", source=ENVIRONMENT, reads="launch file")
def lost_nvme_path(ctx: Context) -> Iterator[Finding]:
    """Accelerate's block names an NVMe path, which is never handed on.

    The launcher passes the devices to the processes it starts, but not the two paths. With device `nvme` the
    config then holds the path `"none"`: a folder of that name in the working directory.

    Bad:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3,
        "offload_param_device": "nvme", "offload_param_nvme_path": "/local_nvme"}}

    Good:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"deepspeed_config_file": "ds_config.json"}}
    """
    written = launched(ctx)
    if LINK in written:
        return
    for name in ("offload_optimizer", "offload_param"):
        path = written.get(f"{name}_nvme_path")
        offloads = str(written.get(f"{name}_device")).lower() == "nvme"
        if offloads:
            yield ctx.at(
                in_block(f"{name}_device"),
                f'`{name}_device` is `"nvme"`, but `accelerate launch` hands no path on: it becomes '
                '`"none"`, a folder in the working directory',
                help=f"write a DeepSpeed config in JSON, with `nvme_path`, and name it by `{LINK}`",
                effect="altered",
            )
        if path is not None and path != "none":
            yield ctx.at(
                in_block(f"{name}_nvme_path"),
                f"`{name}_nvme_path` has no effect: `accelerate launch` does not hand it on",
                help=f"write `nvme_path` into a DeepSpeed config in JSON, and name it by `{LINK}`",
                part="key",
            )
