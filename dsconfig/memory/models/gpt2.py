"""GPT-2."""

from __future__ import annotations

from dsconfig.memory.graph import Tape, Tensor
from dsconfig.memory.layers import (
    Heads,
    add,
    attend,
    dropout,
    embedded,
    gelu_new,
    head_of,
    language_loss,
    layer_norm,
    linear,
)
from dsconfig.memory.models.shape import Shape, Work


class Layer:
    """The modules of one block."""

    def __init__(self, tape: Tape, shape: Shape, prefix: str) -> None:
        hidden, wide = shape.hidden, shape.wide
        self.whole = tape.module(prefix)
        self.before = tape.module(f"{prefix}.ln_1", hidden, hidden)
        self.attention = tape.module(f"{prefix}.attn")
        self.joint = tape.projection(f"{prefix}.attn.c_attn", 3 * hidden, hidden, 3 * hidden)
        self.output = tape.projection(f"{prefix}.attn.c_proj", hidden, hidden, hidden)
        self.kept = tape.module(f"{prefix}.attn.resid_dropout")
        self.after = tape.module(f"{prefix}.ln_2", hidden, hidden)
        self.mlp = tape.module(f"{prefix}.mlp")
        self.up = tape.projection(f"{prefix}.mlp.c_fc", wide, hidden, wide)
        self.down = tape.projection(f"{prefix}.mlp.c_proj", hidden, wide, hidden)
        self.act = tape.module(f"{prefix}.mlp.act")
        self.mlp_kept = tape.module(f"{prefix}.mlp.dropout")
        for module in (self.joint, self.output, self.up, self.down):
            for (
                weight
            ) in module.weights:  # `Conv1D`: DeepSpeed knows it not, and its product takes it as it is
                weight.linear = weight.viewed = False
                weight.shape = weight.shape[::-1]


def build(shape: Shape, work: Work) -> Tape:
    """The modules and the pass of a model."""
    tape = work.tape()
    rows, hidden = work.micro * work.length, shape.hidden
    root, model = tape.module("", returns=False), tape.module("transformer", returns=False)
    words = tape.module("transformer.wte", (shape.vocabulary, hidden), returns=False, casts=shape.tied)
    places = tape.module("transformer.wpe", (shape.positions, hidden), returns=False)
    kept = tape.module("transformer.drop")
    layers = [Layer(tape, shape, f"transformer.h.{index}") for index in range(shape.layers)]
    norm = tape.module("transformer.ln_f", hidden, hidden)
    head = head_of(tape, words, shape)
    tape.extra = 8 * rows
    if not work.computes:
        return tape
    sizes = (shape.heads, shape.heads, hidden // shape.heads, work.micro, work.length)
    heads = Heads(*sizes, shape.attention_dropout, upcast=False)
    with tape.inside(root):
        with tape.inside(model):
            x = embedded(tape, words, rows * hidden, work)
            with tape.inside(places):
                y = tape.step([], tape.tensor(work.length * hidden), weights=places.weights)
            x = tape.step([x, y], tape.tensor(rows * hidden), shares=work.micro == 1)
            with tape.inside(kept):
                x = dropout(tape, x, shape.dropout)
            for layer in layers:
                x = block(tape, shape, layer, heads, work, x)
            x = layer_norm(tape, norm, x, rows)
        language_loss(tape, head, head.weights, x, rows, shape.vocabulary)
    return tape


def block(tape: Tape, shape: Shape, layer: Layer, heads: Heads, work: Work, x: Tensor) -> Tensor:
    """One layer."""
    rows, hidden = heads.rows, shape.hidden
    with tape.inside(layer.whole, x), tape.segment(x, work.checkpointing):
        y = layer_norm(tape, layer.before, x, rows)
        with tape.inside(layer.attention, y):
            joint = linear(tape, layer.joint, y, rows, 3 * hidden)
            mixed = attend_joint(tape, work, heads, joint)
            y = linear(tape, layer.output, mixed, rows, hidden)
            with tape.inside(layer.kept):
                y = dropout(tape, y, shape.dropout)
        x = add(tape, x, y)
        y = layer_norm(tape, layer.after, x, rows)
        with tape.inside(layer.mlp, y):
            y = gelu_new(tape, layer.act, linear(tape, layer.up, y, rows, shape.wide))
            y = linear(tape, layer.down, y, rows, hidden)
            with tape.inside(layer.mlp_kept):
                y = dropout(tape, y, shape.dropout)
        return add(tape, x, y)


def attend_joint(tape: Tape, work: Work, heads: Heads, joint: Tensor) -> Tensor:
    """Queries, keys and values are views of one tensor, which stays whole for them."""
    if work.attention == "eager":
        parts = [tape.step([joint], tape.tensor(joint.elements // 3, joint.width)) for _ in range(3)]
        return attend(tape, work.attention, heads, parts[0], parts[1], parts[2])
    rows = tape.tensor(heads.rows * heads.queries, 4, needs=False)
    tape.step([], rows)
    made = tape.tensor(joint.elements // 3, joint.width)
    return tape.step([joint, rows], made, [joint, rows, made], back=joint.bytes)
