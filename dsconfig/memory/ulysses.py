"""Ulysses: ranks share a sequence, and exchange it for heads around attention (`UlyssesSPAttentionHF`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.memory.graph import ModelCollective, Tape, Tensor
from dsconfig.memory.layers import Heads, attention
from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from dsconfig.memory.models.architecture import Architecture, MicroBatch

KEY = "sequence_parallel_size"
EXCHANGED = "exchanged heads"
SUPPORTED_MODELS = (
    *("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"),
    *("gemma", "gemma3_text", "olmo2", "olmo3"),
)
"""Families whose engines were measured with it."""
SINCE = 17000
"""DeepSpeed 0.17.0: the first with `runtime/sequence_parallel/ulysses_sp.py`."""


def reject_model(arch: Architecture, batch: MicroBatch) -> None:
    """Refuse what Ulysses refuses itself, and models that it was not made for.

    Raises:
        NotModelledError: it is one of these.
    """
    ranks, length = batch.sp_size, batch.sequence_length
    if arch.family != "decoder":
        why = "`UlyssesSPAttentionHF` reads `num_key_value_heads` and `position_ids` of decoders"
        raise NotModelledError(f"`{KEY}` is not modelled for such a model: {why}")
    if arch.name not in SUPPORTED_MODELS:
        raise NotModelledError(f"`{KEY}` is not modelled for {arch.name}: no engine was measured with it")
    if batch.tensor_parallel.size > 1:
        raise NotModelledError(f"`{KEY}` together with `tensor_parallel.autotp_size` is not modelled")
    if batch.attn_implementation == "eager":
        raise NotModelledError(f"`UlyssesSPAttentionHF` refuses `eager` attention with `{KEY}`")
    if arch.num_heads % ranks:
        raise NotModelledError(f"`UlyssesSPAttentionHF` refuses {arch.num_heads} heads for {ranks} ranks")
    if arch.num_kv_heads % ranks and ranks % arch.num_kv_heads:
        told = f"{arch.num_kv_heads} heads of keys and values for {ranks} ranks"
        raise NotModelledError(f"`UlyssesSPAttentionHF` refuses {told}")
    if length % ranks:
        raise NotModelledError(
            f"a sequence of {length} tokens cannot be shared by {ranks} ranks", f"give a multiple of {ranks}"
        )


def ulysses_attention(
    tape: Tape, batch: MicroBatch, heads: Heads, query: Tensor, key: Tensor, value: Tensor
) -> Tensor:
    """Attention over whole sequences with a part of the heads; `heads` are those of the model.

    Python has names for what is made here until all of it is done.
    """
    ranks, batch_size = batch.sp_size, heads.batch_size
    whole = batch_size * heads.sequence_length * ranks
    places = tape.op([], tape.tensor(whole, 8, requires_grad=False))
    joint = tape.op([places], tape.tensor(whole, 8, requires_grad=False))
    tape.collectives += _collectives(batch, "all_gather", whole, 8, back=False)
    keys = max(heads.num_kv_heads, ranks)  # heads of fewer are repeated
    own = heads._replace(
        num_heads=heads.num_heads // ranks,
        num_kv_heads=keys // ranks,
        sequence_length=heads.sequence_length * ranks,
    )
    counts = [whole // ranks * number * heads.head_dim for number in (heads.num_heads, keys, keys)]
    sent = [_scatter(tape, batch, x, count) for x, count in zip((query, key, value), counts, strict=True)]
    locals_ = [
        x
        if batch_size == number == 1
        else tape.op([x], tape.tensor(x.numel, x.itemsize), passes_grad_through=True)
        for x, number in zip(sent, (own.num_heads, own.num_kv_heads, own.num_kv_heads), strict=True)
    ]
    mixed = attention(tape, batch.attn_implementation, own, locals_[0], locals_[1], locals_[2])
    out = _gather(tape, batch, mixed, batch_size > 1)
    tape.keep_alive(places, joint, mixed, *locals_)
    return (
        tape.op([out], tape.tensor(out.numel, out.itemsize), passes_grad_through=True)
        if batch_size > 1
        else out
    )


def _scatter(tape: Tape, batch: MicroBatch, x: Tensor, count: int) -> Tensor:
    """`combine_sequence`: heads that are too few are repeated, then all are sent, from a copy."""
    itemsize = x.itemsize
    if count > x.numel:
        x = tape.op([x], tape.tensor(count, itemsize, label=EXCHANGED))
    packed = tape.op([x], tape.tensor(count, itemsize, label=EXCHANGED), passes_grad_through=True)
    again = count * itemsize if batch.micro_batch_size > 1 else 0
    received = tape.op([packed], tape.tensor(count, itemsize, label=EXCHANGED), backward_temporary=again)
    tape.collectives += _collectives(batch, "all_to_all", count, itemsize, back=received.requires_grad)
    return received


def _gather(tape: Tape, batch: MicroBatch, x: Tensor, copies: bool) -> Tensor:
    """`_partition_global_sequence`: what was computed is sent back, and its heads are put side by side."""
    count, itemsize = x.numel, x.itemsize
    packed = (
        tape.op([x], tape.tensor(count, itemsize, label=EXCHANGED), passes_grad_through=True) if copies else x
    )
    received = tape.op(
        [packed], tape.tensor(count, itemsize, label=EXCHANGED), backward_temporary=count * itemsize
    )
    tape.collectives += _collectives(batch, "all_to_all", count, itemsize, back=received.requires_grad)
    joined = tape.op([received], tape.tensor(count, itemsize), passes_grad_through=True)
    if copies:
        tape.keep_alive(packed)
    return joined


def _collectives(
    batch: MicroBatch, name: str, numel: int, itemsize: int, *, back: bool
) -> list[ModelCollective]:
    """A call on the way there, and for its gradient; one more where a layer is computed again."""
    returning = back + batch.gradient_checkpointing
    return [
        ModelCollective(name, "forward", 1, numel, itemsize, batch.sp_size),
        ModelCollective(name, "backward", returning, numel, itemsize, batch.sp_size),
    ][: 1 + bool(returning)]
