"""`aio`: a section that nothing uses, invalid sizes, and GPUDirect Storage."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._effective_values import OPTIMIZER, PARAM, effective_stage, is_number, offload_device
from dsconfig.rules._fixes import remove_key


def _uses_async_io(ctx: Context) -> bool:
    """Return whether ZeRO swaps to NVMe or the fast checkpoint writer is on."""
    swaps = (
        "nvme" in (offload_device(ctx, OPTIMIZER), offload_device(ctx, PARAM)) and effective_stage(ctx) == 3
    )
    return swaps or ctx.has("checkpoint.writer")


@rule("DSC475", effect="ignored", since="0.3.15", source="runtime/swap_tensor/aio_config.py:get_aio_config")
def aio_without_nvme(ctx: Context) -> Iterator[Finding]:
    """The `aio` section has no effect, because nothing uses asynchronous I/O.

    Only two features read the section: offload to NVMe (ZeRO stage 3 with the device "nvme") and the fast
    checkpoint writer (`checkpoint.writer`).

    Bad:

        {"train_batch_size": 8, "aio": {"queue_depth": 32},
        "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "aio": {"queue_depth": 32},
        "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/local_nvme"}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}
    """
    if not ctx.has("aio") or not isinstance(ctx.value("aio"), dict) or not ctx.value("aio"):
        return
    if not _uses_async_io(ctx):
        yield ctx.at(
            "aio",
            '`aio` has no effect: no offload section at stage 3 uses the device `"nvme"`, and'
            " `checkpoint.writer` is not set",
            help='remove it, or offload to `"nvme"` at stage 3',
            part="key",
            fix=remove_key(("aio",)),
        )


_COUNTS = ("block_size", "queue_depth", "intra_op_parallelism", "thread_count")


@rule(
    "DSC476", effect="crashes", since="0.3.15", source="csrc/aio/common/deepspeed_aio_types.cpp:aio_context"
)
def aio_number_not_positive(ctx: Context) -> Iterator[Finding]:
    """A size or count in `aio` is 0 or negative, and tensors are swapped to NVMe.

    DeepSpeed does not validate these numbers when it loads the config. The native I/O handle divides by some
    of them and allocates queues of others, and Python rounds sizes to multiples of the number of threads.

    Bad:

        {"train_batch_size": 8, "aio": {"queue_depth": 0},
        "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/local_nvme"}}}

    Good:

        {"train_batch_size": 8, "aio": {"queue_depth": 8},
        "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/local_nvme"}}}

    Fixed:

        {"train_batch_size": 8, "aio": {},
        "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/local_nvme"}}}
    """
    section = ctx.value("aio") if ctx.has("aio") else None
    if not isinstance(section, dict):
        return
    for name in _COUNTS:
        number = section.get(name)
        if not is_number(number) or number > 0 or not _uses_async_io(ctx):
            continue
        default = ctx.default(f"aio.{name}")
        yield ctx.at(
            f"aio.{name}",
            f"`{name}` is {quote_value(number)}, but must be at least 1; DeepSpeed does not validate it when it"
            " loads the config",
            help=f"set it to a positive integer, or remove it: the default is {default}",
            fix=remove_key(("aio", name)),
        )


@rule("DSC477", effect="wasteful", since="0.15.0", source="runtime/swap_tensor/aio_config.py:get_aio_config")
def gds_needs_cuda(ctx: Context) -> Iterator[Finding]:
    """`aio.use_gds` makes the config fail on machines without CUDA.

    DeepSpeed queries the accelerator when it loads the config, and rejects `use_gds` unless it is "cuda", even if
    nothing is swapped to NVMe. dsconfig assumes a machine with CUDA, so this diagnostic is informational.

    Bad:

        {"train_batch_size": 8, "aio": {"use_gds": true},
        "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/local_nvme"}}}

    Good:

        {"train_batch_size": 8, "aio": {"use_gds": false},
        "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/local_nvme"}}}
    """
    path = "aio.use_gds"
    if ctx.has(path) and ctx.is_on(path):
        yield ctx.at(
            path,
            '`use_gds` needs CUDA: on other machines DeepSpeed rejects the config ("GDS currently only supported'
            ' for CUDA accelerator")',
            help="keep it for machines with CUDA, GPUDirect Storage and a supported NVMe drive, or set it to"
            " `false`",
        )
