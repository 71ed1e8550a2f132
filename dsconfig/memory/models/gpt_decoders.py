"""GPT-2, GPT-NeoX (Pythia), OPT and Falcon models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape
from dsconfig.memory.layers import (
    AttentionHeads,
    AttentionMasks,
    activation,
    add_residual,
    attention,
    dropout,
    embed_tokens,
    gelu_new,
    layer_norm,
    linear,
    lm_head,
    multi_head_dimensions,
    relu,
)
from dsconfig.memory.losses import language_loss
from dsconfig.memory.models.architecture import Architecture, MicroBatch
from dsconfig.memory.rotary import rotate, rotate_fused

if TYPE_CHECKING:
    from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape, Module
    from dsconfig.memory.models.architecture import Architecture, MicroBatch


class GPT2Block:
    """The modules of one GPT-2 layer."""

    def __init__(self, tape: ForwardTape, arch: Architecture, prefix: str) -> None:
        hidden, wide = arch.hidden_size, arch.intermediate_size
        self.module = tape.module(prefix)
        self.ln_1 = tape.module(f"{prefix}.ln_1", hidden, hidden)
        self.attention = tape.module(f"{prefix}.attn")
        self.qkv = tape.projection(f"{prefix}.attn.c_attn", 3 * hidden, hidden, 3 * hidden)
        self.output = tape.projection(f"{prefix}.attn.c_proj", hidden, hidden, hidden)
        self.dropout = tape.module(f"{prefix}.attn.resid_dropout")
        self.ln_2 = tape.module(f"{prefix}.ln_2", hidden, hidden)
        self.mlp = tape.module(f"{prefix}.mlp")
        self.up = tape.projection(f"{prefix}.mlp.c_fc", wide, hidden, wide)
        self.down = tape.projection(f"{prefix}.mlp.c_proj", hidden, wide, hidden)
        self.act = tape.module(f"{prefix}.mlp.act")
        self.mlp_dropout = tape.module(f"{prefix}.mlp.dropout")
        for module in (self.qkv, self.output, self.up, self.down):
            for weight in module.weights:
                # Not `nn.Linear` but `Conv1D`: DeepSpeed does not patch it, and it multiplies without a view.
                weight.is_linear = weight.saves_view = False
                weight.shape = weight.shape[::-1]


def build_gpt2(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Create GPT-2's modules and, unless only parameters are needed, record the forward pass."""
    tape = batch.new_tape()
    rows, hidden = batch.micro_batch_size * batch.sequence_length, arch.hidden_size
    root, model = (
        tape.module("", inputs_require_grad=False),
        tape.module("transformer", inputs_require_grad=False),
    )
    words = tape.module(
        "transformer.wte",
        (arch.vocab_size, hidden),
        inputs_require_grad=False,
        casts=arch.tie_word_embeddings,
    )
    positions = tape.module(
        "transformer.wpe", (arch.max_position_embeddings, hidden), inputs_require_grad=False
    )
    saved_inputs = tape.module("transformer.drop")
    layers = [GPT2Block(tape, arch, f"transformer.h.{index}") for index in range(arch.num_layers)]
    norm = tape.module("transformer.ln_f", hidden, hidden)
    head = lm_head(tape, words, arch)
    tape.input_bytes = 8 * rows
    if not batch.records_pass:
        return tape
    heads = multi_head_dimensions(arch, batch, fp32_softmax=False)
    with tape.record_module(root):
        with tape.record_module(model):
            x = embed_tokens(tape, words, rows * hidden, batch)
            with tape.record_module(positions):
                y = tape.op([], tape.tensor(batch.sequence_length * hidden), weights=positions.weights)
            x = tape.op([x, y], tape.tensor(rows * hidden), shares_grad=batch.micro_batch_size == 1)
            with tape.record_module(saved_inputs):
                x = dropout(tape, x, arch.dropout)
            for layer in layers:
                x = record_gpt2_block(tape, arch, layer, heads, batch, x)
            x = layer_norm(tape, norm, x, rows)
        language_loss(tape, head, head.weights, x, rows, arch.vocab_size)
    return tape


