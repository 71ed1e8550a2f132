"""The vision transformer, for classification."""

from __future__ import annotations

from dsconfig.memory.graph import Module, Tape, Tensor
from dsconfig.memory.layers import Heads, activation, add, attend, dropout, layer_norm, linear
from dsconfig.memory.models.shape import Architecture, MicroBatch


class Layer:
    """The modules of one layer."""

    def __init__(self, tape: Tape, shape: Architecture, prefix: str) -> None:
        hidden, wide = shape.hidden_size, shape.intermediate_size

        def projection(name: str, out: int, into: int) -> Module:
            return tape.projection(f"{prefix}.{name}", out, into, out)

        self.whole = tape.module(prefix)
        self.attention = tape.module(f"{prefix}.attention")
        names = ("q_proj", "k_proj", "v_proj")
        self.inputs = [projection(f"attention.{name}", hidden, hidden) for name in names]
        self.output = projection("attention.o_proj", hidden, hidden)
        self.before = tape.module(f"{prefix}.layernorm_before", hidden, hidden)
        self.after = tape.module(f"{prefix}.layernorm_after", hidden, hidden)
        self.mlp = tape.module(f"{prefix}.mlp")
        self.act = tape.module(f"{prefix}.mlp.activation_fn")
        self.up = projection("mlp.fc1", wide, hidden)
        self.down = projection("mlp.fc2", hidden, wide)
        self.kept = tape.module(f"{prefix}.dropout")


def build(shape: Architecture, work: MicroBatch) -> Tape:
    """The modules and the pass of a model."""
    tape = work.new_tape()
    hidden, side = shape.hidden_size, shape.image_size // shape.patch_size
    length = side * side + 1
    rows, pixels = (
        work.micro_batch_size * length,
        work.micro_batch_size * shape.num_channels * shape.image_size**2,
    )
    root, model = tape.module("", inputs_require_grad=False), tape.module("vit", inputs_require_grad=False)
    whole = tape.module("vit.embeddings", (1, 1, hidden), (1, length, hidden), inputs_require_grad=False)
    patches = tape.module("vit.embeddings.patch_embeddings", inputs_require_grad=False)
    sizes = (hidden, shape.num_channels, shape.patch_size, shape.patch_size), hidden
    convolution = tape.module(
        "vit.embeddings.patch_embeddings.projection", *sizes, inputs_require_grad=False, casts=True
    )
    model.external_params = convolution.weights[:1]  # images are given its type
    kept = tape.module("vit.embeddings.dropout")
    layers = [Layer(tape, shape, f"vit.layers.{index}") for index in range(shape.num_layers)]
    norm = tape.module("vit.layernorm", hidden, hidden)
    head = tape.module("classifier", (shape.num_labels, hidden), shape.num_labels, casts=True)
    if not work.records_pass:
        return tape
    heads = Heads(
        shape.num_heads,
        shape.num_heads,
        hidden // shape.num_heads,
        work.micro_batch_size,
        length,
        shape.attention_dropout,
    )
    tape.input_bytes = pixels * work.itemsize + 8 * work.micro_batch_size
    image = tape.tensor(0, requires_grad=False)  # the batch, which its script holds
    with tape.scope(root):
        with tape.scope(model):
            with tape.scope(whole):
                with tape.scope(patches), tape.scope(convolution):
                    cut = (
                        tape.op([image], tape.tensor(pixels, 2, requires_grad=False))
                        if tape.autocast
                        else image
                    )
                    made = tape.tensor(
                        (rows - work.micro_batch_size) * hidden, 2 if tape.autocast else tape.itemsize
                    )
                    x = tape.op([cut], made, [cut], convolution.weights)
                x = tape.op([x], tape.tensor(rows * hidden), weights=whole.weights[:1])
                x = tape.op([x], tape.tensor(rows * hidden), weights=whole.weights[1:])
                with tape.scope(kept):
                    x = dropout(tape, x, shape.dropout)
            for layer in layers:
                x = vit_layer(tape, shape, layer, heads, work, x)
            x = layer_norm(tape, norm, x, rows)
        first = tape.op([x], tape.tensor(work.micro_batch_size * hidden, x.itemsize))
        logits = linear(tape, head, first, work.micro_batch_size, shape.num_labels)
    tape.op([logits], tape.tensor(1, 4))
    return tape


def vit_layer(
    tape: Tape, shape: Architecture, layer: Layer, heads: Heads, work: MicroBatch, x: Tensor
) -> Tensor:
    """One layer."""
    rows, hidden = heads.rows, shape.hidden_size
    with tape.scope(layer.whole, x), tape.checkpoint(x, work.gradient_checkpointing):
        y = layer_norm(tape, layer.before, x, rows)
        with tape.scope(layer.attention, y):
            query, key, value = (linear(tape, module, y, rows, hidden) for module in layer.inputs)
            mixed = attend(tape, work.attn_implementation, heads, query, key, value)
            y = linear(tape, layer.output, mixed, rows, hidden)
        with tape.scope(layer.kept):
            y = dropout(tape, y, shape.dropout)
        x = add(tape, y, x)
        y = layer_norm(tape, layer.after, x, rows)
        with tape.scope(layer.mlp, y):
            y = activation(tape, layer.act, linear(tape, layer.up, y, rows, shape.intermediate_size))
            y = linear(tape, layer.down, y, rows, hidden)
        with tape.scope(layer.kept):
            y = dropout(tape, y, shape.dropout)
        return add(tape, y, x)
