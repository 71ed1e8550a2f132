"""What Transformers, Accelerate and Lightning make of a config before DeepSpeed sees it: values that they
cannot fill, forbid, or write over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dsconfig.batch.triplet import KEYS
from dsconfig.diagnostic import Fix, Path, Remove, Set, dotted
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.words import quoted

_PLUGIN = ("transformers", "accelerate")
"""Both hand the config to Accelerate's plugin, and both go through `Accelerator.prepare`."""
_FILL = "accelerate utils/dataclasses.py:DeepSpeedPlugin.deepspeed_config_process"
_INIT = "accelerate utils/dataclasses.py:DeepSpeedPlugin.__post_init__"


def _reader(ctx: Context) -> str:
    return "the Trainer" if ctx.consumer == "transformers" else ctx.consumer.capitalize()


def _autos(section: Mapping[str, Any], path: Path) -> Iterator[Path]:
    """Every "auto" in objects; lists are not looked into, as Accelerate does not."""
    for key, value in section.items():
        if isinstance(value, dict):
            yield from _autos(value, (*path, key))
        elif value == "auto" and isinstance(value, str):
            yield (*path, key)


@rule("DSC801", effect="rejected", source=_FILL)
def auto_that_nobody_fills(ctx: Context) -> Iterator[Finding]:
    """A value is "auto", and the program that reads the config neither fills it nor lets it pass.

    Transformers' Trainer and Accelerate fill some twenty keys. `Accelerator.prepare` then looks through the
    whole config and raises for every "auto" that is left, also for keys where DeepSpeed itself would take the
    word. `betas` and `eps` of the optimizer are filled by the Trainer alone.

    Bad, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "stage3_max_live_parameters": "auto"}}

    Good, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}}
    """
    if ctx.consumer not in _PLUGIN:
        return
    from dsconfig.consumers import BY_NAME

    fills = {fill.key for fill in BY_NAME[ctx.consumer].fills}
    unknown = {event.path for event in ctx.walk.unknown}
    for path in _autos(ctx.data, ()):
        inside = any(path[:length] in unknown for length in range(1, len(path)))
        if inside or dotted(path) in fills or _overwritten(ctx, path):
            continue
        elsewhere = ctx.consumer == "accelerate" and BY_NAME["transformers"].origin(dotted(path))
        yield ctx.at(
            path,
            f'`{path[-1]}` is `"auto"`, which {_reader(ctx)} does not fill: it raises that '
            f"`{dotted(path)}` is not found in kwargs",
            help=f"give a value; only Transformers' Trainer fills it, from {elsewhere}"
            if elsewhere
            else "give a value, or remove the key",
        )


def _overwritten(ctx: Context, path: Path) -> bool:
    """Whether Accelerate writes its own value there before it looks for what is not filled."""
    own_optimizer = path == ("zero_allow_untested_optimizer",) and "optimizer" not in ctx.data
    return path == ("steps_per_print",) or own_optimizer


@rule("DSC802", effect="rejected", source=_INIT)
def missing_zero_optimization(ctx: Context) -> Iterator[Finding]:
    """The config has no `zero_optimization`, which Accelerate's plugin asks for.

    DeepSpeed takes its absence for stage 0. Transformers' Trainer makes the same plugin, and so refuses the
    config too.

    Bad, read by transformers:

        {"train_batch_size": "auto", "bf16": {"enabled": "auto"}}

    Good, read by transformers:

        {"train_batch_size": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 0}}
    """
    if ctx.consumer in _PLUGIN and "zero_optimization" not in ctx.data:
        yield ctx.at(
            ("zero_optimization",),
            f"`zero_optimization` is absent, and {_reader(ctx)} refuses a config without it",
            help='write `"zero_optimization": {"stage": 0}` to train as DeepSpeed does without the section',
            part="key",
            fix=Fix(
                "add `zero_optimization` with stage 0", (Set(("zero_optimization",), {"stage": 0}),), True
            ),
        )


@rule("DSC803", effect="rejected", source="lightning strategies/deepspeed.py:DeepSpeedStrategy")
def accumulation_in_lightning_config(ctx: Context) -> Iterator[Finding]:
    """`gradient_accumulation_steps` is written, which Lightning's Trainer sets itself.

    The strategy writes its own `accumulate_grad_batches` there, and raises where the key is taken.

    Bad, read by lightning:

        {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}

    Good, read by lightning:

        {"train_micro_batch_size_per_gpu": 4}

    Fixed, read by lightning:

        {"train_micro_batch_size_per_gpu": 4}
    """
    key = "gradient_accumulation_steps"
    if ctx.consumer == "lightning" and key in ctx.data:
        yield ctx.at(
            (key,),
            f"`{key}` is {quoted(ctx.data[key])} here, and Lightning refuses a config that has the key",
            help=f"remove it, and give the Trainer `accumulate_grad_batches={ctx.data[key]}`",
            part="key",
            fix=Fix(f"remove `{key}`", (Remove((key,)),)),
        )


