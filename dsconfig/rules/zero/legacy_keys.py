"""Legacy forms of `zero_optimization`: a boolean, and keys of implementations that are gone."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Operation, Remove, Set
from dsconfig.core.json_types import JsonObject
from dsconfig.core.wording import expected, quoted
from dsconfig.evaluation.coercion import Rejected, read
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import Absent, Condition, Written, rule
from dsconfig.rules._effective_values import ZERO, stage
from dsconfig.rules._fixes import removal

# `zero_optimization` as a boolean, the form of the first release.


@rule("DSC140", effect="deprecated", source="runtime/zero/config.py:read_zero_config_deprecated")
def zero_optimization_as_boolean(ctx: Context) -> Iterator[Finding]:
    """`zero_optimization` is a boolean, as in the first release.

    DeepSpeed still reads it, with a warning: true is stage 1, false stage 0, and a top-level `allgather_size`
    is the `allgather_bucket_size` of the section.

    Bad:

        {"train_batch_size": 8, "zero_optimization": true}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}}
    """
    switch = ctx.data.get(ZERO)
    if not isinstance(switch, bool) or ctx.uses_plugin:  # which fail on it: DSC807
        return
    section: JsonObject = {"stage": int(switch)}
    operations: tuple[Operation, ...] = ()
    size = ctx.raw("allgather_size")
    if switch and isinstance(size, int):
        section["allgather_bucket_size"] = size
        operations = (Remove(("allgather_size",)),)
    yield ctx.at(
        ZERO,
        f"`{ZERO}` is {quoted(switch)}, the form of the first release: it means stage {int(switch)}",
        help=f"write {quoted(section)}",
        fix=Fix(f"write {quoted(section)}", (Set((ZERO,), section), *operations), safe=True),
    )


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
    written = ctx.raw("allgather_size")
    section, bucket = ctx.section("zero_optimization"), ctx.key("zero_optimization.allgather_bucket_size")
    if ctx.raw("zero_optimization") is not True or written is MISSING or section is None or bucket is None:
        return
    if written != "auto" and isinstance(read(bucket.type, written, section.dialect), Rejected):
        yield ctx.at(
            "allgather_size",
            f"`allgather_size` is {quoted(written)}, but must be {expected(bucket.type)}: it becomes"
            " `zero_optimization.allgather_bucket_size`",
            help=f"give {expected(bucket.type)}, or write `zero_optimization` as an object",
            related=[("the boolean form of ZeRO stands here", "zero_optimization")],
        )


# Keys of implementations that are gone.

_WRAP = "runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer"


@rule(
    "DSC434",
    effect="ignored",
    since="0.5.9",
    source="runtime/engine.py:DeepSpeedEngine.zero_allgather_partitions",
)
def broadcast_of_partitions(ctx: Context) -> Iterator[Finding]:
    """`allgather_partitions` is false, to broadcast updated parameters.

    Only the first implementation of stage 1 could do so, and that is gone since 0.5.9: parameters are
    collected by all-gather whatever the key says. true, as most examples have it, says what happens anyhow
    and is not reported.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_partitions": false}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    path = f"{ZERO}.allgather_partitions"
    if ctx.has(path) and not ctx.is_on(path):
        yield ctx.at(
            path,
            f"`allgather_partitions` is {quoted(ctx.raw(path))}, but DeepSpeed has not looked at it since"
            " 0.5.9: updated parameters are collected by all-gather",
            help="remove it",
            fix=removal(ctx.written_path(path), safe=True),
        )


_REPLACED = (
    ("cpu_offload", "offload_optimizer"),
    ("cpu_offload_param", "offload_param"),
    ("stage3_gather_fp16_weights_on_model_save", "stage3_gather_16bit_weights_on_model_save"),
)
"""Old keys whose value DeepSpeed writes into their successor, which must then be absent."""


def _both(old: str, new: str) -> str:
    return f"`{old}` is the old name of `{new}`, and DeepSpeed refuses the two together"


@rule(
    "DSC403",
    effect="rejected",
    since="0.7.0",
    source="runtime/config_utils.py:DeepSpeedConfigModel._process_deprecated_field",
    conditions=tuple(
        Condition("ZeroOptimization", (Written(old), Written(new)), Absent(old, _both(old, new)))
        for old, new in _REPLACED
    ),
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
            successor = str(ctx.written_path(after)[-1])
            yield ctx.at(
                before,
                _both(old, successor),
                help=f"keep `{successor}` alone",
                part="key",
                related=[(f"`{successor}` is set here", after)],
                fix=removal(ctx.written_path(before)),
            )


def _counts(ctx: Context, path: str) -> bool:
    """Whether the key is there for a section that drops every "auto" that nobody fills."""
    value = ctx.raw(path)
    return value is not MISSING and (value != "auto" or ctx.value(path) == "auto")


@rule("DSC435", effect="crashes", since="0.5.9", source=_WRAP)
def first_form_of_stage_1(ctx: Context) -> Iterator[Finding]:
    """`legacy_stage1` asks for an implementation that is gone.

    The engine stops at every stage from 1 on: "The deprecated version of ZeRO Stage 1 is not supported".

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1, "legacy_stage1": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}}
    """
    path = f"{ZERO}.legacy_stage1"
    if ctx.has(path) and ctx.is_on(path) and stage(ctx) > 0:
        yield ctx.at(
            path,
            "`legacy_stage1` asks for the first stage 1, which DeepSpeed dropped in 0.5.9: the engine stops"
            " as it starts",
            help="remove it; a checkpoint of that form needs DeepSpeed 0.5.8 or earlier",
            fix=removal(ctx.written_path(path)),
        )


@rule("DSC425", effect="crashes", until="0.3.15", source=_WRAP)
def stage_1_without_reduce_scatter(ctx: Context) -> Iterator[Finding]:
    """Stage 1 is told to all-reduce, and its first implementation only knows reduce-scatter.

    The config is accepted, and the engine stops: "Stage 1 only supports reduce scatter mode".

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true},
        "zero_optimization": {"stage": 1, "reduce_scatter": false}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "zero_optimization": {"stage": 1}}
    """
    path = f"{ZERO}.reduce_scatter"
    if ctx.has(path) and not ctx.is_on(path) and stage(ctx) == 1:
        yield ctx.at(
            path,
            f"`reduce_scatter` is {quoted(ctx.value(path))}, and stage 1 of DeepSpeed {ctx.release_name}"
            " cannot do without",
            help="remove it, or upgrade DeepSpeed to 0.3.16 or later",
            fix=removal(ctx.written_path(path)),
        )
