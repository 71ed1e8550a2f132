"""The pass of a model, by its family."""

from __future__ import annotations

from functools import lru_cache

from dsconfig.sizing import experts, ulysses
from dsconfig.sizing.models.shape import Shape, Work
from dsconfig.sizing.refused import NotModelledError
from dsconfig.sizing.tape import Exchange, Tape


def record(shape: Shape, work: Work) -> Tape:
    """The modules of a model and the steps of its forward pass.

    Raises:
        NotModelledError: ranks are to share layers of a model for which that is not modelled.
    """
    if work.sequence > 1:
        ulysses.refuse(shape, work)
    if work.experts:
        experts.refuse(shape, work)
    if work.tensor > 1:
        return shared(shape, work)
    if shape.family == "gpt2":
        from dsconfig.sizing.models.gpt2 import build
    elif shape.family == "vit":
        from dsconfig.sizing.models.vit import build
    elif shape.family == "plain":
        from dsconfig.sizing.models.plain import build
    else:
        from dsconfig.sizing.models.decoder import build
    return build(shape, work)


@lru_cache(maxsize=4)
def weights_of(shape: Shape, width: int, autocast: bool) -> Tape:
    """The modules and their parameters alone, without a pass."""
    return record(shape, Work(1, 1, width, autocast, computes=False))


def shared(shape: Shape, work: Work) -> Tape:
    """The same where each rank has a part of every linear layer (AutoTP, module_inject/layers.py).

    Measured: on the way there what `o_proj` and `down_proj` make is summed, the head's logits are gathered;
    on the way back five gradients of inputs a layer are summed (q, k, v, gate and up), and that of the head,
    and what is computed again ends before the sum of `down_proj`.
    """
    parts, key = work.tensor, "tensor_parallel.autotp_size"
    if shape.family != "decoder" or shape.experts or shape.tied or work.adapter:
        what = "but for Llama and what is built like it, untied, without experts and adapters,"
        raise NotModelledError(f"`{key}` is not modelled {what}")
    whole = {"heads": shape.heads, "key and value heads": shape.key_heads, "elements of an MLP": shape.wide}
    for name, count in (whole | {"words": shape.vocabulary}).items():
        if count % parts:
            raise NotModelledError(f"`{key}` {parts} does not divide {count} {name}: that is not modelled")
    cut = shape._replace(
        heads=shape.heads // parts, key_heads=shape.key_heads // parts, wide=shape.wide // parts
    )
    tape = record(cut._replace(parts=parts), work._replace(tensor=1))
    tape.parts = parts
    rows, layers = work.micro * work.length, shape.layers
    back = layers * (6 if work.checkpointing else 5) + 1
    tape.exchanged = [
        Exchange(name, phase, calls, elements, work.width, parts)
        for phase, name, calls, elements in (
            ("forward", "all_reduce", 2 * layers, rows * shape.hidden),
            ("forward", "all_gather", 1, rows * shape.vocabulary),
            ("backward", "all_reduce", back, rows * shape.hidden),
            ("backward", "all_reduce", 2 * layers if shape.head_norms else 0, shape.head_size),
        )
    ]
    return tape
