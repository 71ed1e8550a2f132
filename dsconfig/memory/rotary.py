"""Rotary position embeddings as autograd operations, as implemented by the model families of Transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.memory.layers import cast_tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape
    from dsconfig.memory.layers import AttentionHeads


def rotary(
    tape: ForwardTape, x: ActivationTensor, itemsize: int, tables: Sequence[ActivationTensor] = ()
) -> ActivationTensor:
    """Record `apply_rotary_pos_emb`, which saves nothing because cos and sin need no gradient.

    `tables` are the layer's own cos and sin, which are saved; they are empty if all layers share cos and sin.
    """
    count = x.numel
    x_cos = tape.op([x, *tables[:1]], tape.tensor(count, itemsize), tables[:1])
    rotated_half = tape.op(
        [x],
        tape.tensor(count, x.itemsize),
        temporary=count // 2 * x.itemsize,
        backward_temporary=count * x.itemsize,
    )
    x_sin = tape.op([rotated_half, *tables[1:]], tape.tensor(count, itemsize), tables[1:])
    return tape.op([x_cos, x_sin], tape.tensor(count, itemsize), shares_grad=True)


def rotate(
    tape: ForwardTape,
    heads: AttentionHeads,
    query: ActivationTensor,
    key: ActivationTensor,
    kind: str = "half",
) -> tuple[ActivationTensor, ActivationTensor]:
    """Apply rotary embeddings to queries and keys.

    Values of `kind`: `half` rotates halves of a head in the model's dtype, `interleaved` pairs of elements, for which
    cos and sin are repeated. `fp32_product` multiplies by cos and sin in fp32, `fp32` also casts queries and keys, and
    `fp32_interleaved` does so after exchanging pairs. `split` computes the two halves as four products.
    """
    if kind == "split":
        return _rotate_split(tape, query), _rotate_split(tape, key)
    if kind.endswith("interleaved"):
        numel = heads.sequence_length * heads.head_dim
        tables = [
            tape.op([], tape.tensor(numel, 4 if "fp32" in kind else 0, requires_grad=False)) for _ in range(2)
        ]
    else:
        tables = []
    if kind in ("half", "interleaved"):
        rotated = tuple(rotary(tape, x, tape.itemsize, tables) for x in (query, key))
    elif kind == "fp32_interleaved":
        rotated = tuple(_rotate_in_fp32(tape, x, tables) for x in (query, key))
    else:
        copies = (cast_tensor(tape, query, 4), cast_tensor(tape, key, 4)) if kind == "fp32" else (query, key)
        rotated = tuple(rotary(tape, x, 4) for x in copies)
    if kind.startswith("fp32"):
        query_key = cast_tensor(tape, rotated[0], query.itemsize), cast_tensor(tape, rotated[1], key.itemsize)
    else:
        query_key = rotated[0], rotated[1]
    if tables:
        tape.keep_alive(*tables)
    return query_key


def _rotate_in_fp32(
    tape: ForwardTape, x: ActivationTensor, tables: list[ActivationTensor]
) -> ActivationTensor:
    """Record ERNIE's rotation, which casts to fp32 before and after exchanging pairs of elements."""
    count = x.numel
    x_cos = tape.op([cast_tensor(tape, x, 4), tables[0]], tape.tensor(count, 4), [tables[0]])
    exchanged = tape.op([x], tape.tensor(count, x.itemsize), temporary=count // 2 * x.itemsize)
    x_sin = tape.op([cast_tensor(tape, exchanged, 4), tables[1]], tape.tensor(count, 4), [tables[1]])
    return tape.op([x_cos, x_sin], tape.tensor(count, 4), shares_grad=True)


def _rotate_split(tape: ForwardTape, x: ActivationTensor) -> ActivationTensor:
    """Record gpt-oss's rotation: two products per half of a head, and `torch.cat`."""
    halves = []
    for _ in range(2):
        products = [tape.op([x], tape.tensor(x.numel // 2, x.itemsize)) for _ in range(2)]
        halves.append(tape.op(products, tape.tensor(x.numel // 2, x.itemsize), shares_grad=True))
    return tape.op(halves, tape.tensor(x.numel, x.itemsize), shares_grad=True)


def rotate_fused(
    tape: ForwardTape, heads: AttentionHeads, qkv: ActivationTensor, rotary_dim: int
) -> tuple[ActivationTensor, ActivationTensor, ActivationTensor]:
    """Apply rotary embeddings to slices of a fused QKV tensor.

    Only `rotary_dim` elements of a head are rotated, and `torch.cat` builds new query and key tensors. Values
    stay slices.
    """
    query, key = (
        rotate_part(tape, heads, qkv, count, rotary_dim) for count in (heads.num_heads, heads.num_kv_heads)
    )
    return query, key, qkv


def rotate_part(
    tape: ForwardTape, heads: AttentionHeads, x: ActivationTensor, count: int, rotary_dim: int
) -> ActivationTensor:
    """Apply rotary embeddings to `rotary_dim` elements of each head, and concatenate them with the rest."""
    itemsize, numel = tape.itemsize, heads.num_tokens * count * rotary_dim
    # `rotate_half` builds a new tensor from two slices, which adds a temporary of half the size.
    x_cos = tape.op([], tape.tensor(numel, itemsize))
    rotated_half = tape.tensor(numel, x.itemsize)
    tape.op([x], rotated_half, temporary=rotated_half.bytes // 2, backward_temporary=rotated_half.bytes)
    x_sin = tape.op([rotated_half], tape.tensor(numel, itemsize))
    partial = tape.op([x_cos, x_sin], tape.tensor(numel, itemsize), shares_grad=True)
    whole = tape.tensor(heads.num_tokens * count * heads.head_dim, itemsize)
    return tape.op([partial], whole, shares_grad=True)
