"""Set-up and loop of the Python program that contradict its config: batches, schedules, and ranks set by hand."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.batch_triplet import MICRO
from dsconfig.core.wording import format_number
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules.consumers.program_calls import first_uses, is_named


@rule("DSC879", effect="ignored", source="runtime/engine.py:DeepSpeedEngine.train_micro_batch_size_per_gpu")
def loader_of_other_batch_size(ctx: Context) -> Iterator[Finding]:
    """The program's own data loader has another batch size than `train_micro_batch_size_per_gpu`.

    DeepSpeed creates batches only for `training_data` of `deepspeed.initialize`. A loader of the program decides
    itself how many samples a rank trains on, and DeepSpeed uses the key for nothing but its throughput and the check of
    the batch keys. The samples of a step are then not `train_batch_size`, which matters for the learning rate.

    Good:

        {"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": 2}}
    """
    if not is_named(ctx) or ctx.consumer != "deepspeed" or not ctx.has(MICRO) or ctx.overwrite(MICRO):
        return
    size = ctx.value(MICRO)
    if not isinstance(size, int) or isinstance(size, bool):
        return
    for use in first_uses(ctx, "loader of constant batch"):
        if use.value != size:
            yield ctx.at(
                MICRO,
                f"`{MICRO}` is {format_number(size)}, but {use.location} calls `{use.text}`: each rank trains on"
                f" {use.value} samples at a time, and DeepSpeed uses {format_number(size)} only to report throughput",
                help=f"set it to {use.value}, or change the loader",
            )


@rule("DSC815", effect="altered", source="accelerate accelerator.py:Accelerator._prepare_deepspeed")
def schedule_steps_divided_twice(ctx: Context) -> Iterator[Finding]:
    """The program divides the steps of `DummyScheduler` by the number of processes, as Accelerate does again.

    Accelerate fills `total_num_steps` with the number of `DummyScheduler` divided by the processes, because programs
    usually count the batches of a loader before `prepare` shards it. Steps that are divided already end the schedule
    after that fraction of the training. `warmup_num_steps` is not divided.

    Good, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    path = "scheduler.params.total_num_steps"
    if not is_named(ctx) or ctx.consumer != "accelerate" or ctx.world_size == 1 or ctx.raw(path) != "auto":
        return
    for use in first_uses(ctx, "steps divided by ranks"):
        yield ctx.at(
            path,
            f'`total_num_steps` is "auto": Accelerate divides the steps of `{use.text}` ({use.location}) by the number'
            " of processes, but the program has divided them already",
            help="pass the steps before the division, or write their number here",
        )


@rule("DSC878", effect="altered", source="torch distributed/rendezvous.py:_env_rendezvous_handler")
def ranks_set_by_hand(ctx: Context) -> Iterator[Finding]:
    """The program sets `RANK` and `WORLD_SIZE` to constants, as if it were one process of a launcher.

    DeepSpeed and PyTorch read the number of processes from these variables. Under a launcher every process then takes
    itself for the same rank. In a notebook there is one process: with `WORLD_SIZE` above 1 it waits for others that
    never start, and with 1 it trains on one GPU, so ZeRO partitions nothing. For several GPUs, write the program
    to a file and start it with `!deepspeed`.

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    for use in first_uses(ctx, "ranks set by hand"):
        is_notebook = any(name.endswith(".ipynb") for name in ctx.facts.program_files)
        where = f"{use.location} sets `{use.text}`"
        if is_notebook and use.value != 1:
            yield ctx.at(
                (),
                f"{where}, but a notebook runs as one process, which waits for {use.value} ranks",
                help='set it to "1" to train on one GPU, or write the program to a file and start it with `!deepspeed`',
            )
        elif is_notebook:
            yield ctx.at(
                (),
                f"{where}: the notebook trains on one GPU, whatever the machine has",
                help="for several GPUs, write the program to a file and start it with `!deepspeed`",
                effect="wasteful",
            )
        elif ctx.world_size is not None and ctx.world_size > 1 and use.value == 1:
            yield ctx.at(
                (),
                f"{where}, so each of the {ctx.world_size} processes of the launcher takes itself for the only one",
                help="remove the assignments: the launcher sets `RANK`, `LOCAL_RANK` and `WORLD_SIZE`",
            )
