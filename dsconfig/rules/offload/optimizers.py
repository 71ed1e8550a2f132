"""Which optimizers work with offloading, partial offload and SuperOffload."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix, Remove
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._zero import OPTIMIZER, ZERO, departs, device, device_place, said_here, stage, stage_words
from dsconfig.words import quoted

_SUPER = f"{OPTIMIZER}.super_offload"


def _type(ctx: Context) -> str:
    """The optimizer that the config names, in lower case; empty where it names none."""
    kind = ctx.value("optimizer.type")
    return kind.lower() if isinstance(kind, str) else ""


def _torch_adam(ctx: Context) -> bool:
    """Whether torch's own Adam is asked for."""
    params = ctx.written("optimizer.params")
    return isinstance(params, dict) and bool(params.get("torch_adam"))


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
    if not ctx.has(path) or ctx.value(path) == 1 or not _type(ctx):
        return
    if stage(ctx) == 3 and device(ctx, OPTIMIZER) != "none" and (other := _other_than_cpu_adam(ctx)):
        yield ctx.at(
            path,
            f"`ratio` is {quoted(ctx.written(path))}, but partial offload needs DeepSpeed's CPU Adam,"
            f" and {other}",
            help="use `AdamW` without `torch_adam`, or remove `ratio` to offload all of the optimizer",
            related=[("the optimizer is chosen here", "optimizer.type")],
            fix=Fix("remove `ratio`", (Remove(ctx.place(path)),)),
        )


def _other_than_cpu_adam(ctx: Context) -> str | None:
    if _type(ctx) not in ("adam", "adamw"):
        return f"the optimizer is `{ctx.value('optimizer.type')}`"
    if _torch_adam(ctx):
        return "`torch_adam` takes torch's"
    return "ZenFlow takes its own" if ctx.value(f"{ZERO}.zenflow") is not None else None


@rule(
    "DSC467",
    effect="ignored",
    since="0.18.0",
    source="runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer",
)
def super_offload_out_of_use(ctx: Context) -> Iterator[Finding]:
    """`super_offload` below stage 3, or `cpuadam_cores_perc` without it.

    SuperOffload is an optimizer of stage 3, and the only one that looks at `cpuadam_cores_perc`.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu",
        "super_offload": true}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu",
        "super_offload": true, "cpuadam_cores_perc": 0.9}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    cores = f"{OPTIMIZER}.cpuadam_cores_perc"
    asked = ctx.has(_SUPER) and ctx.on(_SUPER)
    if asked and stage(ctx) < 3:
        yield ctx.at(
            _SUPER,
            f"`super_offload` has no effect: it works at stage 3 alone, and {stage_words(ctx)}",
            help="use stage 3, or remove it",
            related=said_here(ctx),
            fix=Fix("remove `super_offload`", (Remove(ctx.place(_SUPER)),)),
        )
    elif not asked and departs(ctx, cores):
        yield ctx.at(
            cores,
            "`cpuadam_cores_perc` has no effect: only `super_offload` uses it",
            help='remove it, or add `"super_offload": true`',
            fix=Fix("remove `cpuadam_cores_perc`", (Remove(ctx.place(cores)),)),
        )


_NOT_LIKE_ADAM = {
    "adagrad": "betas",
    "lamb": "amsgrad",
    "lion": "eps",
    "rmsprop": "betas",
    "sgd": "betas",
}
"""Optimizers, and what of Adam's their parameter groups lack."""


@rule(
    "DSC468",
    effect="crashes",
    since="0.18.0",
    source="runtime/superoffload/superoffload_stage3.py:SuperOffloadOptimizer_Stage3.__init__",
)
def super_offload_without_adam(ctx: Context) -> Iterator[Finding]:
    """`super_offload` is on at stage 3, and the optimizer is not Adam.

    SuperOffload updates with an Adam of its own and takes `betas`, `eps` and `amsgrad` from the optimizer,
    whatever it is: a KeyError as the engine starts.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Lion"}, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "cpu", "super_offload": true}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "cpu", "super_offload": true}}}
    """
    if not ctx.has(_SUPER) or not ctx.on(_SUPER):
        return
    lacks = _NOT_LIKE_ADAM.get(_type(ctx))
    if lacks and stage(ctx) == 3:
        yield ctx.at(
            _SUPER,
            f"`super_offload` takes `{lacks}` from the optimizer, and `{ctx.value('optimizer.type')}` has"
            " none",
            help="use `AdamW`, or remove `super_offload`",
            related=[("the optimizer is chosen here", "optimizer.type")],
            fix=Fix("remove `super_offload`", (Remove(ctx.place(_SUPER)),)),
        )


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
    kind = _type(ctx)
    if not kind or device(ctx, OPTIMIZER) == "none" or stage(ctx) < 1:
        return
    torch_adam = kind in ("adam", "adamw") and _torch_adam(ctx)
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
            help="remove `torch_adam`" if torch_adam else "use `AdamW`, `Adagrad` or `Lion`",
            related=[("the optimizer is offloaded here", device_place(ctx, OPTIMIZER))],
            fix=Fix("remove `torch_adam`", (Remove(("optimizer", "params", "torch_adam")),))
            if torch_adam
            else None,
        )
