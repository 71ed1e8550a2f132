"""Which optimizers work well with offloading and partial offloading."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import NamedTuple
from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._built_class import known_names, names_a_class
from dsconfig.rules._fixes import removal
from dsconfig.rules._offload import OPTIMIZER, device, device_place
from dsconfig.rules._stage import ZERO, stage
from dsconfig.rules.offload._optimizer import asks_for_torch_adam, type_of


@rule(
    "DSC466",
    effect="crashes",
    since="0.12.3",
    source="runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.__init__",
)
def partial_offload_without_cpu_adam(ctx: Context) -> Iterator[Finding]:
    """`offload_optimizer.ratio` is below 1, and the optimizer is not DeepSpeed's Adam for the CPU.

    Only that one has a twin for the part that stays on the GPU: "Hybrid Optimizer Only Supports
    DeepSpeedCPUAdam". It is taken for `Adam` and `AdamW` without `torch_adam`, unless ZenFlow is on.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Adagrad"}, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "Adagrad"}, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "cpu"}}}
    """
    path = f"{OPTIMIZER}.ratio"
    if not ctx.has(path) or ctx.value(path) == 1 or not type_of(ctx):
        return
    if stage(ctx) == 3 and device(ctx, OPTIMIZER) != "none" and (other := _other_than_cpu_adam(ctx)):
        yield ctx.at(
            path,
            f"`ratio` is {quoted(ctx.written(path))}, but partial offload needs DeepSpeed's CPU Adam,"
            f" and {other.says}",
            help=f"{other.way}remove `ratio` to offload all of the optimizer",
            related=[("the optimizer is chosen here", "optimizer.type")],
            fix=removal(ctx.place(path)),
        )


class _Other(NamedTuple):
    """What takes the place of DeepSpeed's CPU Adam, and the beginning of what to do about it."""

    says: str
    way: str = ""


def _other_than_cpu_adam(ctx: Context) -> _Other | None:
    if type_of(ctx) not in ("adam", "adamw"):
        name = ctx.value("optimizer.type")
        return _Other(f"the optimizer is `{name}`", 'set `optimizer.type` to `"AdamW"`, or ')
    if asks_for_torch_adam(ctx):
        return _Other("`torch_adam` takes torch's", "remove `optimizer.params.torch_adam`, or ")
    return _Other("ZenFlow takes its own") if ctx.value(f"{ZERO}.zenflow") is not None else None


def _on_the_cpu(ctx: Context) -> list[str]:
    """The optimizers that DeepSpeed has for the CPU."""
    return [name for name in known_names(ctx, "Optimizer") if name in ("AdamW", "Adagrad", "Lion")]


_OF_DEEPSPEED = frozenset(
    {
        "adam",
        "adamw",
        "adagrad",
        "lion",
        "lamb",
        "onebitadam",
        "onebitlamb",
        "zerooneadam",
        "muadam",
        "muadamw",
        "musgd",
        "muon",
    }
)


@rule(
    "DSC469",
    effect="wasteful",
    since="0.3.15",
    source="runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer",
)
def offload_to_torch_optimizer(ctx: Context) -> Iterator[Finding]:
    """The optimizer is offloaded, and torch's own does the update on the CPU.

    DeepSpeed has fast ones for the CPU: `Adam` and `AdamW` without `torch_adam`, `Adagrad` and `Lion`. Any
    other updates the offloaded state with torch's general code, which takes many times as long.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"torch_adam": true}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    kind = type_of(ctx)
    if not kind or device(ctx, OPTIMIZER) == "none" or stage(ctx) < 1:
        return
    if not names_a_class("Optimizer", ctx.value("optimizer.type")):  # then nothing is built
        return
    torch_adam = kind in ("adam", "adamw") and asks_for_torch_adam(ctx)
    if torch_adam or kind not in _OF_DEEPSPEED:
        name = ctx.value("optimizer.type")
        said = (
            f"`torch_adam` makes it torch's `{name}`"
            if torch_adam
            else f"DeepSpeed has no `{name}` for the CPU, so torch's own does the update"
        )
        yield ctx.at(
            ("optimizer", "params", "torch_adam") if torch_adam else "optimizer.type",
            f"the optimizer is offloaded, and {said}: far slower there than DeepSpeed's own",
            help="remove `torch_adam`" if torch_adam else f"write {one_of(_on_the_cpu(ctx))}",
            related=[("the optimizer is offloaded here", device_place(ctx, OPTIMIZER))],
            fix=removal(("optimizer", "params", "torch_adam")) if torch_adam else None,
        )
