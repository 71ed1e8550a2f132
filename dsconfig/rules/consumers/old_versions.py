"""What only earlier versions of Transformers and Accelerate refuse."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.batch_triplet import MICRO, STEPS
from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import compact
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._stage import stage, stage_set_here
from dsconfig.rules.consumers._reader import does


@rule("DSC811", effect="rejected", source="transformers 4.31 deepspeed.py:deepspeed_optim_sched")
def optimizer_without_scheduler(ctx: Context) -> Iterator[Finding]:
    """The config has an `optimizer` and no `scheduler`, which Transformers 4.30 to 4.33.2 refuses.

    DeepSpeed takes that, and so do earlier and later versions of the Trainer, which make the scheduler of
    their own arguments. Of those between, the Trainer raises "Found `optimizer` configured in the DeepSpeed
    config, but no `scheduler`".

    Bad, read by transformers==4.31:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2},
        "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}

    Good, read by transformers==4.31:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if ctx.consumer != "transformers" or not ctx.plugged or does(ctx, "own_schedule"):
        return
    if "optimizer" in ctx.data and "scheduler" not in ctx.data:
        yield ctx.at(
            ("scheduler",),
            "`scheduler` is absent beside `optimizer`, which the Trainer of Transformers "
            f"{ctx.version} refuses",
            help="remove `optimizer`; or add a `scheduler`; or use Transformers 4.33.3 or newer",
            part="key",
        )


@rule("DSC812", effect="rejected", source="accelerate 0.34 accelerator.py:Accelerator._prepare_deepspeed")
def micro_batch_absent_before_accelerate_1(ctx: Context) -> Iterator[Finding]:
    """`train_micro_batch_size_per_gpu` is absent, which Accelerate refuses before version 1.0.

    DeepSpeed works it out of the other two. Before 1.0 `Accelerator.prepare` calculates with the key before
    DeepSpeed gets to see the config, and ends in a KeyError or a TypeError.

    Bad, read by accelerate==0.34:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}

    Good, read by accelerate==0.34:

        {"train_batch_size": 8, "train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}

    Fixed, read by accelerate==0.34:

        {"train_batch_size": 8, "train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}
    """
    if ctx.consumer == "accelerate" and MICRO not in ctx.data and not does(ctx, "no_micro"):
        yield ctx.at(
            (MICRO,),
            f"`{MICRO}` is absent, and Accelerate {ctx.version} refuses a config without it",
            help='write "auto", which stands for the batch size of the data loader',
            part="key",
            fix=Fix(f'add `{MICRO}` as "auto"', (Set((MICRO,), "auto"),), safe=True),
        )


@rule("DSC813", effect="altered", since="0.16.0", source="runtime/engine.py:DeepSpeedEngine.no_sync")
def accumulation_under_no_sync(ctx: Context) -> Iterator[Finding]:
    """Gradients are accumulated under `no_sync`, which ZeRO stages 2 and 3 refuse from 0.16.0 on.

    Transformers 4.30 to 4.47.0 enters Accelerate's `no_sync` for every micro batch but the last of a step, as
    does a script that calls `accelerator.accumulate`; before 1.9 Accelerate hands that to the engine, which
    has had a `no_sync` since 0.16.0: "no_sync context manager is incompatible with gradient partitioning
    logic of ZeRO stage 2". A warning, because the other library's version is not known.

    Bad, read by transformers==4.46, release 0.16.0:

        {"train_batch_size": "auto", "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 2}}

    Good, read by transformers==4.46, release 0.16.0:

        {"train_batch_size": "auto", "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 1}}
    """
    steps = ctx.written(STEPS)
    accumulates = steps == "auto" or (isinstance(steps, int | float) and steps > 1)
    if not ctx.plugged or does(ctx, "no_sync") or not accumulates or stage(ctx) < 2:
        return
    trainer = ctx.consumer == "transformers"
    who = f"Transformers {ctx.version}" if trainer else "`accelerator.accumulate`"
    trainers = "use Transformers 4.47.1 or newer, or " if trainer else ""
    until = " where Accelerate is older than 1.9" if trainer else f" with Accelerate {ctx.version}"
    count = "more than one" if steps == "auto" else compact(steps)
    yield ctx.at(
        STEPS,
        f"with {count} accumulation steps {who} enters `no_sync`{until}, and DeepSpeed"
        f" {ctx.release_name} stops there at stage {compact(stage(ctx))}",
        help=f"{trainers}use Accelerate 1.9 or newer, or use stage 1, or use DeepSpeed before 0.16.0",
        related=stage_set_here(ctx),
    )
