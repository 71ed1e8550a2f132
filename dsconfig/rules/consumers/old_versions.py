"""What only earlier versions of Transformers and Accelerate refuse."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.batch import MICRO
from dsconfig.core.diagnostic import Fix, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
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
