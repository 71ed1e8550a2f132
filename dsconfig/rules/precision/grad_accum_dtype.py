"""The format in which gradients add up."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._dtypes import bf16_optimizer, bf16_place, format_of, format_place, model_format
from dsconfig.rules._fixes import removal
from dsconfig.rules._offload import OPTIMIZER, device
from dsconfig.rules._stage import ZERO, stage, stage_set_here

_SANITY = "runtime/engine.py:DeepSpeedEngine._do_optimizer_sanity_check"
_SECTION = "data_types"
_ACCUMULATION = f"{_SECTION}.grad_accum_dtype"


@rule("DSC340", effect="crashes", since="0.7.6", source=_SANITY)
def gradient_accumulation_format_unsupported(ctx: Context) -> Iterator[Finding]:
    """`data_types.grad_accum_dtype` differs from the model's format where DeepSpeed cannot have two.

    With ZeRO off, gradients add up in the format of the model; the engine says "unsupported mix" and stops.
    Up to 0.18.4 a bfloat16 model could accumulate in fp32 without ZeRO, and up to 0.17.5 in nothing else; up
    to 0.10.0 ZeRO wanted one format too, and in 0.7.6 that of a bfloat16 model is fp32 unless the key says
    "bf16".

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 2}}
    """
    if ctx.value(_ACCUMULATION) is None:
        if ctx.before("0.7.7"):
            yield from _fp32_by_default(ctx)
        return
    chosen = format_of(ctx.value(_ACCUMULATION))
    model = model_format(ctx) if chosen else None
    if chosen is not None and chosen == model:
        if chosen == "bf16" and ctx.before("0.17.6") and stage(ctx) == 0:
            yield _bf16_wrapper(ctx)
        return
    if chosen is None:
        return
    sharded = stage(ctx) > 0
    if sharded and (ctx.since("0.10.1") or bf16_optimizer(ctx)):
        return
    if not sharded and (model, chosen) == ("bf16", "fp32") and ctx.before("0.18.5"):
        return
    remove = "or remove the key"
    if not sharded and ctx.since("0.10.1"):
        remove = _otherwise(ctx, model, chosen)
    where = "with ZeRO" if sharded else "without ZeRO"
    yield ctx.at(
        _ACCUMULATION,
        f"`grad_accum_dtype` is {quoted(ctx.value(_ACCUMULATION))}, but the model trains in {model}, and "
        f"{where} DeepSpeed {ctx.release_name} accumulates in the model's format",
        help=f'write "{model}", {remove}',
        related=[*format_place(ctx), *stage_set_here(ctx)],
        fix=removal(ctx.place(_ACCUMULATION)),
    )


def _fp32_by_default(ctx: Context) -> Iterator[Finding]:
    """0.7.6 takes fp32 for a bfloat16 model, ZeRO or not (`DeepSpeedEngine.get_data_types`)."""
    there = bf16_place(ctx)
    if there is None or ctx.on("fp16.enabled") or stage(ctx) == 0:
        return
    yield ctx.at(
        there,
        "the model trains in bf16, and 0.7.6 accumulates its gradients in fp32 by default, which it refuses"
        " with ZeRO",
        help=f'set `{_ACCUMULATION}` to "bf16", or upgrade DeepSpeed to 0.7.7 or later',
        related=stage_set_here(ctx),
        fix=Fix("accumulate in bf16", (Set((_SECTION, "grad_accum_dtype"), "bf16"),), safe=True),
    )


def _bf16_wrapper(ctx: Context) -> Finding:
    """Up to 0.17.5 the wrapper of a bfloat16 model without ZeRO accumulates in fp32 alone."""
    return ctx.at(
        _ACCUMULATION,
        f"`grad_accum_dtype` is {quoted(ctx.value(_ACCUMULATION))}, and without ZeRO DeepSpeed"
        f" {ctx.release_name} accumulates the gradients of a bf16 model in fp32 alone",
        help="remove the key, or use ZeRO stage 1",
        related=[*format_place(ctx), *stage_set_here(ctx)],
        fix=removal(ctx.place(_ACCUMULATION)),
    )


def _otherwise(ctx: Context, model: str | None, chosen: str) -> str:
    """What helps with ZeRO off: an optimizer that accumulates in another format and averages (DSC417)."""
    if (model, chosen) == ("bf16", "fp32") and device(ctx, OPTIMIZER) != "cpu":
        return "remove the key, or use ZeRO stage 1"
    return "remove the key" if ctx.data.get("pipeline") else "remove the key, or use ZeRO stage 3"


@rule("DSC341", effect="wasteful", since="0.7.6", source="runtime/config.py:DtypeEnum")
def gradients_accumulated_in_int8(ctx: Context) -> Iterator[Finding]:
    """`data_types.grad_accum_dtype` is "int8".

    It is in DeepSpeed's list of formats for the sake of inference. Gradients that add up in 8-bit integers
    lose nearly all that is in them, and no error says so.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "data_types": {"grad_accum_dtype": "int8"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "data_types": {"grad_accum_dtype": "fp32"}}
    """
    if ctx.has(_ACCUMULATION) and format_of(ctx.value(_ACCUMULATION)) == "int8":
        yield ctx.at(
            _ACCUMULATION,
            f"`grad_accum_dtype` is {quoted(ctx.value(_ACCUMULATION))}: gradients add up in 8-bit integers",
            help='use "fp32", "bf16" or "fp16", or remove the key',
        )


@rule("DSC345", effect="wasteful", since="0.17.6", source=_SANITY)
def pipeline_accumulates_in_bf16(ctx: Context) -> Iterator[Finding]:
    """A pipelined model in bfloat16 adds up its gradients in bfloat16.

    A pipeline takes many micro batches a step, and each sum in bfloat16 keeps 8 bits: DeepSpeed warns that
    this "is not safe numerically". Reported where the section `pipeline` tells of a pipelined model, with
    ZeRO off.

    Bad:

        {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
        "pipeline": {"activation_checkpoint_interval": 1}}

    Good:

        {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
        "pipeline": {"activation_checkpoint_interval": 1}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 1}}
    """
    there = bf16_place(ctx)
    if there is None or not ctx.data.get("pipeline") or stage(ctx) > 0:
        return
    chosen = format_of(ctx.value(_ACCUMULATION))
    if chosen in (None, "bf16"):
        told = 'set `data_types.grad_accum_dtype` to "fp32", and set `zero_optimization.stage` to 1'
        fix = Fix(
            "accumulate in fp32 at ZeRO stage 1",
            (Set((_SECTION, "grad_accum_dtype"), "fp32"), Set((ZERO, "stage"), 1)),
        )
        first = "0.19.8" if device(ctx, OPTIMIZER) == "cpu" else "0.18.5"  # DSC417, DSC346
        heeded = ctx.since(first)
        yield ctx.at(
            there,
            "the pipeline adds up the gradients of its micro batches in bfloat16, which keeps 8 bits",
            help=told if heeded else f"upgrade DeepSpeed to {first} or later, then {told}",
            related=[("the pipeline is set up here", "pipeline")],
            fix=fix if heeded else None,
        )


@rule(
    "DSC346",
    effect="ignored",
    since="0.17.6",
    until="0.18.4",
    source=f"{_SANITY}, DeepSpeedEngine._configure_optimizer, runtime/constants.py:DDP_BFLOAT16",
)
def accumulation_in_fp32_not_heeded(ctx: Context) -> Iterator[Finding]:
    """`data_types.grad_accum_dtype` is fp32, and gradients of a bfloat16 model add up in bfloat16.

    From 0.17.6 to 0.18.4 the optimizer that accumulates in fp32 and the plain wrapper of bfloat16 go by the
    same word, and the engine takes the wrapper: with ZeRO off, and at stage 1, where every rank then holds
    all master weights and states, as if ZeRO were off. An optimizer that is offloaded to the CPU is another.

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 1}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 3}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 1}}
    """
    if not ctx.has(_ACCUMULATION) or format_of(ctx.value(_ACCUMULATION)) != "fp32":
        return
    if bf16_place(ctx) is None or not (stage(ctx) == 0 or bf16_optimizer(ctx)):
        return
    held = ", and every rank holds the full optimizer state" if stage(ctx) else ""
    upgrade = "upgrade DeepSpeed to 0.18.5 or later"
    yield ctx.at(
        _ACCUMULATION,
        f"gradients are accumulated in bfloat16 whatever `grad_accum_dtype` says{held}",
        help=f"remove the key, or {upgrade}{'' if stage(ctx) else ' and use ZeRO stage 1'}",
        related=[*format_place(ctx), *stage_set_here(ctx)],
        fix=removal(ctx.place(_ACCUMULATION)),
    )
