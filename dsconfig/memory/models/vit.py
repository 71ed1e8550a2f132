"""The vision transformer, for classification."""

from __future__ import annotations

from dsconfig.memory.graph import Module, Tape, Tensor
from dsconfig.memory.layers import Heads, activation, add, attend, dropout, layer_norm, linear
from dsconfig.memory.models.shape import Shape, Work


class Layer:
    """The modules of one layer."""

    def __init__(self, tape: Tape, shape: Shape, prefix: str) -> None:
        hidden, wide = shape.hidden, shape.wide

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


def build(shape: Shape, work: Work) -> Tape:
    """The modules and the pass of a model."""
    tape = work.tape()
    hidden, side = shape.hidden, shape.image // shape.patch
    length = side * side + 1
    rows, pixels = work.micro * length, work.micro * shape.channels * shape.image**2
    root, model = tape.module("", returns=False), tape.module("vit", returns=False)
    whole = tape.module("vit.embeddings", (1, 1, hidden), (1, length, hidden), returns=False)
    patches = tape.module("vit.embeddings.patch_embeddings", returns=False)
    sizes = (hidden, shape.channels, shape.patch, shape.patch), hidden
    convolution = tape.module("vit.embeddings.patch_embeddings.projection", *sizes, returns=False, casts=True)
    model.external = convolution.weights[:1]  # images are given its type
    kept = tape.module("vit.embeddings.dropout")
    layers = [Layer(tape, shape, f"vit.layers.{index}") for index in range(shape.layers)]
    norm = tape.module("vit.layernorm", hidden, hidden)
    head = tape.module("classifier", (shape.labels, hidden), shape.labels, casts=True)
    if not work.computes:
        return tape
    heads = Heads(
        shape.heads, shape.heads, hidden // shape.heads, work.micro, length, shape.attention_dropout
    )
    tape.extra = pixels * work.width + 8 * work.micro
    image = tape.tensor(0, needs=False)  # the batch, which its script holds
    with tape.inside(root):
        with tape.inside(model):
            with tape.inside(whole):
                with tape.inside(patches), tape.inside(convolution):
                    cut = tape.step([image], tape.tensor(pixels, 2, needs=False)) if tape.autocast else image
                    made = tape.tensor((rows - work.micro) * hidden, 2 if tape.autocast else tape.width)
                    x = tape.step([cut], made, [cut], convolution.weights)
                x = tape.step([x], tape.tensor(rows * hidden), weights=whole.weights[:1])
                x = tape.step([x], tape.tensor(rows * hidden), weights=whole.weights[1:])
                with tape.inside(kept):
                    x = dropout(tape, x, shape.dropout)
            for layer in layers:
                x = vit_layer(tape, shape, layer, heads, work, x)
            x = layer_norm(tape, norm, x, rows)
        first = tape.step([x], tape.tensor(work.micro * hidden, x.width))
        logits = linear(tape, head, first, work.micro, shape.labels)
    tape.step([logits], tape.tensor(1, 4))
    return tape


def vit_layer(tape: Tape, shape: Shape, layer: Layer, heads: Heads, work: Work, x: Tensor) -> Tensor:
    """One layer."""
    rows, hidden = heads.rows, shape.hidden
    with tape.inside(layer.whole, x), tape.segment(x, work.checkpointing):
        y = layer_norm(tape, layer.before, x, rows)
        with tape.inside(layer.attention, y):
            query, key, value = (linear(tape, module, y, rows, hidden) for module in layer.inputs)
            mixed = attend(tape, work.attention, heads, query, key, value)
            y = linear(tape, layer.output, mixed, rows, hidden)
        with tape.inside(layer.kept):
            y = dropout(tape, y, shape.dropout)
        x = add(tape, y, x)
        y = layer_norm(tape, layer.after, x, rows)
        with tape.inside(layer.mlp, y):
            y = activation(tape, layer.act, linear(tape, layer.up, y, rows, shape.wide))
            y = linear(tape, layer.down, y, rows, hidden)
        with tape.inside(layer.kept):
            y = dropout(tape, y, shape.dropout)
        return add(tape, y, x)
