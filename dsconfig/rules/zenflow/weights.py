"""The weights that ZenFlow trains."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._stage import stage, stage_set_here
from dsconfig.rules.zenflow._section import ZENFLOW, zenflow


@rule(
    "DSC493",
    effect="altered",
    since="0.19.7",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer._update_model_bit16_weights",
)
def zenflow_scrambles_weights(ctx: Context) -> Iterator[Finding]:
    """ZenFlow is on at stage 1 or 2, and the model is trained from other weights than those loaded.

    ZenFlow lays every matrix down transposed (`runtime/zenflow/zenflow_utils.py:_flatten_dense_tensors`).
    Up to 0.19.6 it was read so, too; from 0.19.7 on it is read row by row, and its numbers stand in other
    places as soon as the engine is built. Gradients are laid down transposed as well, and what waits for
    the update on the CPU reaches other weights than its own. Nothing is raised; a pretrained model starts
    with the loss of a random one.

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    if zenflow(ctx) and stage(ctx) in (1, 2):
        yield ctx.at(
            ZENFLOW,
            "`zenflow` at stages 1 and 2 reads matrices that it transposed as if they were not transposed:"
            " the model is trained from other weights than those that were loaded",
            help="remove it, use stage 3, or use DeepSpeed 0.19.6",
            part="key",
            related=stage_set_here(ctx),
        )
