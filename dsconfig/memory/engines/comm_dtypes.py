"""Communication dtypes of gradients with which stages 1 and 2 fail."""

from __future__ import annotations

from collections.abc import Sequence

from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.verdict import NotModelledError

ZERO = "zero_optimization."
KEY = f"{ZERO}reduce_bucket_size"
_WAYS_OUT = "increase it, or upgrade DeepSpeed to 0.18.2 or later"


def reject_mistyped_grads(setup: Setup, tape: Tape) -> None:
    """Reject gradient dtypes that make the first backward pass fail.

    Raises:
        NotModelledError: gradients are reduced before their cast, or do not fit into a bucket.
    """
    if setup.is_unsharded or setup.stage == 3 or setup.uses_bf16_optimizer:
        return
    _reject_overlap(setup)
    other_dtype = setup.comm_itemsize != setup.itemsize or setup.comm_dtype_is_other_half
    if setup.autocast or other_dtype:
        trainable = [weight for weight in tape.weights if weight.requires_grad]
        communicated = [weight for weight in trainable if weight.is_linear] if setup.autocast else trainable
        _reject_small_bucket(setup, communicated, other_dtype)


def _reject_overlap(setup: Setup) -> None:
    """Reject `overlap_comm` if gradients are cast after the pass that reduces them (DSC418)."""
    casts_late = (
        setup.stage == 1
        and setup.grad_accum_itemsize != setup.itemsize
        and setup.quirks.stage1_casts_grads_after_backward
    )
    if casts_late and setup.overlap_comm and setup.gradient_accumulation_steps == 1:
        what = "gradients are reduced before they are cast to `grad_accum_dtype`"
        ways_out = "remove it, or upgrade DeepSpeed to 0.16.5 or later"
        raise NotModelledError(f"DeepSpeed stops with `{ZERO}overlap_comm`: {what}", ways_out)


def _reject_small_bucket(setup: Setup, communicated: Sequence[Weight], other_dtype: bool) -> None:
    """Reject buckets that DeepSpeed looks up by the model's dtype and does not find (DSC411).

    Sources: `runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.reduce_ipg_grads` for gradients larger than
    the bucket; `runtime/base_optimizer.py:ZeROOptimizer.report_ipg_memory_usage` for a full bucket.


    Sources: `runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.reduce_ipg_grads`, which looks for what is
    larger than a bucket; `runtime/base_optimizer.py:ZeROOptimizer.report_ipg_memory_usage`, as one is full.
    """
    total, subject = (
        sum(weight.numel for weight in communicated),
        f"DeepSpeed stops with `{KEY}` {setup.reduce_bucket_size:,}",
    )
    if (
        other_dtype
        and setup.quirks.full_bucket_is_reported_by_model_dtype
        and total > setup.reduce_bucket_size
    ):
        raise NotModelledError(
            f"{subject}: the {total:,} gradient elements do not fit into one bucket", _WAYS_OUT
        )
    largest = max(communicated, key=lambda weight: weight.numel, default=None)
    if (
        setup.quirks.large_grad_is_looked_up_by_model_dtype
        and setup.contiguous_gradients
        and largest
        and largest.numel > setup.reduce_bucket_size
    ):
        what = f"`{largest.name}` has {largest.numel:,} elements, and its gradient is communicated in another dtype"
        raise NotModelledError(f"{subject}: {what}", _WAYS_OUT)
