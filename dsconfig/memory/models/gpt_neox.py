"""GPT-NeoX and Pythia."""

from __future__ import annotations

from dsconfig.memory.graph import Tape, Tensor
from dsconfig.memory.layers import (
    Heads,
    Masks,
    activation,
    add,
    attend,
    dropout,
    embedded,
    head_of,
    language_loss,
    layer_norm,
    linear,
    turn_joined,
)
from dsconfig.memory.models.shape import Shape, Work


class Layer:
    """The modules of one layer."""

    def __init__(self, tape: Tape, shape: Shape, prefix: str) -> None:
        hidden, wide, biased = shape.hidden, shape.wide, shape.query_bias
        self.whole = tape.module(prefix)
        self.before = tape.module(f"{prefix}.input_layernorm", hidden, hidden)
        self.after = tape.module(f"{prefix}.post_attention_layernorm", hidden, hidden)
        self.kept = tape.module(f"{prefix}.post_attention_dropout")
        self.mlp_kept = tape.module(f"{prefix}.post_mlp_dropout")
        self.attention = tape.module(f"{prefix}.attention")
        bias = [3 * hidden] if biased else []
        self.joint = tape.projection(f"{prefix}.attention.query_key_value", 3 * hidden, hidden, *bias)
        self.output = tape.projection(
            f"{prefix}.attention.dense", hidden, hidden, *([hidden] if biased else [])
        )
        self.mlp = tape.module(f"{prefix}.mlp")
        self.up = tape.projection(f"{prefix}.mlp.dense_h_to_4h", wide, hidden, wide)
        self.down = tape.projection(f"{prefix}.mlp.dense_4h_to_h", hidden, wide, hidden)
        self.act = tape.module(f"{prefix}.mlp.act")


def build(shape: Shape, work: Work) -> Tape:
    """The modules and the pass of a model."""
    tape = work.tape()
    rows, hidden = work.micro * work.length, shape.hidden
    root, model = tape.module("", returns=False), tape.module("gpt_neox", returns=False)
    words = tape.module("gpt_neox.embed_in", (shape.vocabulary, hidden), returns=False, casts=shape.tied)
    kept = tape.module("gpt_neox.emb_dropout")
    layers = [Layer(tape, shape, f"gpt_neox.layers.{index}") for index in range(shape.layers)]
    norm = tape.module("gpt_neox.final_layer_norm", hidden, hidden)
    turning = tape.module("gpt_neox.rotary_emb", returns=False)
    head = head_of(tape, words, shape)
    tape.extra = 8 * rows
    if not work.computes:
        return tape
    size = hidden // shape.heads
    heads = Heads(
        shape.heads, shape.heads, size, work.micro, work.length, shape.attention_dropout, apart=True
    )
    with tape.inside(root):
        with tape.inside(model):
            x = embedded(tape, words, rows * hidden, work)
            masks = Masks(tape, shape, work)
            with tape.inside(kept):
                x = dropout(tape, x, shape.dropout)
            with tape.inside(turning):
                turns = tape.step([], tape.tensor(2 * work.length * shape.turned, needs=False))
            for layer in layers:
                x = neox_layer(tape, shape, layer, heads, work, x, masks.full)
            x = layer_norm(tape, norm, x, rows)
            masks.drop()
        language_loss(tape, head, head.weights, x, rows, shape.vocabulary)
    tape.hold(turns)
    return tape


def neox_layer(
    tape: Tape, shape: Shape, layer: Layer, heads: Heads, work: Work, x: Tensor, mask: Tensor | None
) -> Tensor:
    """One layer: attention and MLP beside each other, or one after the other."""
    rows, hidden = heads.rows, shape.hidden
    with tape.inside(layer.whole, x), tape.segment(x, work.checkpointing):
        y = layer_norm(tape, layer.before, x, rows)
        with tape.inside(layer.attention, y):
            joint = linear(tape, layer.joint, y, rows, 3 * hidden)
            query, key, value = turn_joined(tape, heads, joint, shape.turned)
            mixed = attend(tape, work.attention, heads, query, key, value, mask)
            mixed = linear(tape, layer.output, mixed, rows, hidden)
        with tape.inside(layer.kept):
            mixed = dropout(tape, mixed, shape.dropout)
        source = x if shape.parallel else add(tape, mixed, x)
        y = layer_norm(tape, layer.after, source, rows)
        with tape.inside(layer.mlp, y):
            y = activation(tape, layer.act, linear(tape, layer.up, y, rows, shape.wide))
            y = linear(tape, layer.down, y, rows, hidden)
        with tape.inside(layer.mlp_kept):
            y = dropout(tape, y, shape.dropout)
        return add(tape, add(tape, y, mixed), x) if shape.parallel else add(tape, y, source)
