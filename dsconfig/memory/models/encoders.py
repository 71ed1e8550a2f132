"""BERT and RoBERTa with a masked-LM or sequence classification head, and Vision Transformers (ViT)."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext

from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape, Module
from dsconfig.memory.layers import (
    AttentionHeads,
    activation,
    add_residual,
    attention,
    dropout,
    layer_norm,
    linear,
    multi_head_dimensions,
    relu,
)
from dsconfig.memory.losses import LOGITS, loss_in_logits_dtype
from dsconfig.memory.models.architecture import Architecture, MicroBatch


class BertOutput:
    """`BertSelfOutput` or `BertOutput`: a projection, dropout, and a norm of the residual sum."""

    def __init__(self, tape: ForwardTape, prefix: str, hidden: int, in_features: int) -> None:
        self.module = tape.module(f"{prefix}.output")
        self.dense = tape.projection(f"{prefix}.output.dense", hidden, in_features, hidden)
        self.norm = tape.module(f"{prefix}.output.LayerNorm", hidden, hidden)
        self.dropout = tape.module(f"{prefix}.output.dropout")

    def compute(
        self, tape: ForwardTape, y: ActivationTensor, x: ActivationTensor, rows: int, arch: Architecture
    ) -> ActivationTensor:
        """Project `y`, add the residual `x`, and normalize the sum."""
        with tape.record_module(self.module, y, x):
            y = linear(tape, self.dense, y, rows, arch.hidden_size)
            with tape.record_module(self.dropout):
                y = dropout(tape, y, arch.dropout)
            return layer_norm(tape, self.norm, add_residual(tape, y, x), rows)


class BertLayer:
    """The modules of one BERT layer."""

    def __init__(self, tape: ForwardTape, arch: Architecture, prefix: str) -> None:
        hidden, wide = arch.hidden_size, arch.intermediate_size
        self.module = tape.module(prefix)
        self.attention = tape.module(f"{prefix}.attention")
        self.self_attention = tape.module(f"{prefix}.attention.self")
        self.inputs = [
            tape.projection(f"{prefix}.attention.self.{name}", hidden, hidden, hidden)
            for name in ("query", "key", "value")
        ]
        self.attention_output = BertOutput(tape, f"{prefix}.attention", hidden, hidden)
        self.intermediate = tape.module(f"{prefix}.intermediate")
        self.up = tape.projection(f"{prefix}.intermediate.dense", wide, hidden, wide)
        self.act = tape.module(f"{prefix}.intermediate.intermediate_act_fn")
        self.output = BertOutput(tape, prefix, hidden, wide)


class BertEmbeddings:
    """The word, position and token type embeddings of BERT; RoBERTa registers the positions last."""

    def __init__(self, tape: ForwardTape, arch: Architecture, prefix: str) -> None:
        hidden = arch.hidden_size
        self.module = tape.module(prefix, inputs_require_grad=False)
        sizes = {
            "word": arch.vocab_size,
            "position": arch.max_position_embeddings + arch.position_offset,
            "token_type": arch.type_vocab_size,
        }
        words = tape.module(
            f"{prefix}.word_embeddings",
            (sizes["word"], hidden),
            inputs_require_grad=False,
            casts=arch.tie_word_embeddings,
        )
        self.tables = {"word": words}
        positions_last = arch.name == "roberta"
        for name in ("token_type",) if positions_last else ("position", "token_type"):
            self.tables[name] = self._embedding_table(tape, prefix, name, sizes[name], hidden)
        self.norm = tape.module(f"{prefix}.LayerNorm", hidden, hidden)
        self.dropout = tape.module(f"{prefix}.dropout")
        if positions_last:
            self.tables["position"] = self._embedding_table(
                tape, prefix, "position", sizes["position"], hidden
            )

    @staticmethod
    def _embedding_table(tape: ForwardTape, prefix: str, name: str, rows: int, hidden: int) -> Module:
        return tape.module(f"{prefix}.{name}_embeddings", (rows, hidden), inputs_require_grad=False)

    def compute(self, tape: ForwardTape, arch: Architecture, batch: MicroBatch) -> ActivationTensor:
        """Sum the embeddings and normalize the sum."""
        rows, hidden = batch.micro_batch_size * batch.sequence_length, arch.hidden_size
        position_rows = rows if arch.name == "roberta" else batch.sequence_length
        with tape.record_module(self.module):
            embeddings = []
            for name, count in (("word", rows), ("token_type", rows), ("position", position_rows)):
                table = self.tables[name]
                with tape.record_module(table):
                    y = tape.op([], tape.tensor(count * hidden), weights=table.weights)
                    if name == "word" and batch.needs_input_grad:
                        tape.enable_input_grad(y)
                embeddings.append(y)
                if len(embeddings) > 1:
                    total = tape.op(embeddings, tape.tensor(rows * hidden), shares_grad=count == rows)
                    embeddings = [total]
            x = layer_norm(tape, self.norm, embeddings[0], rows)
            with tape.record_module(self.dropout):
                return dropout(tape, x, arch.dropout)


class MaskedLMHead:
    """Masked-LM head: a transform, followed by the tied word embedding with a bias."""

    def __init__(self, tape: ForwardTape, arch: Architecture, words: Module) -> None:
        hidden, bert = arch.hidden_size, arch.name == "bert"
        prefix = "cls.predictions" if bert else "lm_head"
        self.outer = [tape.module("cls", inputs_require_grad=True)] if bert else []
        self.module = tape.module(prefix, arch.vocab_size, casts=True)
        inner = f"{prefix}.transform" if bert else prefix
        self.transform = tape.module(inner) if bert else None
        self.dense = tape.projection(f"{inner}.dense", hidden, hidden, hidden)
        self.act = tape.module(f"{inner}.transform_act_fn") if bert else None
        self.norm = tape.module(f"{inner}.{'LayerNorm' if bert else 'layer_norm'}", hidden, hidden)
        sizes = () if arch.tie_word_embeddings else ((arch.vocab_size, hidden),)
        self.decoder = tape.module(f"{prefix}.decoder", *sizes, casts=True)
        self.decoder.weights = (
            *(words if arch.tie_word_embeddings else self.decoder).weights,
            *self.module.weights,
        )
        self.module.weights[0].module_number = self.decoder.number
        self.module.external_params, self.module.weights = self.module.weights, ()  # the bias is of both
        tape.untied_numel = arch.vocab_size * (hidden if arch.tie_word_embeddings else 0) + arch.vocab_size

    def loss(self, tape: ForwardTape, arch: Architecture, batch: MicroBatch, x: ActivationTensor) -> None:
        """Record the masked-LM logits and the loss."""
        rows = batch.micro_batch_size * batch.sequence_length
        with ExitStack() as stack:
            for module in (*self.outer, self.module):
                stack.enter_context(tape.record_module(module))
            with tape.record_module(self.transform) if self.transform else nullcontext():
                y = activation(tape, self.act, linear(tape, self.dense, x, rows, arch.hidden_size))
                y = layer_norm(tape, self.norm, y, rows)
            logits = linear(tape, self.decoder, y, rows, arch.vocab_size, LOGITS)
        loss_in_logits_dtype(tape, logits)


class ClassificationHead:
    """Classification head that uses the first token of each sequence."""

    def __init__(self, tape: ForwardTape, arch: Architecture) -> None:
        hidden, self.is_bert = arch.hidden_size, arch.name == "bert"
        prefix = "bert.pooler" if self.is_bert else "classifier"
        self.module = tape.module(prefix)
        self.dense = tape.projection(f"{prefix}.dense", hidden, hidden, hidden)
        self.act = tape.module(f"{prefix}.activation")
        self.dropout = tape.module("dropout" if self.is_bert else f"{prefix}.dropout")
        output_name = "classifier" if self.is_bert else f"{prefix}.out_proj"
        self.classes = tape.module(output_name, (arch.num_labels, hidden), arch.num_labels, casts=True)

    def pooled(self, tape: ForwardTape, batch: MicroBatch, x: ActivationTensor) -> ActivationTensor:
        """Record the pooler on the first token of each sequence."""
        hidden = self.dense.weights[0].shape[0]
        with tape.record_module(self.module):
            first = tape.op([x], tape.tensor(batch.micro_batch_size * hidden, x.itemsize))
            return relu(
                tape, self.act, linear(tape, self.dense, first, batch.micro_batch_size, hidden, flat=True)
            )

    def loss(self, tape: ForwardTape, arch: Architecture, batch: MicroBatch, x: ActivationTensor) -> None:
        """Record the class logits and the loss."""
        if not self.is_bert:
            x = self.pooled(tape, batch, x)
        with tape.record_module(self.dropout):
            x = dropout(tape, x, arch.dropout)
        loss_in_logits_dtype(
            tape, linear(tape, self.classes, x, batch.micro_batch_size, arch.num_labels, flat=True)
        )


def build_bert(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Create BERT's modules and, unless only parameters are needed, record the forward pass."""
    tape = batch.new_tape()
    rows, name = batch.micro_batch_size * batch.sequence_length, arch.name
    root, model = tape.module("", inputs_require_grad=False), tape.module(name, inputs_require_grad=False)
    embeddings = BertEmbeddings(tape, arch, f"{name}.embeddings")
    encoder = tape.module(f"{name}.encoder")
    layers = [BertLayer(tape, arch, f"{name}.encoder.layer.{index}") for index in range(arch.num_layers)]
    head = (
        ClassificationHead(tape, arch)
        if arch.num_labels
        else MaskedLMHead(tape, arch, embeddings.tables["word"])
    )
    tape.input_bytes = 8 * (batch.micro_batch_size if arch.num_labels else rows)
    if not batch.records_pass:
        return tape
    heads = multi_head_dimensions(arch, batch, has_no_mask=True, fp32_softmax=False)
    with tape.record_module(root):
        with tape.record_module(model):
            x = embeddings.compute(tape, arch, batch)
            with tape.record_module(encoder):
                for layer in layers:
                    x = record_bert_layer(tape, arch, layer, heads, batch, x)
            if isinstance(head, ClassificationHead) and arch.name == "bert":
                x = head.pooled(tape, batch, x)
        head.loss(tape, arch, batch, x)
    return tape


