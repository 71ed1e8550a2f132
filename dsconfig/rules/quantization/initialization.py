"""Weights that are quantised while `zero.Init` builds the model."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._stage import stage, stage_set_here, stage_words


@rule(
    "DSC991",
    effect="ignored",
    since="0.10.3",
    source="runtime/zero/partition_parameters.py:InsertPostInitMethodToModuleSubClasses.__init__",
)
def quantized_initialization_below_stage_3(ctx: Context) -> Iterator[Finding]:
    """`weight_quantization.quantized_initialization` is given, and ZeRO is not at stage 3.

    Weights are quantised while `zero.Init` builds the model, and that is part of stage 3.

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
    if ctx.has(path) and ctx.written(path) and stage(ctx) != 3:
        yield ctx.at(
            path,
            f"`quantized_initialization` works inside `zero.Init` of stage 3, and {stage_words(ctx)}",
            help="use stage 3, or remove it",
            part="key",
            related=stage_set_here(ctx),
        )
