"""Values that DeepSpeed takes, and Accelerate's plugin fails on."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.consumers import HUGGING_FACE
from dsconfig.core.batch_triplet import KEYS
from dsconfig.core.diagnostic import Fix, Set, dotted
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.schema_condition import Condition, Counts, Needed
from dsconfig.rules._fixes import removal
from dsconfig.rules._suggest_section import named
from dsconfig.rules.consumers._reader import FILL, INIT, does, reader


@rule(
    "DSC802",
    effect="rejected",
    source=INIT,
    conditions=(
        Condition(
            "Config",
            (Counts("autotuning.enabled", (False,)),),
            Needed("zero_optimization"),
            consumers=HUGGING_FACE,
        ),
    ),
)
def missing_zero_optimization(ctx: Context) -> Iterator[Finding]:
    """The config has no `zero_optimization`, which Accelerate's plugin asks for.

    DeepSpeed takes its absence for stage 0. Transformers' Trainer makes the same plugin, and so refuses the
    config too. Where `autotuning` is on, neither gets to see the file: the launcher writes others with a
    stage in them (autotuning/autotuner.py:Autotuner.tune).

    Bad, read by transformers:

        {"train_batch_size": "auto", "bf16": {"enabled": "auto"}}

    Good, read by transformers:

        {"train_batch_size": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 0}}
    """
    if ctx.plugged and "zero_optimization" not in ctx.data and not _is_tuned(ctx):
        yield ctx.at(
            ("zero_optimization",),
            f"`zero_optimization` is absent, and {reader(ctx)} refuses a config without it",
            help='add `"zero_optimization": {"stage": 0}` to train as DeepSpeed does without the section',
            part="key",
            fix=Fix(
                "add `zero_optimization` with stage 0", (Set(("zero_optimization",), {"stage": 0}),), True
            ),
        )


def _is_tuned(ctx: Context) -> bool:
    block = ctx.data.get("autotuning")
    return isinstance(block, dict) and block.get("enabled") is True


@rule("DSC806", effect="rejected", source="accelerate accelerator.py:Accelerator._prepare_deepspeed")
def null_that_accelerate_opens(ctx: Context) -> Iterator[Finding]:
    """A section is null, which DeepSpeed takes, and Accelerate opens.

    `Accelerator.prepare` asks `offload_optimizer` for its device wherever the script brings the optimizer,
    and `tensor_parallel` for its size; on null it ends in an AttributeError.

    Bad, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2, "offload_optimizer": null}}

    Good, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}

    Fixed, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if not ctx.plugged:
        return
    zero = ctx.data.get("zero_optimization")
    opened = "tensor_parallel" in ctx.data and does(ctx, "tensor_parallel")
    sections: list[tuple[str, ...]] = [("tensor_parallel",)] if opened else []
    own = "optimizer" not in ctx.data and does(ctx, "own_offload")
    if own and isinstance(zero, dict) and "offload_optimizer" in zero:
        sections.append(("zero_optimization", "offload_optimizer"))
    refused = {event.path for event in ctx.walk.refused}
    for path in sections:
        if ctx.written(dotted(path)) is None and path not in refused:
            yield ctx.at(
                path,
                f"{named(path)} is `null`: DeepSpeed takes that, but {reader(ctx)} opens it and fails",
                help="remove it",
                fix=removal(path, safe=True),
            )


@rule("DSC807", effect="rejected", source=FILL)
def zero_switch_that_accelerate_opens(ctx: Context) -> Iterator[Finding]:
    """`zero_optimization` is true or false, which DeepSpeed takes, and Accelerate opens.

    DeepSpeed still reads the boolean of its first releases, true as stage 1. Accelerate's plugin looks for
    keys in it, and ends in an AttributeError.

    Bad, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": true}

    Good, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 1}}

    Fixed, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 1}}
    """
    value = ctx.data.get("zero_optimization")
    if ctx.plugged and isinstance(value, bool):
        section = {"stage": int(value)}
        yield ctx.at(
            "zero_optimization",
            f"`zero_optimization` is {quoted(value)}: DeepSpeed takes that, but {reader(ctx)} opens it and "
            "fails",
            help=f"write {quoted(section)}",
            fix=Fix(f"replace by {quoted(section)}", (Set(("zero_optimization",), section),), safe=True),
        )


@rule("DSC808", effect="rejected", source="accelerate accelerator.py:Accelerator._prepare_deepspeed")
def text_beside_filled_batch_key(ctx: Context) -> Iterator[Finding]:
    """A batch key is a text, and another is "auto" and calculated from it.

    Accelerate multiplies micro batch, accumulation steps and processes, and fails on a number in quotes; the
    Trainer holds the text against its own number too, and finds that they differ.

    Bad, read by accelerate:

        {"train_batch_size": "auto", "gradient_accumulation_steps": "8",
        "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}

    Good, read by accelerate:

        {"train_batch_size": "auto", "gradient_accumulation_steps": 8,
        "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}

    Fixed, read by accelerate:

        {"train_batch_size": "auto", "gradient_accumulation_steps": 8,
        "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}
    """
    if not ctx.plugged or all(ctx.data.get(key) != "auto" for key in KEYS):
        return
    for key in KEYS:
        value = ctx.data.get(key)
        if isinstance(value, str) and value != "auto":
            digits = value.isascii() and value.isdigit() and len(value) < 20
            yield ctx.at(
                (key,),
                f"`{key}` is the string {quoted(value)}, which {reader(ctx)} cannot calculate with",
                help=f"write {value}, without quotes" if digits else "give an integer",
                fix=Fix("remove the quotes", (Set((key,), int(value)),), safe=True) if digits else None,
            )
