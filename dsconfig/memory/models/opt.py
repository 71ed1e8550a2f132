"""OPT."""

from __future__ import annotations

from dsconfig.memory.graph import Tape, Tensor
from dsconfig.memory.layers import (
    Heads,
    Masks,
    add,
    attend,
    dropout,
    embedded,
    head_of,
    language_loss,
    layer_norm,
    linear,
    relu,
)
from dsconfig.memory.models.shape import Shape, Work


class Layer:
    """The modules of one layer."""

    def __init__(self, tape: Tape, shape: Shape, prefix: str) -> None:
        hidden, wide = shape.hidden, shape.wide
        self.whole = tape.module(prefix)
        self.attention = tape.module(f"{prefix}.self_attn", returns=False)
        names = ("k_proj", "v_proj", "q_proj", "out_proj")
        self.projections = [
            tape.projection(f"{prefix}.self_attn.{name}", hidden, hidden, hidden) for name in names
        ]
        self.act = tape.module(f"{prefix}.activation_fn")
        self.before = tape.module(f"{prefix}.self_attn_layer_norm", hidden, hidden)
        self.up = tape.projection(f"{prefix}.fc1", wide, hidden, wide)
        self.down = tape.projection(f"{prefix}.fc2", hidden, wide, hidden)
        self.after = tape.module(f"{prefix}.final_layer_norm", hidden, hidden)


def build(shape: Shape, work: Work) -> Tape:
    """The modules and the pass of a model."""
    tape = work.tape()
    rows, hidden = work.micro * work.length, shape.hidden
    root, model = tape.module("", returns=False), tape.module("model", returns=False)
    inner = tape.module("model.decoder", returns=False)
    prefix, table = "model.decoder", (shape.vocabulary, hidden)
    words = tape.module(f"{prefix}.embed_tokens", table, returns=False, casts=shape.tied)
    rows_of_places = (shape.positions + shape.spare, hidden)
    places = tape.module(f"{prefix}.embed_positions", rows_of_places, returns=False)
    norm = tape.module(f"{prefix}.final_layer_norm", hidden, hidden)
    layers = [Layer(tape, shape, f"{prefix}.layers.{index}") for index in range(shape.layers)]
    head = head_of(tape, words, shape)
    tape.extra = 8 * rows
    if not work.computes:
        return tape
    size = hidden // shape.heads
    heads = Heads(shape.heads, shape.heads, size, work.micro, work.length, shape.attention_dropout)
    with tape.inside(root):
        with tape.inside(model), tape.inside(inner):
            x = embedded(tape, words, rows * hidden, work)
            counted = tape.step([], tape.tensor(rows, 12, needs=False))
            masks = Masks(tape, shape, work)
            with tape.inside(places):
                y = tape.step([], tape.tensor(rows * hidden), weights=places.weights)
            x = tape.step([x, y], tape.tensor(rows * hidden), shares=True)
            for layer in layers:
                x = opt_layer(tape, layer, x, masks.full, shape, heads, work)
            x = layer_norm(tape, norm, x, rows)
            tape.hold(y, counted)
            masks.drop()
        language_loss(tape, head, head.weights, x, rows, shape.vocabulary)
    return tape


def opt_layer(
    tape: Tape, layer: Layer, x: Tensor, mask: Tensor | None, shape: Shape, heads: Heads, work: Work
) -> Tensor:
    """One layer."""
    rows, hidden = heads.rows, shape.hidden
    with tape.inside(layer.whole, x), tape.segment(x, work.checkpointing):
        y = layer_norm(tape, layer.before, x, rows)
        with tape.inside(layer.attention, y):
            keys, values, queries, output = layer.projections
            query = linear(tape, queries, y, rows, hidden)
            query = tape.step([query], tape.tensor(query.elements, query.width))
            key, value = (linear(tape, module, y, rows, hidden) for module in (keys, values))
            mixed = attend(tape, work.attention, heads, query, key, value, mask)
            y = linear(tape, output, mixed, rows, hidden)
        x = add(tape, x, dropout(tape, y, shape.dropout))
        y = layer_norm(tape, layer.after, x, rows)
        y = relu(tape, layer.act, linear(tape, layer.up, y, rows, shape.wide, flat=True))
        y = linear(tape, layer.down, y, rows, hidden, flat=True)
        return add(tape, x, dropout(tape, y, shape.dropout))
