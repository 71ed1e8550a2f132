"""Vision transformer (ViT) for image classification."""

from __future__ import annotations

from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape, Module
from dsconfig.memory.layers import AttentionHeads, activation, add_residual, attention, dropout, linear
from dsconfig.memory.models.architecture import Architecture, MicroBatch
from dsconfig.memory.norms import layer_norm


class ViTLayer:
    """Modules of one layer."""

    def __init__(self, tape: ForwardTape, arch: Architecture, prefix: str) -> None:
        hidden, wide = arch.hidden_size, arch.intermediate_size

        def projection(name: str, out: int, into: int) -> Module:
            return tape.projection(f"{prefix}.{name}", out, into, out)

        self.module = tape.module(prefix)
        self.attention = tape.module(f"{prefix}.attention")
        names = ("q_proj", "k_proj", "v_proj")
        self.qkv = [projection(f"attention.{name}", hidden, hidden) for name in names]
        self.output = projection("attention.o_proj", hidden, hidden)
        self.norm_before = tape.module(f"{prefix}.layernorm_before", hidden, hidden)
        self.norm_after = tape.module(f"{prefix}.layernorm_after", hidden, hidden)
        self.mlp = tape.module(f"{prefix}.mlp")
        self.act = tape.module(f"{prefix}.mlp.activation_fn")
        self.up = projection("mlp.fc1", wide, hidden)
        self.down = projection("mlp.fc2", hidden, wide)
        self.dropout = tape.module(f"{prefix}.dropout")


def build(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Build the modules and, unless only parameters are needed, record the pass."""
    tape = batch.new_tape()
    hidden, patches_per_side = arch.hidden_size, arch.image_size // arch.patch_size
    length = patches_per_side * patches_per_side + 1
    rows, pixels = (
        batch.micro_batch_size * length,
        batch.micro_batch_size * arch.num_channels * arch.image_size**2,
    )
    root, model = tape.module("", inputs_require_grad=False), tape.module("vit", inputs_require_grad=False)
    embeddings = tape.module("vit.embeddings", (1, 1, hidden), (1, length, hidden), inputs_require_grad=False)
    patches = tape.module("vit.embeddings.patch_embeddings", inputs_require_grad=False)
    sizes = (hidden, arch.num_channels, arch.patch_size, arch.patch_size), hidden
    convolution = tape.module(
        "vit.embeddings.patch_embeddings.projection", *sizes, inputs_require_grad=False, casts=True
    )
    model.external_params = convolution.weights[:1]  # images are cast to its dtype
    saved_inputs = tape.module("vit.embeddings.dropout")
    layers = [ViTLayer(tape, arch, f"vit.layers.{index}") for index in range(arch.num_layers)]
    norm = tape.module("vit.layernorm", hidden, hidden)
    head = tape.module("classifier", (arch.num_labels, hidden), arch.num_labels, casts=True)
    if not batch.records_pass:
        return tape
    heads = AttentionHeads(
        arch.num_heads,
        arch.num_heads,
        hidden // arch.num_heads,
        batch.micro_batch_size,
        length,
        arch.attention_dropout,
    )
    tape.input_bytes = pixels * batch.itemsize + 8 * batch.micro_batch_size
    image = tape.tensor(0, requires_grad=False)  # the script holds the batch
    with tape.record_module(root):
        with tape.record_module(model):
            with tape.record_module(embeddings):
                with tape.record_module(patches), tape.record_module(convolution):
                    pixels_cast = (
                        tape.op([image], tape.tensor(pixels, 2, requires_grad=False))
                        if tape.autocast
                        else image
                    )
                    patches_out = tape.tensor(
                        (rows - batch.micro_batch_size) * hidden, 2 if tape.autocast else tape.itemsize
                    )
                    x = tape.op([pixels_cast], patches_out, [pixels_cast], convolution.weights)
                x = tape.op([x], tape.tensor(rows * hidden), weights=embeddings.weights[:1])
                x = tape.op([x], tape.tensor(rows * hidden), weights=embeddings.weights[1:])
                with tape.record_module(saved_inputs):
                    x = dropout(tape, x, arch.dropout)
            for layer in layers:
                x = record_layer(tape, arch, layer, heads, batch, x)
            x = layer_norm(tape, norm, x, rows)
        first = tape.op([x], tape.tensor(batch.micro_batch_size * hidden, x.itemsize))
        logits = linear(tape, head, first, batch.micro_batch_size, arch.num_labels)
    tape.op([logits], tape.tensor(1, 4))
    return tape


def record_layer(
    tape: ForwardTape,
    arch: Architecture,
    layer: ViTLayer,
    heads: AttentionHeads,
    batch: MicroBatch,
    x: ActivationTensor,
) -> ActivationTensor:
    """Record one layer and return its output."""
    rows, hidden = heads.num_tokens, arch.hidden_size
    with tape.record_module(layer.module, x), tape.checkpoint(x, batch.gradient_checkpointing):
        y = layer_norm(tape, layer.norm_before, x, rows)
        with tape.record_module(layer.attention, y):
            query, key, value = (linear(tape, module, y, rows, hidden) for module in layer.qkv)
            heads_output = attention(tape, batch.attn_implementation, heads, query, key, value)
            y = linear(tape, layer.output, heads_output, rows, hidden)
        with tape.record_module(layer.dropout):
            y = dropout(tape, y, arch.dropout)
        x = add_residual(tape, y, x)
        y = layer_norm(tape, layer.norm_after, x, rows)
        with tape.record_module(layer.mlp, y):
            y = activation(tape, layer.act, linear(tape, layer.up, y, rows, arch.intermediate_size))
            y = linear(tape, layer.down, y, rows, hidden)
        with tape.record_module(layer.dropout):
            y = dropout(tape, y, arch.dropout)
        return add_residual(tape, y, x)
