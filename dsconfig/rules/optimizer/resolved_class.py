"""What is built for a `type`: another class than it says, or one that does not fuse."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._built_class import optimizer, written_type
from dsconfig.rules._dtypes import model_format
from dsconfig.rules._fixes import removal
from dsconfig.rules._offload import offloaded
from dsconfig.rules._stage import stage_words, zero_stage

_ENGINE = "runtime/engine.py:DeepSpeedEngine"
_TYPE = "optimizer.type"


@rule(
    "DSC507",
    effect="altered",
    since="0.5.5",
    until="0.9.1",
    source=f"{_ENGINE}._configure_basic_optimizer",
)
def adagrad_that_is_adam(ctx: Context) -> Iterator[Finding]:
    """Type `Adagrad` without offloading builds Adam.

    Until 0.9.1 the name chose DeepSpeed's Adagrad for the CPU under offload, and FusedAdam everywhere else.

    Bad, release 0.8.3:

        {"train_batch_size": 8, "optimizer": {"type": "Adagrad", "params": {"lr": 0.01}}}

    Good, release 0.8.3:

        {"train_batch_size": 8, "optimizer": {"type": "Adagrad", "params": {"lr": 0.01}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    word = written_type(ctx, "optimizer")
    if word is not None and word.lower() == "adagrad" and not offloaded(ctx):
        yield ctx.at(
            _TYPE,
            f"`optimizer.type` is {quoted(word)}, but DeepSpeed {ctx.release_name} builds FusedAdam for it"
            " unless the optimizer is offloaded",
            help="upgrade DeepSpeed to 0.9.2 or later, or hand `torch.optim.Adagrad` to"
            " `deepspeed.initialize`",
        )


@rule("DSC508", effect="ignored", source=f"{_ENGINE}._configure_fp16_optimizer")
def legacy_fusion_unread(ctx: Context) -> Iterator[Finding]:
    """`legacy_fusion` is on where nothing reads it.

    Only the wrapper that trains in 16 bits without ZeRO does, and only around FusedAdam: type `Adam` or
    `AdamW`, neither offloaded nor with `torch_adam`.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "legacy_fusion": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true},
        "optimizer": {"type": "AdamW", "legacy_fusion": true}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}}
    """
    if not ctx.has("optimizer.legacy_fusion") or not ctx.on("optimizer.legacy_fusion"):
        return
    why = _not_fused(ctx)
    if why:
        yield ctx.at(
            "optimizer.legacy_fusion",
            f"`legacy_fusion` has no effect: it is for FusedAdam in 16 bits without ZeRO, and {why}",
            help="remove it",
            part="key",
            fix=removal(("optimizer", "legacy_fusion"), safe=True),
        )


def _not_fused(ctx: Context) -> str | None:
    if zero_stage(ctx) > 0:
        return stage_words(ctx)
    if model_format(ctx) == "fp32":
        return "the model trains in fp32"
    chosen = optimizer(ctx)
    if chosen is not None and chosen.built != "FusedAdam":
        return f"the optimizer is {chosen.built}"
    return None
