""" "auto" that no consumer fills."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import dotted
from dsconfig.core.json_types import Json
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._suggest_section import named
from dsconfig.rules.consumers._reader import FILL, INIT, overwritten, reader

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


def _autos(section: Mapping[str, Json], path: KeyPath) -> Iterator[KeyPath]:
    """Every "auto" in objects; lists are not looked into, as Accelerate does not."""
    for key, value in section.items():
        if isinstance(value, dict):
            yield from _autos(value, (*path, key))
        elif value == "auto" and isinstance(value, str):
            yield (*path, key)


@rule("DSC801", effect="rejected", source=FILL, general=True)
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
    if not ctx.plugged:
        return
    from dsconfig.consumers.registry import BY_NAME, consumer_of

    fills = {fill.key for fill in consumer_of(ctx.spec).fills}
    unknown = {event.path for event in ctx.walk.unknown}
    for path in _autos(ctx.data, ()):
        inside = any(path[:length] in unknown for length in range(1, len(path)))
        if inside or dotted(path) in fills or overwritten(ctx, path):
            continue
        elsewhere = ctx.consumer == "accelerate" and BY_NAME["transformers"].origin(dotted(path))
        yield ctx.at(
            path,
            f'{named(path)} is `"auto"`, which {reader(ctx)} does not fill: it raises that '
            f"`{dotted(path)}` is not found in kwargs",
            help=f"give a value; only Transformers' Trainer fills it, from {elsewhere}"
            if elsewhere
            else "give a value, or remove the key",
        )


_CONSTANTS = (
    ("zero_optimization.stage", "`2`", "ZeRO is at stage 2"),
    ("zero_optimization.offload_optimizer.device", '`"none"`', "the optimizer is not offloaded"),
    ("zero_optimization.offload_param.device", '`"none"`', "parameters are not offloaded"),
    ("zero_optimization.offload_optimizer.nvme_path", '`"none"`', "which is not a path"),
    ("zero_optimization.offload_param.nvme_path", '`"none"`', "which is not a path"),
    (
        "zero_optimization.stage3_gather_16bit_weights_on_model_save",
        "`false`",
        "no whole 16-bit model is saved under stage 3",
    ),
)


@rule("DSC805", effect="altered", source=INIT)
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
    if ctx.consumer != "transformers" or not ctx.plugged:
        return
    for key, becomes, outcome in _CONSTANTS:
        if ctx.written(key) == "auto":
            yield ctx.at(
                key,
                f'{named(ctx.place(key))} is `"auto"`, which no training argument fills: it becomes '
                f"{becomes} ({outcome}), unless `accelerate launch` says otherwise",
                help="write the value that you want",
            )
