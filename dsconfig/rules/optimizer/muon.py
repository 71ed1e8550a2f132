"""Muon: its requirements at ZeRO stage 3, its two learning rates, and models that it does not suit."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.wording import quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._built_class import configured_params, known_type, written_type
from dsconfig.rules._effective_values import (
    OPTIMIZER,
    offload_device,
    related_stage_key,
    stage_if_configured,
    uses_bf16_optimizer,
)
from dsconfig.rules._model_facts import (
    FUSED,
    TENSORS,
    has_model,
    sparse_block_of,
    trained_model,
    transformers_version,
)

_STAGE3 = "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.__init__"
_SCATTER = "zero_optimization.reduce_scatter"
_QUANTIZED = "zero_optimization.zero_quantized_gradients"


def is_muon(ctx: Context) -> bool:
    """Whether the optimizer is Muon, in a release that has it."""
    type_name = written_type(ctx, "optimizer")
    return (
        type_name is not None
        and type_name.lower() == "muon"
        and known_type(ctx, "Optimizer", type_name) is not None
    )


def requires_reduce_scatter_off(ctx: Context) -> bool:
    """Whether Muon is offloaded at stage 1 or 2 in a release that then needs `reduce_scatter` to be false."""
    if not ctx.between("0.19.3", "0.19.5") or not is_muon(ctx) or stage_if_configured(ctx) not in (1, 2):
        return False
    return offload_device(ctx, OPTIMIZER) != "none"


@rule("DSC530", effect="crashes", since="0.18.9", source=_STAGE3)
def muon_with_scattered_gradients(ctx: Context) -> Iterator[Finding]:
    """Muon at ZeRO stage 3 needs full gradients: no `reduce_scatter`, no `zero_quantized_gradients`.

    `reduce_scatter` is true by default, so Muon at stage 3 always fails unless it is set to false. The
    quantized gradients of ZeRO++ are partitioned as well.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 3}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Muon"},
        "zero_optimization": {"stage": 3, "reduce_scatter": false}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "Muon"},
        "zero_optimization": {"stage": 3, "reduce_scatter": false}}
    """
    if "zero_optimization" not in ctx.data or not is_muon(ctx) or stage_if_configured(ctx) != 3:
        return
    related = [("the optimizer is set here", "optimizer.type"), *related_stage_key(ctx)]
    for path in (_SCATTER, _QUANTIZED):
        if ctx.is_on(path):
            key = path.rpartition(".")[2]
            yield ctx.at(
                path,
                f"`{key}` is {quote_value(True)}{'' if ctx.has(path) else ' by default'}, but Muon at stage 3"
                f" requires {quote_value(False)}",
                help=f"set `{path}` to `false`",
                related=related,
                fix=Fix(f"set `{key}` to `false`", (SetValue(("zero_optimization", key), False),)),
            )


@rule(
    "DSC531",
    effect="wasteful",
    since="0.18.3",
    source="runtime/engine.py:DeepSpeedEngine._muon_half_defaults",
)
def muon_with_one_learning_rate(ctx: Context) -> Iterator[Finding]:
    """One `lr` is used for both parts of Muon, which need different ones.

    Muon updates the matrices, and Adam everything else. Their default learning rates are 0.02 and 0.0003.
    `lr` sets both, unless `muon_lr` and `adam_lr` are set.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Muon", "params": {"lr": 0.02}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Muon", "params": {"muon_lr": 0.02, "adam_lr": 0.0003}}}
    """
    arguments = configured_params(ctx, "optimizer")
    if "lr" in arguments and not arguments.keys() & {"muon_lr", "adam_lr"} and is_muon(ctx):
        yield ctx.at(
            "optimizer.params.lr",
            f"`lr` is {quote_value(arguments['lr'])} for both parts of Muon: the defaults are 0.02 for matrices"
            " and 0.0003 for everything else, which Adam updates",
            help="remove it, and set `muon_lr` and `adam_lr`",
        )


@rule(
    "DSC516",
    effect="crashes",
    since="0.17.6",
    until="0.19.5",
    source="runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer,"
    " runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__",
)
def muon_with_unsupported_zero_feature(ctx: Context) -> Iterator[Finding]:
    """Muon is combined with a ZeRO feature that the release does not support with it yet.

    Up to 0.18.8, this is stage 3: "Muon optimizer is not yet compatible with ZeRO Stage 3". From 0.19.3 to
    0.19.5, it is an offloaded optimizer at stage 1 or 2 with `reduce_scatter`, which is true by default.

    Bad, release 0.18.8:

        {"train_batch_size": 8, "optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 3}}

    Good, release 0.18.8:

        {"train_batch_size": 8, "optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 2,
        "reduce_scatter": false}}
    """
    if "zero_optimization" not in ctx.data or not is_muon(ctx):
        return
    related = [("the optimizer is set here", "optimizer.type"), *related_stage_key(ctx)]
    if ctx.before("0.18.9"):
        if stage_if_configured(ctx) == 3:
            yield ctx.at(
                "optimizer.type",
                f"`optimizer.type` is {quote_value(written_type(ctx, 'optimizer'))}, which does not work at ZeRO"
                f" stage 3 in DeepSpeed {ctx.release_name}",
                help="use stage 2, or upgrade DeepSpeed to 0.18.9 or later",
                related=related,
            )
        return
    if requires_reduce_scatter_off(ctx) and ctx.is_on(_SCATTER):
        yield ctx.at(
            _SCATTER,
            "`reduce_scatter` is `true`, but Muon with an offloaded optimizer requires `false` in DeepSpeed"
            f" {ctx.release_name}",
            help=f"set `{_SCATTER}` to `false`, or upgrade DeepSpeed to 0.19.8 or later",
            related=related,
            fix=Fix(
                "set `reduce_scatter` to `false`", (SetValue(("zero_optimization", "reduce_scatter"), False),)
            ),
        )


_FUSED_QKV = frozenset(("bloom", "falcon", "gpt2", "gpt_bigcode", "gpt_neox", "phi3"))
"""Model types with one fused projection for queries, keys and values."""


@rule("DSC509", effect="crashes", since="0.19.8", source="__init__.py:_report_per_head_tagging")
def per_head_muon_of_one_projection(ctx: Context) -> Iterator[Finding]:
    """`per_head_muon` is enabled, but the model's attention projections cannot be split by heads.

    The model has queries, keys and values in one matrix, without uniform heads. DeepSpeed raises because the
    option would have no effect. Reported only when the model is known.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Muon", "params": {"per_head_muon": true}},
        "$dsconfig": {"model": "gpt2"}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Muon", "params": {"per_head_muon": true}},
        "$dsconfig": {"model": "llama-3-8b"}}
    """
    path = "optimizer.params.per_head_muon"
    if not has_model(ctx) or not ctx.has(path) or not ctx.is_on(path) or not is_muon(ctx):
        return
    known_model = trained_model(ctx)
    if known_model.kinds and known_model.kinds[0] in _FUSED_QKV:
        yield ctx.at(
            path,
            f"`per_head_muon` is {quote_value(ctx.value(path))}, but {known_model.shown} (model type"
            f" {known_model.kinds[0]}) has queries, keys and values in one projection",
            help=f"set `{path}` to `false`",
        )


@rule("DSC515", effect="crashes", since="0.19.8", source="runtime/bf16_optimizer.py:BF16_Optimizer.__init__")
def bf16_muon_with_experts(ctx: Context) -> Iterator[Finding]:
    """Muon trains in bf16 with fp32 gradients at stage 1, but the model's experts are 3-D tensors.

    Engine initialization fails with "BF16 Muon currently supports dense two-dimensional matrices only".
    Reported only when the model is known and its experts are three-dimensional tensors, which all are since
    Transformers 5.

    Bad, read by transformers==5.1:

        {"train_batch_size": "auto", "bf16": {"enabled": true}, "optimizer": {"type": "Muon"},
        "data_types": {"grad_accum_dtype": "fp32"}, "zero_optimization": {"stage": 1},
        "$dsconfig": {"model": "mixtral-8x7b"}}

    Good, read by transformers==5.1:

        {"train_batch_size": "auto", "bf16": {"enabled": true}, "optimizer": {"type": "Muon"},
        "zero_optimization": {"stage": 1}, "$dsconfig": {"model": "mixtral-8x7b"}}
    """
    path = "data_types.grad_accum_dtype"
    if not has_model(ctx) or not ctx.has(path) or not is_muon(ctx) or not uses_bf16_optimizer(ctx):
        return
    known_model = trained_model(ctx)
    if sparse_block_of(known_model) is not None:
        has_3d_experts = (transformers_version(ctx) or 0) >= FUSED
    else:
        has_3d_experts = not TENSORS.isdisjoint(known_model.kinds)
    if has_3d_experts:
        yield ctx.at(
            path,
            "`grad_accum_dtype` is fp32 at stage 1, where Muon supports only matrices, but"
            f" {known_model.shown} has experts in three-dimensional tensors",
            help="remove it, or use stage 2",
            related=[("the optimizer is set here", "optimizer.type")],
        )