def record_gpt2_block(
    tape: ForwardTape,
    arch: Architecture,
    layer: GPT2Block,
    heads: AttentionHeads,
    batch: MicroBatch,
    x: ActivationTensor,
) -> ActivationTensor:
    """Record one GPT-2 layer and return its output."""
    rows, hidden = heads.num_tokens, arch.hidden_size
    with tape.record_module(layer.module, x), tape.checkpoint(x, batch.gradient_checkpointing):
        y = layer_norm(tape, layer.ln_1, x, rows)
        with tape.record_module(layer.attention, y):
            qkv = linear(tape, layer.qkv, y, rows, 3 * hidden)
            output = fused_attention(tape, batch, heads, qkv)
            y = linear(tape, layer.output, output, rows, hidden)
            with tape.record_module(layer.dropout):
                y = dropout(tape, y, arch.dropout)
        x = add_residual(tape, x, y)
        y = layer_norm(tape, layer.ln_2, x, rows)
        with tape.record_module(layer.mlp, y):
            y = gelu_new(tape, layer.act, linear(tape, layer.up, y, rows, arch.intermediate_size))
            y = linear(tape, layer.down, y, rows, hidden)
            with tape.record_module(layer.mlp_dropout):
                y = dropout(tape, y, arch.dropout)
        return add_residual(tape, x, y)


