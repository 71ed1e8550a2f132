"""Legacy forms of `zero_optimization`: a boolean, and keys of removed implementations."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Operation, RemoveKey, SetValue
from dsconfig.core.json_types import JsonObject
from dsconfig.core.wording import describe_type, quote_value
from dsconfig.evaluation.coercion import RejectedValue, coerce
from dsconfig.evaluation.rule import KeyIsWritten, KeyMustBeAbsent, SchemaCondition, rule
from dsconfig.evaluation.rule_context import MISSING, Context, Finding
from dsconfig.rules._effective_values import ZERO, effective_stage
from dsconfig.rules._fixes import remove_key

# `zero_optimization` as a boolean, its form in the first release.


@rule("DSC140", effect="deprecated", source="runtime/zero/config.py:read_zero_config_deprecated")
def zero_optimization_as_boolean(ctx: Context) -> Iterator[Finding]:
    """`zero_optimization` is a boolean, as in the first releases.

    DeepSpeed still reads it, with a warning: true is stage 1 and false is stage 0. A top-level
    `allgather_size` becomes the `allgather_bucket_size` of the section.

    Bad:

        {"train_batch_size": 8, "zero_optimization": true}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}}
    """
    is_enabled = ctx.data.get(ZERO)
    if not isinstance(is_enabled, bool) or ctx.uses_plugin:  # Transformers and Accelerate raise: DSC807
        return
    section: JsonObject = {"stage": int(is_enabled)}
    operations: tuple[Operation, ...] = ()
    size = ctx.raw("allgather_size")
    if is_enabled and isinstance(size, int):
        section["allgather_bucket_size"] = size
        operations = (RemoveKey(("allgather_size",)),)
    yield ctx.at(
        ZERO,
        f"`{ZERO}` is {quote_value(is_enabled)}, a legacy form that means stage {int(is_enabled)}",
        help=f"replace it with {quote_value(section)}",
        fix=Fix(f"replace with {quote_value(section)}", (SetValue((ZERO,), section), *operations), safe=True),
    )


@rule("DSC404", effect="rejected", since="0.7.0", source="runtime/zero/config.py:read_zero_config_deprecated")
def allgather_size_refused(ctx: Context) -> Iterator[Finding]:
    """`allgather_size` has a value that ZeRO rejects.

    Together with `"zero_optimization": true`, the first form of the section, DeepSpeed reads `allgather_size`
    as `zero_optimization.allgather_bucket_size`, and validates it as strictly.

    Bad:

        {"train_batch_size": 8, "zero_optimization": true, "allgather_size": -1}

    Good:

        {"train_batch_size": 8, "zero_optimization": true, "allgather_size": 500000000}
    """
    size = ctx.raw("allgather_size")
    if size is MISSING or ctx.raw("zero_optimization") is not True:
        return
    section, bucket = ctx.section("zero_optimization"), ctx.key("zero_optimization.allgather_bucket_size")
    if section is None or bucket is None:
        return
    if size != "auto" and isinstance(coerce(bucket.type, size, section.dialect), RejectedValue):
        yield ctx.at(
            "allgather_size",
            f"`allgather_size` is {quote_value(size)}, but must be {describe_type(bucket.type)}: DeepSpeed reads it as"
            " `zero_optimization.allgather_bucket_size`",
            help=f"use {describe_type(bucket.type)}, or set `zero_optimization` to an object",
            related=[("the boolean form of ZeRO is here", "zero_optimization")],
        )


# Keys of removed implementations.

_WRAP = "runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer"


@rule(
    "DSC434",
    effect="ignored",
    since="0.5.9",
    source="runtime/engine.py:DeepSpeedEngine.zero_allgather_partitions",
)
def broadcast_of_partitions(ctx: Context) -> Iterator[Finding]:
    """`allgather_partitions` is false, to broadcast updated parameters.

    Only the first implementation of stage 1 supported this, and 0.5.9 removed it: DeepSpeed always
    all-gathers parameters. True, as in most examples, matches this behavior and is not reported.

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
            f"`allgather_partitions` is {quote_value(ctx.raw(path))}, but DeepSpeed ignores it since 0.5.9: it"
            " always all-gathers updated parameters",
            help="remove it",
            fix=remove_key(ctx.written_path(path), safe=True),
        )


