"""What a known model makes of buckets and limits at the ZeRO stages."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._autocast import autocasts
from dsconfig.rules._dtypes import bf16_optimizer, format_of, model_format, sent_format
from dsconfig.rules._model_facts import Weight, elements, is_known, largest, largest_linear, model
from dsconfig.rules._numbers import rounded, rounded_up
from dsconfig.rules._stage import ZERO, stage, stage_set_here

_REDUCE = f"{ZERO}.reduce_bucket_size"
_LIVE, _REUSE = f"{ZERO}.stage3_max_live_parameters", f"{ZERO}.stage3_max_reuse_distance"
_MOST = 2**63


@rule(
    "DSC405",
    effect="wasteful",
    since="0.5.2",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.setup_buckets, "
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._setup_for_real_optimizer",
)
def bucket_larger_than_model(ctx: Context) -> Iterator[Finding]:
    """`reduce_bucket_size` is larger than the model, and the bucket is allocated whole all the same.

    Gradients are gathered in a buffer of that many elements before they are reduced. It is made at its full
    size whatever the model has: at stages 1 and 2 in each backward pass, at stage 3 for the whole run.
    Reported where the model is known, and gradients are contiguous.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "$dsconfig": {"model": "gpt2"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_bucket_size": 50000000},
        "$dsconfig": {"model": "gpt2"}}
    """
    if not is_known(ctx) or not ctx.has(ZERO) or stage(ctx) not in (1, 2, 3):
        return
    size = ctx.value(_REDUCE)
    if not isinstance(size, int | float) or size >= _MOST or not ctx.on(f"{ZERO}.contiguous_gradients"):
        return
    if bf16_optimizer(ctx) or size <= (count := elements(ctx)):
        return
    width = 4 if model_format(ctx) == "fp32" else 2
    more = width * (size - count) / 1e9
    held = "held for the whole run" if stage(ctx) == 3 else "held in each backward pass"
    yield ctx.at(
        _REDUCE,
        f"`reduce_bucket_size` is {size:,.0f}{'' if ctx.has(_REDUCE) else ' by default'}, and"
        f" {model(ctx).shown} has {count:,} parameters: {more:,.2f} GB of the bucket are never filled,"
        f" and {held}",
        help=f"set `{_REDUCE}` to {rounded(count)}",
        related=stage_set_here(ctx),
    )


@rule(
    "DSC406",
    effect="wasteful",
    since="0.5.9",
    source="runtime/zero/partitioned_param_coordinator.py:"
    "PartitionedParameterCoordinator.__params_to_release",
)
def live_parameters_without_effect(ctx: Context) -> Iterator[Finding]:
    """`stage3_max_live_parameters` has no effect on this model, which stage 3 gathers whole on each GPU.

    The limit only stops fetching ahead. What will be used again within `stage3_max_reuse_distance` stays
    gathered, and from the first layer's forward pass to its backward pass are twice the parameters of the
    model: where the distance is no less, nothing is let go in between. Reported where the model is known.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 1000000000},
        "$dsconfig": {"model": "gpt2"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 10000000,
        "stage3_max_reuse_distance": 10000000}, "$dsconfig": {"model": "gpt2"}}
    """
    if not is_known(ctx) or not ctx.has(_LIVE) or stage(ctx) != 3 or ctx.world_size == 1:
        return
    live, reuse = ctx.value(_LIVE), ctx.value(_REUSE)
    if not isinstance(live, int | float) or not isinstance(reuse, int | float):
        return
    if reuse < 2 * (count := elements(ctx)):
        return
    few = rounded(count // 10)
    yield ctx.at(
        _LIVE,
        f"`stage3_max_live_parameters` is {live:,.0f}, and all {count:,} parameters of {model(ctx).shown} are"
        f" gathered on each GPU whatever it says: `stage3_max_reuse_distance` is {reuse:,.0f}",
        help=f"set `{_REUSE}` to {few}, and `{_LIVE}` too",
        related=[("the distance is set here", _REUSE)] if ctx.has(_REUSE) else [],
    )


@rule(
    "DSC411",
    effect="crashes",
    since="0.17.2",
    until="0.18.1",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.reduce_ipg_grads, "
    "runtime/base_optimizer.py:ZeROOptimizer.report_ipg_memory_usage",
)
def bucket_too_small_for_another_format(ctx: Context) -> Iterator[Finding]:
    """Gradients that are sent in another format than their own do not fit `reduce_bucket_size`.

    From 0.17.2 to 0.18.1 a parameter larger than the bucket is noted by its own format and looked for by the
    one that is sent, that of `torch_autocast` for linear layers: the first backward pass ends in "start (0) +
    length (525336576) exceeds dimension size (500000000)". With `communication_data_type` up to 0.18.0 it is
    enough that the bucket fills: "KeyError: torch.bfloat16". Reported where the model is known.

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"},
        "zero_optimization": {"stage": 2}, "$dsconfig": {"model": "llama-3-8b"}}

    Good:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"}, "zero_optimization":
        {"stage": 2, "reduce_bucket_size": 600000000}, "$dsconfig": {"model": "llama-3-8b"}}
    """
    if not is_known(ctx) or ctx.known.adapters or stage(ctx) not in (1, 2) or bf16_optimizer(ctx):
        return
    size = ctx.value(_REDUCE)
    if not isinstance(size, int | float):
        return
    found = _under_autocast(ctx, size) if autocasts(ctx) else _as_communicated(ctx, size)
    if found is not None:
        why, help_ = found
        yield ctx.at(
            _REDUCE,
            f"`reduce_bucket_size` is {size:,.0f}{'' if ctx.has(_REDUCE) else ' by default'}, and {why}",
            help=help_,
            related=stage_set_here(ctx),
        )


def _under_autocast(ctx: Context, size: float) -> tuple[str, str] | None:
    """What is wrong, and what helps, where linear layers are sent in the format that they compute in."""
    word = "torch_autocast.dtype"
    chosen = format_of(ctx.value(word)) if ctx.has(word) else "fp16"
    if chosen not in ("fp16", "bf16") or ctx.has("torch_autocast.lower_precision_safe_modules"):
        return None
    return _too_large(ctx, largest_linear(ctx), size, chosen)


def _as_communicated(ctx: Context, size: float) -> tuple[str, str] | None:
    """The same where `communication_data_type` is not the model's format."""
    sent, key = sent_format(ctx)
    if key is None or sent == model_format(ctx):
        return None
    if ctx.since("0.18.1"):
        return _too_large(ctx, largest(ctx), size, sent)
    if (count := elements(ctx)) <= size:
        return None
    why = (
        f"the {count:,} gradients of {model(ctx).shown} fill it more than once; they are sent as {sent}, and"
        " up to DeepSpeed 0.18.0 a full bucket is looked up by another format"
    )
    return why, f'set `{key}` to "{model_format(ctx)}", or upgrade DeepSpeed to 0.18.2 or later'


def _too_large(ctx: Context, most: Weight | None, size: float, sent: str) -> tuple[str, str] | None:
    if most is None or most.elements <= size or not ctx.on(f"{ZERO}.contiguous_gradients"):
        return None
    why = (
        f"`{most.name}` in {model(ctx).shown} has {most.elements:,} elements; its gradient is sent as {sent},"
        " and what is sent in another format has to fit up to DeepSpeed 0.18.1"
    )
    return why, f"set `{_REDUCE}` to {rounded_up(most.elements)}, or upgrade DeepSpeed to 0.18.2 or later"
