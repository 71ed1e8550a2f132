"""Ulysses: ranks share a sequence, and exchange it for heads around attention (`UlyssesSPAttentionHF`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.memory.graph import Exchange, Tape, Tensor
from dsconfig.memory.layers import Heads, attend
from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from dsconfig.memory.models.shape import Shape, Work

KEY = "sequence_parallel_size"
EXCHANGED = "exchanged heads"
SHARED = (
    *("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"),
    *("gemma", "gemma3_text", "olmo2", "olmo3"),
)
"""Families whose engines were measured with it."""
SINCE = 17000
"""DeepSpeed 0.17.0: the first with `runtime/sequence_parallel/ulysses_sp.py`."""


def refuse(shape: Shape, work: Work) -> None:
    """Refuse what Ulysses refuses itself, and models that it was not made for.

    Raises:
        NotModelledError: it is one of these.
    """
    ranks, length = work.sequence, work.length
    if shape.family != "decoder":
        why = "`UlyssesSPAttentionHF` reads `num_key_value_heads` and `position_ids` of decoders"
        raise NotModelledError(f"`{KEY}` is not modelled for such a model: {why}")
    if shape.name not in SHARED:
        raise NotModelledError(f"`{KEY}` is not modelled for {shape.name}: no engine was measured with it")
    if work.tensor.ranks > 1:
        raise NotModelledError(f"`{KEY}` together with `tensor_parallel.autotp_size` is not modelled")
    if work.attention == "eager":
        raise NotModelledError(f"`UlyssesSPAttentionHF` refuses `eager` attention with `{KEY}`")
    if shape.heads % ranks:
        raise NotModelledError(f"`UlyssesSPAttentionHF` refuses {shape.heads} heads for {ranks} ranks")
    if shape.key_heads % ranks and ranks % shape.key_heads:
        told = f"{shape.key_heads} heads of keys and values for {ranks} ranks"
        raise NotModelledError(f"`UlyssesSPAttentionHF` refuses {told}")
    if length % ranks:
        raise NotModelledError(
            f"a sequence of {length} tokens cannot be shared by {ranks} ranks", f"give a multiple of {ranks}"
        )


def attend_shared(tape: Tape, work: Work, heads: Heads, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention over whole sequences with a part of the heads; `heads` are those of the model.

    Python has names for what is made here until all of it is done.
    """
    ranks, batch = work.sequence, heads.batch
    whole = batch * heads.length * ranks
    places = tape.step([], tape.tensor(whole, 8, needs=False))
    joint = tape.step([places], tape.tensor(whole, 8, needs=False))
    tape.exchanged += exchanges(work, "all_gather", whole, 8, back=False)
    keys = max(heads.keys, ranks)  # heads of fewer are repeated
    own = heads._replace(queries=heads.queries // ranks, keys=keys // ranks, length=heads.length * ranks)
    counts = [whole // ranks * number * heads.size for number in (heads.queries, keys, keys)]
    sent = [_scatter(tape, work, x, count) for x, count in zip((query, key, value), counts, strict=True)]
    locals_ = [
        x if batch == number == 1 else tape.step([x], tape.tensor(x.elements, x.width), shares=True)
        for x, number in zip(sent, (own.queries, own.keys, own.keys), strict=True)
    ]
    mixed = attend(tape, work.attention, own, locals_[0], locals_[1], locals_[2])
    out = _gather(tape, work, mixed, batch > 1)
    tape.hold(places, joint, mixed, *locals_)
    return tape.step([out], tape.tensor(out.elements, out.width), shares=True) if batch > 1 else out


def _scatter(tape: Tape, work: Work, x: Tensor, count: int) -> Tensor:
    """`combine_sequence`: heads that are too few are repeated, then all are sent, from a copy."""
    width = x.width
    if count > x.elements:
        x = tape.step([x], tape.tensor(count, width, label=EXCHANGED))
    packed = tape.step([x], tape.tensor(count, width, label=EXCHANGED), shares=True)
    again = count * width if work.micro > 1 else 0
    received = tape.step([packed], tape.tensor(count, width, label=EXCHANGED), back=again)
    tape.exchanged += exchanges(work, "all_to_all", count, width, back=received.needs)
    return received


def _gather(tape: Tape, work: Work, x: Tensor, copies: bool) -> Tensor:
    """`_partition_global_sequence`: what was computed is sent back, and its heads are put side by side."""
    count, width = x.elements, x.width
    packed = tape.step([x], tape.tensor(count, width, label=EXCHANGED), shares=True) if copies else x
    received = tape.step([packed], tape.tensor(count, width, label=EXCHANGED), back=count * width)
    tape.exchanged += exchanges(work, "all_to_all", count, width, back=received.needs)
    joined = tape.step([received], tape.tensor(count, width), shares=True)
    if copies:
        tape.hold(packed)
    return joined


def exchanges(work: Work, name: str, elements: int, width: int, *, back: bool) -> list[Exchange]:
    """A call on the way there, and for its gradient; one more where a layer is computed again."""
    returning = back + work.checkpointing
    return [
        Exchange(name, "forward", 1, elements, width, work.sequence),
        Exchange(name, "backward", returning, elements, width, work.sequence),
    ][: 1 + bool(returning)]