def fused_attention(
    tape: ForwardTape, batch: MicroBatch, heads: AttentionHeads, qkv: ActivationTensor
) -> ActivationTensor:
    """Record attention on views of the fused QKV tensor, all of which stays allocated."""
    if batch.attn_implementation == "eager":
        qkv_parts = [tape.op([qkv], tape.tensor(qkv.numel // 3, qkv.itemsize)) for _ in range(3)]
        return attention(tape, batch.attn_implementation, heads, qkv_parts[0], qkv_parts[1], qkv_parts[2])
    logsumexp = tape.tensor(heads.num_tokens * heads.num_heads, 4, requires_grad=False)
    tape.op([], logsumexp)
    output = tape.tensor(qkv.numel // 3, qkv.itemsize)
    return tape.op([qkv, logsumexp], output, [qkv, logsumexp, output], backward_temporary=qkv.bytes)


class GPTNeoXLayer:
    """The modules of one GPT-NeoX layer."""

    def __init__(self, tape: ForwardTape, arch: Architecture, prefix: str) -> None:
        hidden, wide, biased = arch.hidden_size, arch.intermediate_size, arch.qkv_bias
        self.module = tape.module(prefix)
        self.input_norm = tape.module(f"{prefix}.input_layernorm", hidden, hidden)
        self.post_attention_norm = tape.module(f"{prefix}.post_attention_layernorm", hidden, hidden)
        self.attention_dropout = tape.module(f"{prefix}.post_attention_dropout")
        self.mlp_dropout = tape.module(f"{prefix}.post_mlp_dropout")
        self.attention = tape.module(f"{prefix}.attention")
        bias = [3 * hidden] if biased else []
        self.qkv = tape.projection(f"{prefix}.attention.query_key_value", 3 * hidden, hidden, *bias)
        self.output = tape.projection(
            f"{prefix}.attention.dense", hidden, hidden, *([hidden] if biased else [])
        )
        self.mlp = tape.module(f"{prefix}.mlp")
        self.up = tape.projection(f"{prefix}.mlp.dense_h_to_4h", wide, hidden, wide)
        self.down = tape.projection(f"{prefix}.mlp.dense_4h_to_h", hidden, wide, hidden)
        self.act = tape.module(f"{prefix}.mlp.act")


def build_gpt_neox(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Create GPT-NeoX's modules and, unless only parameters are needed, record the forward pass."""
    tape = batch.new_tape()
    rows, hidden = batch.micro_batch_size * batch.sequence_length, arch.hidden_size
    root, model = (
        tape.module("", inputs_require_grad=False),
        tape.module("gpt_neox", inputs_require_grad=False),
    )
    words = tape.module(
        "gpt_neox.embed_in",
        (arch.vocab_size, hidden),
        inputs_require_grad=False,
        casts=arch.tie_word_embeddings,
    )
    saved_inputs = tape.module("gpt_neox.emb_dropout")
    layers = [GPTNeoXLayer(tape, arch, f"gpt_neox.layers.{index}") for index in range(arch.num_layers)]
    norm = tape.module("gpt_neox.final_layer_norm", hidden, hidden)
    rotary = tape.module("gpt_neox.rotary_emb", inputs_require_grad=False)
    head = lm_head(tape, words, arch)
    tape.input_bytes = 8 * rows
    if not batch.records_pass:
        return tape
    heads = multi_head_dimensions(arch, batch, is_concatenated=True)
    with tape.record_module(root):
        with tape.record_module(model):
            x = embed_tokens(tape, words, rows * hidden, batch)
            masks = AttentionMasks(tape, arch, batch)
            with tape.record_module(saved_inputs):
                x = dropout(tape, x, arch.dropout)
            with tape.record_module(rotary):
                cos_sin = tape.op(
                    [], tape.tensor(2 * batch.sequence_length * arch.rotary_dim, requires_grad=False)
                )
            for layer in layers:
                x = record_gpt_neox_layer(tape, arch, layer, heads, batch, x, masks.full)
            x = layer_norm(tape, norm, x, rows)
            masks.release()
        language_loss(tape, head, head.weights, x, rows, arch.vocab_size)
    tape.keep_alive(cos_sin)
    return tape


def record_gpt_neox_layer(
    tape: ForwardTape,
    arch: Architecture,
    layer: GPTNeoXLayer,
    heads: AttentionHeads,
    batch: MicroBatch,
    x: ActivationTensor,
    mask: ActivationTensor | None,
) -> ActivationTensor:
    """Record one GPT-NeoX layer, in which attention and MLP run in parallel or in sequence."""
    rows, hidden = heads.num_tokens, arch.hidden_size
    with tape.record_module(layer.module, x), tape.checkpoint(x, batch.gradient_checkpointing):
        y = layer_norm(tape, layer.input_norm, x, rows)
        with tape.record_module(layer.attention, y):
            qkv = linear(tape, layer.qkv, y, rows, 3 * hidden)
            query, key, value = rotate_fused(tape, heads, qkv, arch.rotary_dim)
            attention_output = attention(tape, batch.attn_implementation, heads, query, key, value, mask)
            attention_output = linear(tape, layer.output, attention_output, rows, hidden)
        with tape.record_module(layer.attention_dropout):
            attention_output = dropout(tape, attention_output, arch.dropout)
        mlp_input = x if arch.use_parallel_residual else add_residual(tape, attention_output, x)
        y = layer_norm(tape, layer.post_attention_norm, mlp_input, rows)
        with tape.record_module(layer.mlp, y):
            y = activation(tape, layer.act, linear(tape, layer.up, y, rows, arch.intermediate_size))
            y = linear(tape, layer.down, y, rows, hidden)
        with tape.record_module(layer.mlp_dropout):
            y = dropout(tape, y, arch.dropout)
        return (
            add_residual(tape, add_residual(tape, y, attention_output), x)
            if arch.use_parallel_residual
            else add_residual(tape, y, mlp_input)
        )


class OPTDecoderLayer:
    """The modules of one OPT layer."""

    def __init__(self, tape: ForwardTape, arch: Architecture, prefix: str) -> None:
        hidden, wide = arch.hidden_size, arch.intermediate_size
        self.module = tape.module(prefix)
        self.attention = tape.module(f"{prefix}.self_attn", inputs_require_grad=False)
        names = ("k_proj", "v_proj", "q_proj", "out_proj")
        self.projections = [
            tape.projection(f"{prefix}.self_attn.{name}", hidden, hidden, hidden) for name in names
        ]
        self.act = tape.module(f"{prefix}.activation_fn")
        self.attention_norm = tape.module(f"{prefix}.self_attn_layer_norm", hidden, hidden)
        self.up = tape.projection(f"{prefix}.fc1", wide, hidden, wide)
        self.down = tape.projection(f"{prefix}.fc2", hidden, wide, hidden)
        self.final_norm = tape.module(f"{prefix}.final_layer_norm", hidden, hidden)


def build_opt(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Create OPT's modules and, unless only parameters are needed, record the forward pass."""
    tape = batch.new_tape()
    rows, hidden = batch.micro_batch_size * batch.sequence_length, arch.hidden_size
    root, model = tape.module("", inputs_require_grad=False), tape.module("model", inputs_require_grad=False)
    inner = tape.module("model.decoder", inputs_require_grad=False)
    prefix, table = "model.decoder", (arch.vocab_size, hidden)
    words = tape.module(
        f"{prefix}.embed_tokens", table, inputs_require_grad=False, casts=arch.tie_word_embeddings
    )
    position_shape = (arch.max_position_embeddings + arch.position_offset, hidden)
    positions = tape.module(f"{prefix}.embed_positions", position_shape, inputs_require_grad=False)
    norm = tape.module(f"{prefix}.final_layer_norm", hidden, hidden)
    layers = [OPTDecoderLayer(tape, arch, f"{prefix}.layers.{index}") for index in range(arch.num_layers)]
    head = lm_head(tape, words, arch)
    tape.input_bytes = 8 * rows
    if not batch.records_pass:
        return tape
    heads = multi_head_dimensions(arch, batch)
    with tape.record_module(root):
        with tape.record_module(model), tape.record_module(inner):
            x = embed_tokens(tape, words, rows * hidden, batch)
            position_ids = tape.op([], tape.tensor(rows, 12, requires_grad=False))
            masks = AttentionMasks(tape, arch, batch)
            with tape.record_module(positions):
                y = tape.op([], tape.tensor(rows * hidden), weights=positions.weights)
            x = tape.op([x, y], tape.tensor(rows * hidden), shares_grad=True)
            for layer in layers:
                x = record_opt_layer(tape, layer, x, masks.full, arch, heads, batch)
            x = layer_norm(tape, norm, x, rows)
            tape.keep_alive(y, position_ids)
            masks.release()
        language_loss(tape, head, head.weights, x, rows, arch.vocab_size)
    return tape


def record_opt_layer(
    tape: ForwardTape,
    layer: OPTDecoderLayer,
    x: ActivationTensor,
    mask: ActivationTensor | None,
    arch: Architecture,
    heads: AttentionHeads,
    batch: MicroBatch,
) -> ActivationTensor:
    """Record one OPT layer and return its output."""
    rows, hidden = heads.num_tokens, arch.hidden_size
    with tape.record_module(layer.module, x), tape.checkpoint(x, batch.gradient_checkpointing):
        y = layer_norm(tape, layer.attention_norm, x, rows)
        with tape.record_module(layer.attention, y):
            keys, values, queries, output = layer.projections
            query = linear(tape, queries, y, rows, hidden)
            query = tape.op([query], tape.tensor(query.numel, query.itemsize))
            key, value = (linear(tape, module, y, rows, hidden) for module in (keys, values))
            heads_output = attention(tape, batch.attn_implementation, heads, query, key, value, mask)
            y = linear(tape, output, heads_output, rows, hidden)
        x = add_residual(tape, x, dropout(tape, y, arch.dropout))
        y = layer_norm(tape, layer.final_norm, x, rows)
        y = relu(tape, layer.act, linear(tape, layer.up, y, rows, arch.intermediate_size, flat=True))
        y = linear(tape, layer.down, y, rows, hidden, flat=True)
        return add_residual(tape, x, dropout(tape, y, arch.dropout))


class FalconLayer:
    """The modules of one Falcon layer."""

    def __init__(self, tape: ForwardTape, arch: Architecture, prefix: str) -> None:
        hidden, wide = arch.hidden_size, arch.intermediate_size

        def projection(name: str, out: int, into: int) -> Module:
            return tape.projection(f"{prefix}.{name}", out, into, *([out] if arch.qkv_bias else []))

        self.arch = arch
        self.module = tape.module(prefix)
        self.attention = tape.module(f"{prefix}.self_attention", inputs_require_grad=False)
        width = (arch.num_heads + 2 * arch.num_kv_heads) * arch.head_dim
        self.qkv = projection("self_attention.query_key_value", width, hidden)
        self.output = projection("self_attention.dense", hidden, hidden)
        self.mlp = tape.module(f"{prefix}.mlp")
        self.up = projection("mlp.dense_h_to_4h", wide, hidden)
        self.act = tape.module(f"{prefix}.mlp.act")
        self.down = projection("mlp.dense_4h_to_h", hidden, wide)
        names = ("ln_attn", "ln_mlp") if arch.norms_per_layer == 2 else ("input_layernorm",)
        self.norms = [tape.module(f"{prefix}.{name}", hidden, hidden) for name in names]

    def record(
        self,
        tape: ForwardTape,
        heads: AttentionHeads,
        batch: MicroBatch,
        x: ActivationTensor,
        mask: ActivationTensor | None,
    ) -> ActivationTensor:
        """Record the Falcon layer and return its output."""
        rows, hidden = heads.num_tokens, self.arch.hidden_size
        with tape.record_module(self.module, x), tape.checkpoint(x, batch.gradient_checkpointing):
            inputs = [layer_norm(tape, norm, x, rows) for norm in self.norms]
            attended = self._record_attention(tape, heads, batch, inputs[0], mask)
            with tape.record_module(self.mlp, inputs[-1]):
                y = linear(tape, self.up, inputs[-1], rows, self.arch.intermediate_size)
                y = linear(tape, self.down, activation(tape, self.act, y), rows, hidden)
            both = tape.op([y, attended], tape.tensor(0, y.itemsize), shares_grad=True)  # added in place
            both.numel, both.bytes = y.numel, y.bytes
            return add_residual(tape, x, dropout(tape, both, self.arch.dropout))

    def _record_attention(
        self,
        tape: ForwardTape,
        heads: AttentionHeads,
        batch: MicroBatch,
        y: ActivationTensor,
        mask: ActivationTensor | None,
    ) -> ActivationTensor:
        rows, size = heads.num_tokens, self.arch.head_dim
        with tape.record_module(self.attention, y):
            qkv = linear(tape, self.qkv, y, rows, (self.arch.num_heads + 2 * self.arch.num_kv_heads) * size)
            if self.arch.norms_per_layer == 2:  # keys and values are repeated for all query heads
                parts = [
                    tape.op([qkv], tape.tensor(rows * heads.num_heads * size, qkv.itemsize)) for _ in range(3)
                ]
            else:
                parts = [qkv]
                parts += [tape.op([qkv], tape.tensor(rows * size, qkv.itemsize)) for _ in range(2)]
            query, key = rotate(tape, heads, parts[0], parts[1])
            output = attention(tape, batch.attn_implementation, heads, query, key, parts[2], mask)
            return linear(tape, self.output, output, rows, self.arch.hidden_size)


def build_falcon(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Create Falcon's modules and, unless only parameters are needed, record the forward pass."""
    tape = batch.new_tape()
    rows, hidden = batch.micro_batch_size * batch.sequence_length, arch.hidden_size
    prefix = "transformer"
    root, model = tape.module("", inputs_require_grad=False), tape.module(prefix, inputs_require_grad=False)
    words = tape.module(
        f"{prefix}.word_embeddings",
        (arch.vocab_size, hidden),
        inputs_require_grad=False,
        casts=arch.tie_word_embeddings,
    )
    layers = [FalconLayer(tape, arch, f"{prefix}.h.{index}") for index in range(arch.num_layers)]
    norm = tape.module(f"{prefix}.ln_f", hidden, hidden)
    rotary = tape.module(f"{prefix}.rotary_emb", inputs_require_grad=False)
    head = lm_head(tape, words, arch)
    tape.input_bytes = 8 * rows
    if not batch.records_pass:
        return tape
    kv_heads = arch.num_heads if arch.norms_per_layer == 2 else 1
    heads = AttentionHeads(
        *(arch.num_heads, kv_heads, arch.head_dim),
        batch.micro_batch_size,
        batch.sequence_length,
        fp32_softmax=False,
        is_concatenated=True,
        runs_unfused=kv_heads < arch.num_heads,
    )
    with tape.record_module(root):
        with tape.record_module(model):
            x = embed_tokens(tape, words, rows * hidden, batch)
            masks = AttentionMasks(tape, arch, batch)
            with tape.record_module(rotary):
                numel = 2 * batch.sequence_length * arch.head_dim
                cos_sin = tape.op([], tape.tensor(numel, requires_grad=False))
            for layer in layers:
                x = layer.record(tape, heads, batch, x, masks.full)
            x = layer_norm(tape, norm, x, rows)
            masks.release()
        language_loss(tape, head, head.weights, x, rows, arch.vocab_size)
    tape.keep_alive(cos_sin)
    return tape
