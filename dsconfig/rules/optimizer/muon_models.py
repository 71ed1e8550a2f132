"""Muon, where the model is known: heads, and experts."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._effective_values import bf16_optimizer
from dsconfig.rules._model_facts import FUSED, TENSORS, block_of, has_model, model, transformers_version
from dsconfig.rules.optimizer.muon import is_muon

_ONE_MATRIX = frozenset(("bloom", "falcon", "gpt2", "gpt_bigcode", "gpt_neox", "phi3"))
"""Types of models in which queries, keys and values are one projection."""


@rule("DSC509", effect="crashes", since="0.19.8", source="__init__.py:_report_per_head_tagging")
def per_head_muon_of_one_projection(ctx: Context) -> Iterator[Finding]:
    """`per_head_muon` is on, and no projection of the model's attention can be cut by heads.

    Queries, keys and values are one matrix there, which has no uniform heads. DeepSpeed takes an option that
    would do nothing for an error. Reported where the model is known.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Muon", "params": {"per_head_muon": true}},
        "$dsconfig": {"model": "gpt2"}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Muon", "params": {"per_head_muon": true}},
        "$dsconfig": {"model": "llama-3-8b"}}
    """
    path = "optimizer.params.per_head_muon"
    if not has_model(ctx) or not ctx.has(path) or not ctx.on(path) or not is_muon(ctx):
        return
    found = model(ctx)
    if found.kinds and found.kinds[0] in _ONE_MATRIX:
        yield ctx.at(
            path,
            f"`per_head_muon` is {quoted(ctx.value(path))}, and {found.shown}, of the type {found.kinds[0]},"
            " has queries, keys and values in one projection",
            help=f"set `{path}` to false",
        )


@rule("DSC515", effect="crashes", since="0.19.8", source="runtime/bf16_optimizer.py:BF16_Optimizer.__init__")
def bf16_muon_with_experts(ctx: Context) -> Iterator[Finding]:
    """Muon trains in bf16 with gradients in fp32 at stage 1, and the model has experts in one tensor.

    "BF16 Muon currently supports dense two-dimensional matrices only". Reported where the model is known,
    and its experts have three dimensions: from Transformers 5 on all have.

    Bad, read by transformers==5.1:

        {"train_batch_size": "auto", "bf16": {"enabled": true}, "optimizer": {"type": "Muon"},
        "data_types": {"grad_accum_dtype": "fp32"}, "zero_optimization": {"stage": 1},
        "$dsconfig": {"model": "mixtral-8x7b"}}

    Good, read by transformers==5.1:

        {"train_batch_size": "auto", "bf16": {"enabled": true}, "optimizer": {"type": "Muon"},
        "zero_optimization": {"stage": 1}, "$dsconfig": {"model": "mixtral-8x7b"}}
    """
    path = "data_types.grad_accum_dtype"
    if not has_model(ctx) or not ctx.has(path) or not is_muon(ctx) or not bf16_optimizer(ctx):
        return
    found = model(ctx)
    if block_of(found) is not None:
        three = (transformers_version(ctx) or 0) >= FUSED
    else:
        three = not TENSORS.isdisjoint(found.kinds)
    if three:
        yield ctx.at(
            path,
            f"`grad_accum_dtype` is fp32 at stage 1, where Muon takes matrices only, and {found.shown} has"
            " experts in tensors of three dimensions",
            help="remove it, or take stage 2",
            related=[("the optimizer is chosen here", "optimizer.type")],
        )
