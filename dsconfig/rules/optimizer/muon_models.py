"""Models for which Muon does not work; loaded only if the model is known."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._effective_values import uses_bf16_optimizer
from dsconfig.rules._model_facts import (
    FUSED,
    TENSORS,
    has_model,
    sparse_block_of,
    trained_model,
    transformers_version,
)
from dsconfig.rules.optimizer.muon import is_muon

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
