"""Stage 3 alone: fetching ahead, names without prefix, and what is saved."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.consumers import HUGGING_FACE
from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules._move_fix import renamed
from dsconfig.rules._stage import ZERO, stage, zero
from dsconfig.rules.consumers._reader import reader


@rule(
    "DSC451",
    effect="altered",
    since="0.18.5",
    source="runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer",
)
def prefetch_beside_sequential_gather(ctx: Context) -> Iterator[Finding]:
    """`stage3_prefetch_bucket_size` is written, and `stage3_allgather_sequential` sets it to 1.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_allgather_sequential": true,
        "stage3_prefetch_bucket_size": 50000000}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_allgather_sequential": true}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_allgather_sequential": true}}
    """
    path, sequential = f"{ZERO}.stage3_prefetch_bucket_size", f"{ZERO}.stage3_allgather_sequential"
    if not (ctx.has(path) and ctx.has(sequential)):
        return
    if ctx.on(sequential) and ctx.value(path) != 1 and stage(ctx) == 3:
        yield ctx.at(
            path,
            f"`{ctx.place(path)[-1]}` is {quoted(ctx.value(path))} and counts as 1, because"
            f" `{ctx.place(sequential)[-1]}` is on",
            help="remove it, or set `stage3_allgather_sequential` to `false`",
            related=[("parameters are gathered one by one here", sequential)],
            fix=removal(ctx.place(path)),
        )


@rule(
    "DSC452",
    effect="rejected",
    since="0.7.0",
    source="accelerate utils/dataclasses.py:DeepSpeedPlugin.deepspeed_config_process",
)
def bare_name_left_to_fill(ctx: Context) -> Iterator[Finding]:
    """A stage-3 key is "auto" under its name without `stage3_`, which the consumer does not fill.

    DeepSpeed reads `prefetch_bucket_size` like `stage3_prefetch_bucket_size`. Transformers and Accelerate
    know the long names only, and raise for every "auto" that is left.

    Bad, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "prefetch_bucket_size": "auto"}}

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "auto"}}

    Fixed, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "auto"}}
    """
    if not ctx.plugged:
        return
    for name in zero(ctx):
        path = f"{ZERO}.{name}"
        if not name.startswith("stage3_") or ctx.place(path)[-1] == name or ctx.written(path) != "auto":
            continue
        bare = ctx.place(path)[-1]
        yield ctx.at(
            path,
            f'`{bare}` is `"auto"`, which {reader(ctx)} fills only under `{name}`: it raises that '
            f"`{ZERO}.{bare}` is not found in kwargs",
            help=f"rename it to `{name}`",
            fix=renamed(ctx, ctx.place(path), name, "auto", title=f"rename it `{name}`"),
        )


@rule(
    "DSC453",
    effect="altered",
    since="0.6.0",
    source="runtime/engine.py:DeepSpeedEngine.save_16bit_model,"
    " accelerate accelerator.py:Accelerator.get_state_dict",
)
def model_saved_without_weights(ctx: Context) -> Iterator[Finding]:
    """At stage 3 nothing gathers the weights when the consumer saves the model.

    Each rank holds a share of every weight. Unless `stage3_gather_16bit_weights_on_model_save` is true, the
    model that Transformers' Trainer saves has no weights in it, and they have to be put together from the
    ZeRO checkpoint by `zero_to_fp32.py`. Accelerate's `get_state_dict` and `save_model` raise instead, at the
    end of the training. What its launch file says in a block is DSC828.

    Bad, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3}}

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3,
        "stage3_gather_16bit_weights_on_model_save": true}}

    Fixed, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3,
        "stage3_gather_16bit_weights_on_model_save": true}}
    """
    path = f"{ZERO}.stage3_gather_16bit_weights_on_model_save"
    old = f"{ZERO}.stage3_gather_fp16_weights_on_model_save"
    if ctx.consumer not in HUGGING_FACE or not zero(ctx):
        return
    if not ctx.on(path) and not ctx.on(old) and stage(ctx) == 3:
        said = f"is {quoted(ctx.value(path))}" if ctx.has(path) else "is absent, and so `false`"
        trainer = ctx.consumer == "transformers"
        yield ctx.at(
            path,
            f"`stage3_gather_16bit_weights_on_model_save` {said}: "
            + ("the Trainer saves a ZeRO checkpoint, but no model weights" if trainer else _RAISES),
            help="write `true`, or put the weights together with `zero_to_fp32.py` afterwards",
            fix=Fix("gather the weights on save", (Set(ctx.place(path), True),)),
        )


_RAISES = "Accelerate's `get_state_dict` and `save_model` raise when the model is to be saved"