@rule("DSC804", effect="altered", source=_INIT)
def value_that_the_consumer_overwrites(ctx: Context) -> Iterator[Finding]:
    """A value is written, and Accelerate writes its own over it.

    `steps_per_print` becomes infinity in every config that Accelerate or Transformers' Trainer reads, so that
    DeepSpeed prints no progress. `zero_allow_untested_optimizer` becomes true where the config has no
    `optimizer`, and the script's own is used.

    Bad, read by transformers:

        {"train_batch_size": "auto", "steps_per_print": 100, "zero_optimization": {"stage": 2}}

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}

    Fixed, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if ctx.consumer not in _PLUGIN:
        return
    for key, becomes in (("steps_per_print", "infinity"), ("zero_allow_untested_optimizer", "`true`")):
        value = ctx.data.get(key, MISSING)
        if value is MISSING or not _overwritten(ctx, (key,)) or (value and key != "steps_per_print"):
            continue
        yield ctx.at(
            (key,),
            f"`{key}` is {quoted(value)} here, but {_reader(ctx)} makes it {becomes}, whatever is written",
            help="remove it",
            fix=Fix(f"remove `{key}`", (Remove((key,)),), safe=True),
        )


_CONSTANTS = (
    ("zero_optimization.stage", "`2`", "ZeRO is at stage 2"),
    ("zero_optimization.offload_optimizer.device", '`"none"`', "the optimizer is not offloaded"),
    ("zero_optimization.offload_param.device", '`"none"`', "parameters are not offloaded"),
    ("zero_optimization.offload_optimizer.nvme_path", '`"none"`', "which is no path"),
    ("zero_optimization.offload_param.nvme_path", '`"none"`', "which is no path"),
    (
        "zero_optimization.stage3_gather_16bit_weights_on_model_save",
        "`false`",
        "no whole 16-bit model is saved under stage 3",
    ),
)


@rule("DSC805", effect="altered", source=_INIT)
def auto_without_training_argument(ctx: Context) -> Iterator[Finding]:
    """A value is "auto", for which Transformers has no training argument, so that a constant takes its place.

    Accelerate's plugin, which the Trainer makes, fills these keys from environment variables that only
    `accelerate launch` sets; started in any other way, the constants apply: stage 2, no offload, no gathering
    of 16-bit weights.

    Bad, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": "auto"}}

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if ctx.consumer != "transformers":
        return
    for key, becomes, outcome in _CONSTANTS:
        if ctx.written(key) == "auto":
            yield ctx.at(
                key,
                f'`{key.rpartition(".")[2]}` is `"auto"`, which no training argument fills: it becomes '
                f"{becomes} ({outcome}), unless `accelerate launch` says otherwise",
                help="write the value that you want",
            )


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
    if ctx.consumer not in _PLUGIN:
        return
    zero = ctx.data.get("zero_optimization")
    sections: list[tuple[str, ...]] = [("tensor_parallel",)] if "tensor_parallel" in ctx.data else []
    if isinstance(zero, dict) and "offload_optimizer" in zero and "optimizer" not in ctx.data:
        sections.append(("zero_optimization", "offload_optimizer"))
    refused = {event.path for event in ctx.walk.refused}
    for path in sections:
        if ctx.written(dotted(path)) is None and path not in refused:
            yield ctx.at(
                path,
                f"`{path[-1]}` is `null`: DeepSpeed takes that, but {_reader(ctx)} opens it and fails",
                help="remove it",
                fix=Fix(f"remove `{path[-1]}`", (Remove(path),), safe=True),
            )


@rule("DSC807", effect="rejected", source=_FILL)
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
    if ctx.consumer in _PLUGIN and isinstance(value, bool):
        section = {"stage": int(value)}
        yield ctx.at(
            "zero_optimization",
            f"`zero_optimization` is {quoted(value)}: DeepSpeed takes that, but {_reader(ctx)} opens it and "
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
    if ctx.consumer not in _PLUGIN or all(ctx.data.get(key) != "auto" for key in KEYS):
        return
    for key in KEYS:
        value = ctx.data.get(key)
        if isinstance(value, str) and value != "auto":
            digits = value.isascii() and value.isdigit() and len(value) < 20
            yield ctx.at(
                (key,),
                f"`{key}` is the string {quoted(value)}, which {_reader(ctx)} cannot calculate with",
                help=f"write {value}, without quotes" if digits else "give an integer",
                fix=Fix("remove the quotes", (Set((key,), int(value)),), safe=True) if digits else None,
            )
