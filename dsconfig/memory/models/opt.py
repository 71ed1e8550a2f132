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
from dsconfig.memory.models.shape import Architecture, MicroBatch


class Layer:
    """The modules of one layer."""

    def __init__(self, tape: Tape, shape: Architecture, prefix: str) -> None:
        hidden, wide = shape.hidden_size, shape.intermediate_size
        self.whole = tape.module(prefix)
        self.attention = tape.module(f"{prefix}.self_attn", inputs_require_grad=False)
        names = ("k_proj", "v_proj", "q_proj", "out_proj")
        self.projections = [
            tape.projection(f"{prefix}.self_attn.{name}", hidden, hidden, hidden) for name in names
        ]
        self.act = tape.module(f"{prefix}.activation_fn")
        self.before = tape.module(f"{prefix}.self_attn_layer_norm", hidden, hidden)
        self.up = tape.projection(f"{prefix}.fc1", wide, hidden, wide)
        self.down = tape.projection(f"{prefix}.fc2", hidden, wide, hidden)
        self.after = tape.module(f"{prefix}.final_layer_norm", hidden, hidden)


def build(shape: Architecture, work: MicroBatch) -> Tape:
    """The modules and the pass of a model."""
    tape = work.new_tape()
    rows, hidden = work.micro_batch_size * work.sequence_length, shape.hidden_size
    root, model = tape.module("", inputs_require_grad=False), tape.module("model", inputs_require_grad=False)
    inner = tape.module("model.decoder", inputs_require_grad=False)
    prefix, table = "model.decoder", (shape.vocab_size, hidden)
    words = tape.module(
        f"{prefix}.embed_tokens", table, inputs_require_grad=False, casts=shape.tie_word_embeddings
    )
    rows_of_places = (shape.max_position_embeddings + shape.position_offset, hidden)
    places = tape.module(f"{prefix}.embed_positions", rows_of_places, inputs_require_grad=False)
    norm = tape.module(f"{prefix}.final_layer_norm", hidden, hidden)
    layers = [Layer(tape, shape, f"{prefix}.layers.{index}") for index in range(shape.num_layers)]
    head = head_of(tape, words, shape)
    tape.input_bytes = 8 * rows
    if not work.records_pass:
        return tape
    size = hidden // shape.num_heads
    heads = Heads(
        shape.num_heads,
        shape.num_heads,
        size,
        work.micro_batch_size,
        work.sequence_length,
        shape.attention_dropout,
    )
    with tape.scope(root):
        with tape.scope(model), tape.scope(inner):
            x = embedded(tape, words, rows * hidden, work)
            counted = tape.op([], tape.tensor(rows, 12, requires_grad=False))
            masks = Masks(tape, shape, work)
            with tape.scope(places):
                y = tape.op([], tape.tensor(rows * hidden), weights=places.weights)
            x = tape.op([x, y], tape.tensor(rows * hidden), passes_grad_through=True)
            for layer in layers:
                x = opt_layer(tape, layer, x, masks.full, shape, heads, work)
            x = layer_norm(tape, norm, x, rows)
            tape.keep_alive(y, counted)
            masks.drop()
        language_loss(tape, head, head.weights, x, rows, shape.vocab_size)
    return tape


def opt_layer(
    tape: Tape,
    layer: Layer,
    x: Tensor,
    mask: Tensor | None,
    shape: Architecture,
    heads: Heads,
    work: MicroBatch,
) -> Tensor:
    """One layer."""
    rows, hidden = heads.rows, shape.hidden_size
    with tape.scope(layer.whole, x), tape.checkpoint(x, work.gradient_checkpointing):
        y = layer_norm(tape, layer.before, x, rows)
        with tape.scope(layer.attention, y):
            keys, values, queries, output = layer.projections
            query = linear(tape, queries, y, rows, hidden)
            query = tape.op([query], tape.tensor(query.numel, query.itemsize))
            key, value = (linear(tape, module, y, rows, hidden) for module in (keys, values))
            mixed = attend(tape, work.attn_implementation, heads, query, key, value, mask)
            y = linear(tape, output, mixed, rows, hidden)
        x = add(tape, x, dropout(tape, y, shape.dropout))
        y = layer_norm(tape, layer.after, x, rows)
        y = relu(tape, layer.act, linear(tape, layer.up, y, rows, shape.intermediate_size, flat=True))
        y = linear(tape, layer.down, y, rows, hidden, flat=True)
        return add(tape, x, dropout(tape, y, shape.dropout))
