"""What DeepSpeed refuses of a `zero_optimization` section as soon as it loads the config."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix, Remove
from dsconfig.dialect import Refused, read
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._zero import stage, stage_place, stage_words
from dsconfig.words import expected, quoted

_CHECK = "runtime/config.py:DeepSpeedConfig._do_error_check"


@rule("DSC401", effect="rejected", until="0.3.16", source=_CHECK)
def zero_without_fp16(ctx: Context) -> Iterator[Finding]:
    """ZeRO is on and `fp16` is not.

    The first releases sharded half-precision training only; 0.3.16 dropped the demand for stages 2 and 3,
    0.4.0 for stage 1 as well.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}, "fp16": {"enabled": true}}
    """
    level = stage(ctx)
    if level > 0 and not ctx.on("fp16.enabled") and (ctx.before("0.3.16") or level < 2):
        yield ctx.at(
            stage_place(ctx),
            f"stage {level:g} needs `fp16`, which is not enabled",
            help="enable `fp16`; from 0.4.0 on ZeRO works without it",
            related=[("fp16 is switched here", "fp16.enabled")] if ctx.has("fp16") else [],
        )


@rule(
    "DSC402",
    effect="rejected",
    since="0.19.7",
    source="runtime/zero/config.py:DeepSpeedZeroConfig.compute_grad_norm_valid",
)
def gradient_norm_skipped_at_wrong_stage(ctx: Context) -> Iterator[Finding]:
    """`compute_grad_norm` is false, and the stage is neither 1 nor 2.

    Only the optimizer of stages 1 and 2 can leave the norm out.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "compute_grad_norm": false}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "compute_grad_norm": false}}
    """
    path = "zero_optimization.compute_grad_norm"
    if ctx.has(path) and not ctx.on(path) and stage(ctx) not in (1, 2):
        yield ctx.at(
            path,
            f"`compute_grad_norm` may be `false` only at ZeRO stage 1 or 2, but {stage_words(ctx)}",
            help="remove the key, or use stage 1 or 2",
            fix=Fix("remove `compute_grad_norm`", (Remove(ctx.place(path)),)),
        )


_REPLACED = (
    ("cpu_offload", "offload_optimizer"),
    ("cpu_offload_param", "offload_param"),
    ("stage3_gather_fp16_weights_on_model_save", "stage3_gather_16bit_weights_on_model_save"),
)
"""Old keys whose value DeepSpeed writes into their successor, which must then be absent."""


@rule(
    "DSC403",
    effect="rejected",
    since="0.7.0",
    source="runtime/config_utils.py:DeepSpeedConfigModel._process_deprecated_field",
)
def old_and_new_key_together(ctx: Context) -> Iterator[Finding]:
    """A deprecated key stands beside the key that replaced it.

    DeepSpeed refuses the two together whatever they say, null included.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "cpu_offload": true,
        "offload_optimizer": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    for old, new in _REPLACED:
        before, after = f"zero_optimization.{old}", f"zero_optimization.{new}"
        if _counts(ctx, before) and _counts(ctx, after):
            successor = str(ctx.place(after)[-1])
            yield ctx.at(
                before,
                f"`{old}` is the old name of `{successor}`, and DeepSpeed refuses the two together",
                help=f"keep `{successor}` alone",
                part="key",
                related=[(f"`{successor}` is set here", after)],
                fix=Fix(f"remove `{old}`", (Remove(ctx.place(before)),)),
            )


def _counts(ctx: Context, path: str) -> bool:
    """Whether the key is there for a section that drops every "auto" that nobody fills."""
    value = ctx.written(path)
    return value is not MISSING and (value != "auto" or ctx.value(path) == "auto")


@rule("DSC404", effect="rejected", since="0.7.0", source="runtime/zero/config.py:read_zero_config_deprecated")
def allgather_size_refused(ctx: Context) -> Iterator[Finding]:
    """`allgather_size` has a value that ZeRO does not take.

    Beside `"zero_optimization": true`, the first form of the section, DeepSpeed reads `allgather_size` as
    `zero_optimization.allgather_bucket_size`, and just as strictly.

    Bad:

        {"train_batch_size": 8, "zero_optimization": true, "allgather_size": -1}

    Good:

        {"train_batch_size": 8, "zero_optimization": true, "allgather_size": 500000000}
    """
    written = ctx.written("allgather_size")
    section, bucket = ctx.section("zero_optimization"), ctx.key("zero_optimization.allgather_bucket_size")
    if (
        ctx.written("zero_optimization") is not True
        or written is MISSING
        or section is None
        or bucket is None
    ):
        return
    if written != "auto" and isinstance(read(bucket.type, written, section.dialect), Refused):
        yield ctx.at(
            "allgather_size",
            f"`allgather_size` is {quoted(written)}, but must be {expected(bucket.type)}: it becomes"
            " `zero_optimization.allgather_bucket_size`",
            help=f"give {expected(bucket.type)}, or write `zero_optimization` as an object",
            related=[("the boolean form of ZeRO stands here", "zero_optimization")],
        )