_RENAMED_KEYS = (
    ("cpu_offload", "offload_optimizer"),
    ("cpu_offload_param", "offload_param"),
    ("stage3_gather_fp16_weights_on_model_save", "stage3_gather_16bit_weights_on_model_save"),
)
"""Deprecated keys whose value DeepSpeed copies to the new key, which must then be absent."""


def _describe_conflict(old: str, new: str) -> str:
    return f"`{old}` is the old name of `{new}`, and DeepSpeed rejects a config with both"


@rule(
    "DSC403",
    effect="rejected",
    since="0.7.0",
    source="runtime/config_utils.py:DeepSpeedConfigModel._process_deprecated_field",
    conditions=tuple(
        SchemaCondition(
            "ZeroOptimization",
            (KeyIsWritten(old), KeyIsWritten(new)),
            KeyMustBeAbsent(old, _describe_conflict(old, new)),
        )
        for old, new in _RENAMED_KEYS
    ),
)
def old_and_new_key_together(ctx: Context) -> Iterator[Finding]:
    """A deprecated key is set together with the key that replaced it.

    DeepSpeed rejects a config with both keys, whatever their values are, even null.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "cpu_offload": true,
        "offload_optimizer": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    for old, new in _RENAMED_KEYS:
        old_path, new_path = f"zero_optimization.{old}", f"zero_optimization.{new}"
        if _is_key_set(ctx, old_path) and _is_key_set(ctx, new_path):
            new_name = str(ctx.written_path(new_path)[-1])
            yield ctx.at(
                old_path,
                _describe_conflict(old, new_name),
                help=f"keep only `{new_name}`",
                part="key",
                related=[(f"`{new_name}` is set here", new_path)],
                fix=remove_key(ctx.written_path(old_path)),
            )


def _is_key_set(ctx: Context, path: str) -> bool:
    """Return whether a key is set; an "auto" that its section ignores does not count."""
    value = ctx.raw(path)
    return value is not MISSING and (value != "auto" or ctx.value(path) == "auto")


@rule("DSC435", effect="crashes", since="0.5.9", source=_WRAP)
def first_form_of_stage_1(ctx: Context) -> Iterator[Finding]:
    """`legacy_stage1` selects an implementation that DeepSpeed removed.

    Engine initialization fails at stages 1 to 3 with "The deprecated version of ZeRO Stage 1 is not
    supported".

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1, "legacy_stage1": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}}
    """
    path = f"{ZERO}.legacy_stage1"
    if ctx.has(path) and ctx.is_on(path) and effective_stage(ctx) > 0:
        yield ctx.at(
            path,
            "`legacy_stage1` selects the first implementation of stage 1, which DeepSpeed removed in 0.5.9:"
            " engine initialization fails",
            help="remove it; checkpoints of that implementation need DeepSpeed 0.5.8 or earlier",
            fix=remove_key(ctx.written_path(path)),
        )


@rule("DSC425", effect="crashes", until="0.3.15", source=_WRAP)
def stage_1_without_reduce_scatter(ctx: Context) -> Iterator[Finding]:
    """`reduce_scatter` is false at stage 1, whose first implementation requires it.

    DeepSpeed accepts the config, but engine initialization fails with "Stage 1 only supports reduce scatter
    mode".

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true},
        "zero_optimization": {"stage": 1, "reduce_scatter": false}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "zero_optimization": {"stage": 1}}
    """
    path = f"{ZERO}.reduce_scatter"
    if ctx.has(path) and not ctx.is_on(path) and effective_stage(ctx) == 1:
        yield ctx.at(
            path,
            f"`reduce_scatter` is {quote_value(ctx.value(path))}, but stage 1 of DeepSpeed {ctx.release_name}"
            " requires it",
            help="remove it, or upgrade DeepSpeed to 0.3.16 or later",
            fix=remove_key(ctx.written_path(path)),
        )
