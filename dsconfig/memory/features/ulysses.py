"""Ulysses sequence parallelism, in which ranks exchange shards of the sequence for heads (`UlyssesSPAttentionHF`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape, ModelCollective
from dsconfig.memory.layers import AttentionHeads, attention

if TYPE_CHECKING:
    from dsconfig.memory.models.architecture import MicroBatch

EXCHANGED = "Ulysses all-to-all buffers"


def ulysses_attention(
    tape: ForwardTape,
    batch: MicroBatch,
    heads: AttentionHeads,
    query: ActivationTensor,
    key: ActivationTensor,
    value: ActivationTensor,
) -> ActivationTensor:
    """Record attention over whole sequences for this rank's share of the attention heads.

    Python variables keep the intermediate tensors alive until the attention function returns.
    """
    ranks, batch_size = batch.sp_size, heads.batch_size
    num_tokens = batch_size * heads.sequence_length * ranks
    position_ids = tape.op([], tape.tensor(num_tokens, 8, requires_grad=False))
    gathered_ids = tape.op([position_ids], tape.tensor(num_tokens, 8, requires_grad=False))
    tape.collectives += _all_to_all_collectives(batch, "all_gather", num_tokens, 8, has_backward=False)
    # With fewer key/value heads than ranks, `UlyssesSPAttentionHF` replicates them.
    num_kv_heads = max(heads.num_kv_heads, ranks)  # fewer heads than ranks are repeated
    local_heads = heads._replace(
        num_heads=heads.num_heads // ranks,
        num_kv_heads=num_kv_heads // ranks,
        sequence_length=heads.sequence_length * ranks,
    )
    counts = [
        num_tokens // ranks * number * heads.head_dim
        for number in (heads.num_heads, num_kv_heads, num_kv_heads)
    ]
    received = [
        _scatter_heads(tape, batch, x, count) for x, count in zip((query, key, value), counts, strict=True)
    ]
    qkv = [
        x if batch_size == number == 1 else tape.op([x], tape.tensor(x.numel, x.itemsize), shares_grad=True)
        for x, number in zip(
            received, (local_heads.num_heads, local_heads.num_kv_heads, local_heads.num_kv_heads), strict=True
        )
    ]
    output = attention(tape, batch.attn_implementation, local_heads, qkv[0], qkv[1], qkv[2])
    out = _gather_heads(tape, batch, output, batch_size > 1)
    tape.keep_alive(position_ids, gathered_ids, output, *qkv)
    return tape.op([out], tape.tensor(out.numel, out.itemsize), shares_grad=True) if batch_size > 1 else out


def _scatter_heads(tape: ForwardTape, batch: MicroBatch, x: ActivationTensor, count: int) -> ActivationTensor:
    """Record `combine_sequence`, which repeats key/value heads if there are too few and sends a contiguous copy."""
    itemsize = x.itemsize
    if count > x.numel:
        x = tape.op([x], tape.tensor(count, itemsize, label=EXCHANGED))
    packed = tape.op([x], tape.tensor(count, itemsize, label=EXCHANGED), shares_grad=True)
    grad_copy = count * itemsize if batch.micro_batch_size > 1 else 0
    received = tape.op([packed], tape.tensor(count, itemsize, label=EXCHANGED), backward_temporary=grad_copy)
    tape.collectives += _all_to_all_collectives(
        batch, "all_to_all", count, itemsize, has_backward=received.requires_grad
    )
    return received


def _gather_heads(
    tape: ForwardTape, batch: MicroBatch, x: ActivationTensor, copies: bool
) -> ActivationTensor:
    """Record `_partition_global_sequence`, which sends the attention output back and concatenates its heads."""
    count, itemsize = x.numel, x.itemsize
    packed = tape.op([x], tape.tensor(count, itemsize, label=EXCHANGED), shares_grad=True) if copies else x
    received = tape.op(
        [packed], tape.tensor(count, itemsize, label=EXCHANGED), backward_temporary=count * itemsize
    )
    tape.collectives += _all_to_all_collectives(
        batch, "all_to_all", count, itemsize, has_backward=received.requires_grad
    )
    hidden_states = tape.op([received], tape.tensor(count, itemsize), shares_grad=True)
    if copies:
        tape.keep_alive(packed)
    return hidden_states


def _all_to_all_collectives(
    batch: MicroBatch, name: str, numel: int, itemsize: int, *, has_backward: bool
) -> list[ModelCollective]:
    """Return an all-to-all of the forward pass, its counterpart in the backward pass, and one for recomputation."""
    backward_calls = has_backward + batch.gradient_checkpointing
    return [
        ModelCollective(name, "forward", 1, numel, itemsize, batch.sp_size),
        ModelCollective(name, "backward", backward_calls, numel, itemsize, batch.sp_size),
    ][: 1 + bool(backward_calls)]
