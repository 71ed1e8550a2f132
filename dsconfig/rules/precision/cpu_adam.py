"""16-bit master weights and DeepSpeed's Adam for the CPU."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import NamedTuple
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._dtypes import bf16_place
from dsconfig.rules._fixes import removal
from dsconfig.rules._offload import OPTIMIZER, device, device_place
from dsconfig.rules._stage import stage

_CONFIGURE = "runtime/base_optimizer.py:ZeROOptimizer._configure_master_weights"
_FP16 = "fp16.fp16_master_weights_and_grads"
_BF16 = "bf16_master_weights_and_grads"
_STATES = "bf16_optimizer_states"
_CPU_ADAM = ("adam", "adamw")


class _Lack(NamedTuple):
    """What keeps DeepSpeed from using its CPU Adam, and where that is said."""

    says: str
    place: str | None
    way: str
    """What to do about it."""


def _asks(ctx: Context) -> str | None:
    """The key by which 16-bit master weights are asked for, where they have to live on the host."""
    if ctx.has("fp16") and ctx.on(_FP16) and (ctx.since("0.17.1") or ctx.on("fp16.enabled")):
        return _FP16
    there = bf16_place(ctx, _BF16) if ctx.since("0.18.3") else None
    if there is None or not bf16_place(ctx, _STATES):
        return there
    # The states may stay on the GPU in bf16; 0.19.1 began to look at them where they are offloaded.
    return None if _states_help(ctx) else there


def _states_help(ctx: Context) -> bool:
    """Whether the weights may stay in 16 bits once the moments are in bfloat16."""
    return ctx.before("0.19.1") or device(ctx, OPTIMIZER) == "none"


def _lacks(ctx: Context) -> Iterator[_Lack]:
    if device(ctx, OPTIMIZER) == "none":
        yield _Lack(
            "the optimizer is not offloaded",
            device_place(ctx, OPTIMIZER),
            f'set `{OPTIMIZER}.device` to `"cpu"`',
        )
    name = ctx.written("optimizer.type")
    if not isinstance(name, str):  # the script may hand over a DeepSpeedCPUAdam
        return
    if name.lower() not in _CPU_ADAM:
        yield _Lack(f"the optimizer is {quoted(name)}", "optimizer.type", 'set `optimizer.type` to `"AdamW"`')
    torch = ctx.written("optimizer.params.torch_adam")
    if torch is not MISSING and torch:
        place = "optimizer.params.torch_adam"
        yield _Lack(f"`torch_adam` {quoted(torch)} asks for PyTorch's own", place, f"remove `{place}`")


@rule("DSC330", effect="crashes", since="0.5.0", source=_CONFIGURE)
def half_precision_master_weights_without_cpu_adam(ctx: Context) -> Iterator[Finding]:
    """Master weights are to stay in 16 bits, and the optimizer is not DeepSpeed's CPU Adam.

    Only `DeepSpeedCPUAdam`, which an `Adam` or `AdamW` becomes when the optimizer is offloaded, keeps its
    weights in 16 bits. In bfloat16 there is a second way: with `bf16_optimizer_states` the moments are in
    bfloat16 too, and everything may stay on the GPU. The engine says "Master weights feature requires" and
    stops; it looks at the key even where its section is not enabled.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 2},
        "bf16": {"enabled": true, "bf16_master_weights_and_grads": true}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 2},
        "bf16": {"enabled": true, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}}
    """
    there = _asks(ctx)
    if there is None or stage(ctx) not in (1, 2, 3):
        return
    lacks = list(_lacks(ctx))
    if lacks:
        lack = lacks[0]
        key = there.rpartition(".")[2]
        states = key == _BF16 and not bf16_place(ctx, _STATES) and _states_help(ctx)
        way = f", or set `{_STATES}` to `true`" if states else ""
        yield ctx.at(
            there,
            f"`{there}` needs DeepSpeed's CPU Adam, but {lack.says}",
            help=", and ".join(each.way for each in lacks) + way,
            related=[("this is said here", lack.place)] if lack.place and ctx.has(lack.place) else [],
            fix=removal(ctx.place(there)),
        )


@rule(
    "DSC332",
    effect="altered",
    since="0.19.1",
    source="runtime/engine.py:DeepSpeedEngine.get_optimizer_configuration",
)
def fp32_optimizer_states_overridden(ctx: Context) -> Iterator[Finding]:
    """`optimizer.params.fp32_optimizer_states` is true beside `bf16_optimizer_states`.

    The CPU Adam then keeps its moments in bfloat16 all the same; DeepSpeed only logs a warning.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"fp32_optimizer_states": true}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": true,
        "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": true,
        "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}}
    """
    path = "optimizer.params.fp32_optimizer_states"
    states = bf16_place(ctx, _STATES)
    if states and ctx.written(path) is True and device(ctx, OPTIMIZER) != "none":
        yield ctx.at(
            path,
            f"`fp32_optimizer_states` is `true`, but `{states}` overrides it: the moments are in bfloat16",
            help=f"remove it, or set `{states}` to `false`",
            related=[("overridden here", states)],
            fix=removal(ctx.place(path)),
        )