def record_bert_layer(
    tape: ForwardTape,
    arch: Architecture,
    layer: BertLayer,
    heads: AttentionHeads,
    batch: MicroBatch,
    x: ActivationTensor,
) -> ActivationTensor:
    """Record one BERT layer and return its output."""
    rows, hidden = heads.num_tokens, arch.hidden_size
    with tape.record_module(layer.module, x), tape.checkpoint(x, batch.gradient_checkpointing):
        with tape.record_module(layer.attention, x):
            with tape.record_module(layer.self_attention):
                qkv = [linear(tape, module, x, rows, hidden) for module in layer.inputs]
                y = attention(tape, batch.attn_implementation, heads, qkv[0], qkv[1], qkv[2])
            x = layer.attention_output.compute(tape, y, x, rows, arch)
        with tape.record_module(layer.intermediate, x):
            y = activation(tape, layer.act, linear(tape, layer.up, x, rows, arch.intermediate_size))
        return layer.output.compute(tape, y, x, rows, arch)


class ViTLayer:
    """The modules of one Vision Transformer layer."""

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


def build_vit(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Create a Vision Transformer's modules and, unless only parameters are needed, record the forward pass."""
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
                x = record_vit_layer(tape, arch, layer, heads, batch, x)
            x = layer_norm(tape, norm, x, rows)
        first = tape.op([x], tape.tensor(batch.micro_batch_size * hidden, x.itemsize))
        logits = linear(tape, head, first, batch.micro_batch_size, arch.num_labels)
    tape.op([logits], tape.tensor(1, 4))
    return tape


def record_vit_layer(
    tape: ForwardTape,
    arch: Architecture,
    layer: ViTLayer,
    heads: AttentionHeads,
    batch: MicroBatch,
    x: ActivationTensor,
) -> ActivationTensor:
    """Record one Vision Transformer layer and return its output."""
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
