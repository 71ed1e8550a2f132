"""Gradients of stages 1 and 2 that are sent in another type than their own, where DeepSpeed stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.memory.not_modelled import NotModelledError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconfig.memory.engines.setup import Setup
    from dsconfig.memory.graph import Tape, Weight

ZERO = "zero_optimization."
KEY = f"{ZERO}reduce_bucket_size"
_OUT = "make it larger, or upgrade DeepSpeed to 0.18.2 or later"


def refuse_mistyped(setup: Setup, tape: Tape) -> None:
    """Refuse what DeepSpeed itself stops with, in the first backward pass.

    Raises:
        NotModelledError: gradients are sent too early, or do not fit a bucket.
    """
    if setup.is_whole or setup.stage == 3 or setup.accumulates:
        return
    _refuse_overlap(setup)
    retyped = setup.sent != setup.width or setup.retyped
    if setup.autocast or retyped:
        trained = [weight for weight in tape.weights if weight.trains]
        sent = [weight for weight in trained if weight.linear] if setup.autocast else trained
        _refuse_bucket(setup, sent, retyped)


def _refuse_overlap(setup: Setup) -> None:
    """Gradients in another type come after the pass in which `overlap_comm` sends them (DSC418)."""
    late = setup.stage == 1 and setup.gradient != setup.width and setup.ways.raises_late
    if late and setup.overlap and setup.accumulation == 1:
        what = "gradients are sent before they are there in the type that they accumulate in"
        told = "remove it, or upgrade DeepSpeed to 0.16.5 or later"
        raise NotModelledError(f"DeepSpeed stops with `{ZERO}overlap_comm`: {what}", told)


def _refuse_bucket(setup: Setup, sent: Sequence[Weight], retyped: bool) -> None:
    """What is looked up by the type of the model is not found (DSC411).

    Sources: `runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.reduce_ipg_grads`, which looks for what is
    larger than a bucket; `runtime/base_optimizer.py:ZeROOptimizer.report_ipg_memory_usage`, as one is full.
    """
    total, stops = sum(weight.elements for weight in sent), f"DeepSpeed stops with `{KEY}` {setup.bucket:,}"
    if retyped and setup.ways.reports_own_type and total > setup.bucket:
        raise NotModelledError(f"{stops}: the {total:,} gradients fill it more than once", _OUT)
    most = max(sent, key=lambda weight: weight.elements, default=None)
    if setup.ways.seeks_own_type and setup.contiguous and most and most.elements > setup.bucket:
        what = f"`{most.name}` has {most.elements:,} elements, and its gradient is sent in another format"
        raise NotModelledError(f"{stops}: {what}", _OUT)
