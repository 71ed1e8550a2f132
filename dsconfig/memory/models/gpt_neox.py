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
from dsconfig.memory.models.shape import Architecture, MicroBatch


class Layer:
    """The modules of one layer."""

    def __init__(self, tape: Tape, shape: Architecture, prefix: str) -> None:
        hidden, wide, biased = shape.hidden_size, shape.intermediate_size, shape.qkv_bias
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


def build(shape: Architecture, work: MicroBatch) -> Tape:
    """The modules and the pass of a model."""
    tape = work.new_tape()
    rows, hidden = work.micro_batch_size * work.sequence_length, shape.hidden_size
    root, model = (
        tape.module("", inputs_require_grad=False),
        tape.module("gpt_neox", inputs_require_grad=False),
    )
    words = tape.module(
        "gpt_neox.embed_in",
        (shape.vocab_size, hidden),
        inputs_require_grad=False,
        casts=shape.tie_word_embeddings,
    )
    kept = tape.module("gpt_neox.emb_dropout")
    layers = [Layer(tape, shape, f"gpt_neox.layers.{index}") for index in range(shape.num_layers)]
    norm = tape.module("gpt_neox.final_layer_norm", hidden, hidden)
    turning = tape.module("gpt_neox.rotary_emb", inputs_require_grad=False)
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
        apart=True,
    )
    with tape.scope(root):
        with tape.scope(model):
            x = embedded(tape, words, rows * hidden, work)
            masks = Masks(tape, shape, work)
            with tape.scope(kept):
                x = dropout(tape, x, shape.dropout)
            with tape.scope(turning):
                turns = tape.op(
                    [], tape.tensor(2 * work.sequence_length * shape.rotary_dim, requires_grad=False)
                )
            for layer in layers:
                x = neox_layer(tape, shape, layer, heads, work, x, masks.full)
            x = layer_norm(tape, norm, x, rows)
            masks.drop()
        language_loss(tape, head, head.weights, x, rows, shape.vocab_size)
    tape.keep_alive(turns)
    return tape


def neox_layer(
    tape: Tape,
    shape: Architecture,
    layer: Layer,
    heads: Heads,
    work: MicroBatch,
    x: Tensor,
    mask: Tensor | None,
) -> Tensor:
    """One layer: attention and MLP beside each other, or one after the other."""
    rows, hidden = heads.rows, shape.hidden_size
    with tape.scope(layer.whole, x), tape.checkpoint(x, work.gradient_checkpointing):
        y = layer_norm(tape, layer.before, x, rows)
        with tape.scope(layer.attention, y):
            joint = linear(tape, layer.joint, y, rows, 3 * hidden)
            query, key, value = turn_joined(tape, heads, joint, shape.rotary_dim)
            mixed = attend(tape, work.attn_implementation, heads, query, key, value, mask)
            mixed = linear(tape, layer.output, mixed, rows, hidden)
        with tape.scope(layer.kept):
            mixed = dropout(tape, mixed, shape.dropout)
        source = x if shape.use_parallel_residual else add(tape, mixed, x)
        y = layer_norm(tape, layer.after, source, rows)
        with tape.scope(layer.mlp, y):
            y = activation(tape, layer.act, linear(tape, layer.up, y, rows, shape.intermediate_size))
            y = linear(tape, layer.down, y, rows, hidden)
        with tape.scope(layer.mlp_kept):
            y = dropout(tape, y, shape.dropout)
        return add(tape, add(tape, y, mixed), x) if shape.use_parallel_residual else add(tape, y, source)
