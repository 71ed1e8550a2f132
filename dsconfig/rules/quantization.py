"""Mixture of Quantization, and weights that are quantized while `zero.Init` builds the model."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import Json
from dsconfig.core.wording import describe_value, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import MISSING, Context, Finding
from dsconfig.rules._effective_values import describe_stage, effective_stage, related_stage

# Mixture of Quantization: when DeepSpeed opens `quantize_training.eigenvalue`, and what it then rejects.

_MOQ = "quantize_training"
_EIGENVALUE = f"{_MOQ}.eigenvalue"
_SWITCH = "compression_training.shared_parameters.enabled"
_SOURCE = "runtime/config.py:get_eigenvalue_config"


def _quantization_switch(ctx: Context) -> str | None:
    """Return the key that makes the release read `quantize_training`, or None if none does.

    Since 0.7.0, it is a misplaced key.
    """
    if ctx.between("0.7.0", "0.19.2"):
        return None  # DeepSpeed rejects the config earlier: see `shared-parameters-outside-technique`
    if ctx.before("0.7.0"):
        return f"{_MOQ}.enabled" if ctx.is_on(f"{_MOQ}.enabled") else None
    switch = ctx.raw(_SWITCH)
    return _SWITCH if switch is not MISSING and switch else None


@rule("DSC955", effect="rejected", since="0.4.0", until="0.19.6", source=_SOURCE)
def eigenvalue_not_an_object(ctx: Context) -> Iterator[Finding]:
    """`quantize_training.eigenvalue` is not an object, but DeepSpeed looks up keys in it.

    Up to 0.6.7, DeepSpeed opens it if `quantize_training` is enabled. From 0.19.3 to 0.19.6, it does so if a
    misplaced `compression_training.shared_parameters` is enabled. `quantize_training` itself then has to be
    an object or null.

    Bad, release 0.6.7:

        {"train_batch_size": 8, "quantize_training": {
            "enabled": true, "quantize_bits": {"target_bits": 8}, "eigenvalue": false}}

    Good, release 0.6.7:

        {"train_batch_size": 8, "quantize_training": {
            "enabled": true, "quantize_bits": {"target_bits": 8}, "eigenvalue": {"enabled": false}}}
    """
    switch = _quantization_switch(ctx)
    section = ctx.raw(_MOQ)
    if switch is None or section is MISSING:
        return
    if ctx.since("0.7.0") and section is not None and not isinstance(section, dict):
        yield _report_not_an_object(ctx, _MOQ, section, switch)
    if isinstance(section, dict) and not isinstance(section.get("eigenvalue", {}), dict):
        yield _report_not_an_object(ctx, _EIGENVALUE, section["eigenvalue"], switch)


def _report_not_an_object(ctx: Context, path: str, value: Json, switch: str) -> Finding:
    return ctx.at(
        path,
        f"`{path.rsplit('.', 1)[-1]}` is {describe_value(value)} but DeepSpeed expects an object",
        help="remove the section to use its defaults",
        related=[("DeepSpeed opens it because this is true", switch)],
    )


@rule("DSC956", effect="rejected", since="0.19.3", until="0.19.6", source=_SOURCE)
def eigenvalue_switched_on(ctx: Context) -> Iterator[Finding]:
    """`quantize_training.eigenvalue` is enabled, which DeepSpeed rejects.

    DeepSpeed 0.7.0 removed quantization by eigenvalues. From 0.19.3 to 0.19.6 it still reads this key if a
    misplaced `compression_training.shared_parameters` is enabled.

    Bad:

        {"train_batch_size": 8, "compression_training": {"shared_parameters": {"enabled": true}},
            "quantize_training": {"eigenvalue": {"enabled": true}}}

    Good:

        {"train_batch_size": 8, "compression_training": {"shared_parameters": {"enabled": true}},
            "quantize_training": {"eigenvalue": {"enabled": false}}}
    """
    switch = _quantization_switch(ctx)
    enabled = ctx.raw(f"{_EIGENVALUE}.enabled")
    if switch is not None and enabled is not MISSING and enabled:
        yield ctx.at(
            f"{_EIGENVALUE}.enabled",
            f"`eigenvalue.enabled` is {quote_value(enabled)}, but DeepSpeed no longer quantizes by eigenvalues",
            help="remove `quantize_training`, and move `shared_parameters` into a compression technique",
            related=[("DeepSpeed reads it because this is true", switch)],
        )


# Weights quantized while `zero.Init` builds the model.


@rule(
    "DSC991",
    effect="ignored",
    since="0.10.3",
    source="runtime/zero/partition_parameters.py:InsertPostInitMethodToModuleSubClasses.__init__",
)
def quantized_initialization_below_stage_3(ctx: Context) -> Iterator[Finding]:
    """`weight_quantization.quantized_initialization` is set, but the ZeRO stage is not 3.

    Weights are quantized while `zero.Init` builds the model, which is part of stage 3.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "weight_quantization": {
            "quantized_initialization": {
                "num_bits": 4, "group_size": 64, "group_dim": 1, "symmetric": false}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}, "weight_quantization": {
            "quantized_initialization": {
                "num_bits": 4, "group_size": 64, "group_dim": 1, "symmetric": false}}}
    """
    path = "weight_quantization.quantized_initialization"
    if not isinstance(ctx.data.get("weight_quantization"), dict):
        return
    if ctx.has(path) and ctx.raw(path) and effective_stage(ctx) != 3:
        yield ctx.at(
            path,
            f"`quantized_initialization` works only in `zero.Init` at stage 3, and {describe_stage(ctx)}",
            help="use stage 3, or remove it",
            part="key",
            related=related_stage(ctx),
        )
