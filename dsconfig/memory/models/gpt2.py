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
from dsconfig.memory.models.shape import Architecture, MicroBatch


class Layer:
    """The modules of one block."""

    def __init__(self, tape: Tape, shape: Architecture, prefix: str) -> None:
        hidden, wide = shape.hidden_size, shape.intermediate_size
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
                weight.is_linear = weight.saves_view = False
                weight.shape = weight.shape[::-1]


def build(shape: Architecture, work: MicroBatch) -> Tape:
    """The modules and the pass of a model."""
    tape = work.new_tape()
    rows, hidden = work.micro_batch_size * work.sequence_length, shape.hidden_size
    root, model = (
        tape.module("", inputs_require_grad=False),
        tape.module("transformer", inputs_require_grad=False),
    )
    words = tape.module(
        "transformer.wte",
        (shape.vocab_size, hidden),
        inputs_require_grad=False,
        casts=shape.tie_word_embeddings,
    )
    places = tape.module(
        "transformer.wpe", (shape.max_position_embeddings, hidden), inputs_require_grad=False
    )
    kept = tape.module("transformer.drop")
    layers = [Layer(tape, shape, f"transformer.h.{index}") for index in range(shape.num_layers)]
    norm = tape.module("transformer.ln_f", hidden, hidden)
    head = head_of(tape, words, shape)
    tape.input_bytes = 8 * rows
    if not work.records_pass:
        return tape
    sizes = (
        shape.num_heads,
        shape.num_heads,
        hidden // shape.num_heads,
        work.micro_batch_size,
        work.sequence_length,
    )
    heads = Heads(*sizes, shape.attention_dropout, upcast=False)
    with tape.scope(root):
        with tape.scope(model):
            x = embedded(tape, words, rows * hidden, work)
            with tape.scope(places):
                y = tape.op([], tape.tensor(work.sequence_length * hidden), weights=places.weights)
            x = tape.op([x, y], tape.tensor(rows * hidden), passes_grad_through=work.micro_batch_size == 1)
            with tape.scope(kept):
                x = dropout(tape, x, shape.dropout)
            for layer in layers:
                x = block(tape, shape, layer, heads, work, x)
            x = layer_norm(tape, norm, x, rows)
        language_loss(tape, head, head.weights, x, rows, shape.vocab_size)
    return tape


def block(tape: Tape, shape: Architecture, layer: Layer, heads: Heads, work: MicroBatch, x: Tensor) -> Tensor:
    """One layer."""
    rows, hidden = heads.rows, shape.hidden_size
    with tape.scope(layer.whole, x), tape.checkpoint(x, work.gradient_checkpointing):
        y = layer_norm(tape, layer.before, x, rows)
        with tape.scope(layer.attention, y):
            joint = linear(tape, layer.joint, y, rows, 3 * hidden)
            mixed = attend_joint(tape, work, heads, joint)
            y = linear(tape, layer.output, mixed, rows, hidden)
            with tape.scope(layer.kept):
                y = dropout(tape, y, shape.dropout)
        x = add(tape, x, y)
        y = layer_norm(tape, layer.after, x, rows)
        with tape.scope(layer.mlp, y):
            y = gelu_new(tape, layer.act, linear(tape, layer.up, y, rows, shape.intermediate_size))
            y = linear(tape, layer.down, y, rows, hidden)
            with tape.scope(layer.mlp_kept):
                y = dropout(tape, y, shape.dropout)
        return add(tape, x, y)


def attend_joint(tape: Tape, work: MicroBatch, heads: Heads, joint: Tensor) -> Tensor:
    """Queries, keys and values are views of one tensor, which stays whole for them."""
    if work.attn_implementation == "eager":
        parts = [tape.op([joint], tape.tensor(joint.numel // 3, joint.itemsize)) for _ in range(3)]
        return attend(tape, work.attn_implementation, heads, parts[0], parts[1], parts[2])
    rows = tape.tensor(heads.rows * heads.queries, 4, requires_grad=False)
    tape.op([], rows)
    made = tape.tensor(joint.numel // 3, joint.itemsize)
    return tape.op([joint, rows], made, [joint, rows, made], backward_temporary=joint.bytes)
