"""A generic transformer, derived from sizes alone, for model types without a module of their own.

Each block has a norm, attention, a norm and an MLP or experts, as almost all models do. Other parts of a model are
unknown, so its activations are approximate (`APPROXIMATION`).
"""

from __future__ import annotations

from collections.abc import Mapping

from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape, LoraAdapter, Module
from dsconfig.memory.layers import (
    AttentionHeads,
    activation,
    add_residual,
    attention,
    embed_tokens,
    gelu_new,
    linear,
    multiply_elementwise,
    norm_weights,
    normalize,
    saved_inputs,
)
from dsconfig.memory.losses import language_loss
from dsconfig.memory.models.architecture import Architecture, MicroBatch, RepeatedBlock
from dsconfig.memory.models.hybrid_layers import OTHER
from dsconfig.memory.models.vision_tower import VisionTower
from dsconfig.memory.rotary import rotate

APPROXIMATION = 0.4
"""Fraction by which the activations of a model can differ from those of the generic transformer."""
DECODER = "decoder"
"""Name of the layers that have cross attention."""
_QKV = ("q_proj", "k_proj", "v_proj")
TARGETS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("query_key_value", "qkv_proj", "c_attn", "Wqkv", "W_pack", "wqkv", "qkv"), _QKV),
    **dict.fromkeys(("q", "query", "q_lin", "wq"), _QKV[:1]),
    **dict.fromkeys(("k", "key", "k_lin", "wk"), _QKV[1:2]),
    **dict.fromkeys(("v", "value", "v_lin", "wv"), _QKV[2:]),
    **dict.fromkeys(("o", "dense", "out_lin", "out_proj", "c_proj"), ("o_proj",)),
    **dict.fromkeys(("wi", "fc1", "c_fc", "lin1", "dense_h_to_4h", "wi_1", "w3"), ("up_proj",)),
    **dict.fromkeys(("wo", "fc2", "lin2", "dense_4h_to_h", "w2"), ("down_proj",)),
    **dict.fromkeys(("wi_0", "w1"), ("gate_proj",)),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
"""Layers of a generic transformer, by the names of linear layers in other models (peft utils/constants.py)."""
ATTENTION = ("q_proj", "q_a_proj", "q_b_proj", "k_proj", "v_proj", "kv_a_proj", "kv_b_proj", "o_proj")


class GenericBlock:
    """The modules of one generic transformer layer."""

    def __init__(self, tape: ForwardTape, arch: Architecture, block: RepeatedBlock, index: int) -> None:
        prefix = f"{block.name}.{index}"
        self.name, self.module = block.name, tape.module(prefix)
        self.parts: dict[str, list[Module]] = {}
        for name, rows, columns in block.weights:
            path = f"{prefix}.{name}"
            part = (
                tape.projection(path, rows, columns)
                if name.endswith("_proj")
                else tape.module(path, (rows, columns))
            )
            if not name.endswith("_proj"):
                for weight in part.weights:
                    weight.is_linear = weight.is_autocast = False
            if name.startswith("experts."):
                tape.quantize_experts(part)
            self.parts.setdefault(name, []).append(part)
        sizes = norm_weights(_norm_kind(arch), arch.hidden_size)
        self.norms = [tape.module(f"{prefix}.norm{number}", *sizes) for number in range(num_norms(block))]
        self.taken: dict[str, int] = {}
        """Number of modules of each name that the current pass has used."""
        self.shapes = {name: (rows, columns) for name, rows, columns in block.weights}

    def take(self, name: str) -> Module | None:
        """Remove and return the next unused module with this name, or None."""
        modules, index = self.parts.get(name, ()), self.taken.get(name, 0)
        self.taken[name] = index + 1
        return modules[index] if index < len(modules) else None

    def has(self, name: str) -> bool:
        """Return whether an unused module with this name is left."""
        return self.taken.get(name, 0) < len(self.parts.get(name, ()))


def num_norms(block: RepeatedBlock) -> int:
    """Return the number of norms in a layer: one per part, but one for parallel attention and mixer (Falcon H1)."""
    names = [name for name, _, _ in block.weights]
    attentions, has_mixer = names.count("o_proj"), "in_proj" in names
    return max(attentions, has_mixer) + ("down_proj" in names or "router" in names)


def parameter_count(arch: Architecture) -> int:
    """Return the number of parameters in the modules that `build` creates."""
    return sum(weight.numel for weight in build(arch, MicroBatch(1, 1, records_pass=False)).weights)


def build(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Create the generic modules and, unless only parameters are needed, record the forward pass."""
    tape = batch.new_tape()
    tape.adapter = _with_generic_targets(tape.adapter, arch)
    rows = batch.micro_batch_size * batch.local_sequence_length
    root = tape.module("", inputs_require_grad=False)
    towers = [VisionTower(tape, arch, tower, batch) for tower in arch.towers]
    embedding = tape.module(
        "embed_tokens",
        (arch.vocab_size, arch.embedding_size or arch.hidden_size),
        inputs_require_grad=False,
        casts=arch.tie_word_embeddings,
    )
    # Other weights come first, are taken as frozen if adapters are trained, and run without activations.
    others = [
        tape.module(f"{block.name}.{index}.{name}", (rows_, columns))
        for block in arch.weight_blocks
        if not is_language_block(block)
        for index in range(block.repeats)
        for name, rows_, columns in block.weights
    ]
    blocks = [
        GenericBlock(tape, arch, block, index)
        for block in arch.weight_blocks
        if is_language_block(block)
        for index in range(block.repeats)
    ]
    norm = tape.module("norm", *norm_weights(_norm_kind(arch), arch.hidden_size))
    has_own_head = arch.has_language_head and not arch.tie_word_embeddings
    sizes = ((arch.vocab_size, arch.hidden_size),) if has_own_head else ()
    head = tape.module("lm_head", *sizes, casts=True)
    if arch.has_language_head and arch.tie_word_embeddings:
        head.weights = embedding.weights
    tape.input_bytes = 8 * rows
    if not batch.records_pass:
        return tape
    heads = AttentionHeads(
        arch.num_heads,
        arch.num_kv_heads,
        arch.head_dim,
        batch.micro_batch_size,
        batch.local_sequence_length,
        arch.attention_dropout,
    )
    with tape.record_module(root):
        if arch.encoder_length:
            x = _encode(tape, arch, blocks, heads, batch)
            blocks = [block for block in blocks if block.name == DECODER]
            x = add_residual(tape, embed_tokens(tape, embedding, rows * arch.hidden_size, batch), x)
        else:
            x = embed_tokens(tape, embedding, rows * arch.hidden_size, batch)
        for tower in towers:
            x = tower.record(tape, batch, x)
        for other in others:
            x = _with_other(tape, other, x)
        for block in blocks * _passes(arch, len(blocks)):
            x = _record_block(tape, arch, block, heads, batch, x)
        x = _record_norm(tape, arch, norm, x, rows)
        if arch.has_language_head:
            language_loss(tape, head, head.weights, x, rows, arch.vocab_size)
        else:
            tape.op([x], tape.tensor(1, 4), shares_grad=True)
    return tape


def _with_generic_targets(adapter: LoraAdapter | None, arch: Architecture) -> LoraAdapter | None:
    """Return an adapter with generic target names if the model has none of its targets."""
    names = {name for block in arch.weight_blocks for name, _, _ in block.weights}
    if adapter is None or not adapter.targets or adapter.targets & names:
        return adapter
    targets = {generic for name in adapter.targets for generic in TARGETS.get(name, (name,))}
    return adapter._replace(targets=frozenset(targets))


def _encode(
    tape: ForwardTape,
    arch: Architecture,
    blocks: list[GenericBlock],
    heads: AttentionHeads,
    batch: MicroBatch,
) -> ActivationTensor:
    """Record the encoder, whose sequence length differs from the decoder's, and whose output cross attention reads."""
    heads = heads._replace(sequence_length=arch.encoder_length)
    features = tape.tensor(heads.num_tokens * arch.hidden_size, requires_grad=False)
    x = tape.op([], features)
    for block in blocks:
        if block.name != DECODER:
            x = _record_block(tape, arch, block, heads, batch, x)
    return tape.op([x], tape.tensor(batch.micro_batch_size * batch.sequence_length * arch.hidden_size))


def _passes(arch: Architecture, blocks: int) -> int:
    """Return how often the layers run: once, unless layers share weights (ALBERT)."""
    return arch.num_layers // blocks if arch.name == "albert" and blocks else 1


def _with_other(tape: ForwardTape, module: Module, x: ActivationTensor) -> ActivationTensor:
    """Add to `x` the output of the weights whose individual tensors are unknown."""
    with tape.record_module(module, x):
        features = tape.op([], tape.tensor(0), weights=module.weights)
        return tape.op([x, features], tape.tensor(x.numel, x.itemsize), shares_grad=True)


def is_language_block(block: RepeatedBlock) -> bool:
    """Return whether a block belongs to the language model."""
    return block.name in ("layers", "dense_layers", DECODER)


def _norm_kind(arch: Architecture) -> str:
    return "llama" if arch.has_rms_norms else "layer"


def _record_norm(
    tape: ForwardTape, arch: Architecture, module: Module, x: ActivationTensor, rows: int
) -> ActivationTensor:
    return normalize(tape, module, x, rows, _norm_kind(arch))


def _record_block(
    tape: ForwardTape,
    arch: Architecture,
    block: GenericBlock,
    heads: AttentionHeads,
    batch: MicroBatch,
    x: ActivationTensor,
) -> ActivationTensor:
    rows, norms = heads.num_tokens, iter(block.norms)
    block.taken.clear()
    with tape.record_module(block.module, x), tape.checkpoint(x, batch.gradient_checkpointing):
        for other in block.parts.get(OTHER, ()):
            with tape.record_module(other):
                tape.op([], tape.tensor(0), weights=other.weights)
        mixes = block.has("in_proj")
        while block.has("o_proj") or mixes:  # with cross attention, twice
            y = _record_norm(tape, arch, next(norms), x, rows)
            if mixes:
                x, mixes = add_residual(tape, x, _mixer(tape, arch, block, y, rows)), False
            if block.has("o_proj"):
                x = add_residual(tape, x, _record_attention(tape, arch, block, heads, batch, y))
        if block.has("down_proj") or block.has("router"):
            y = _record_norm(tape, arch, next(norms), x, rows)
            x = add_residual(tape, x, _record_mlp(tape, arch, block, y, rows))
        return x


def _record_attention(
    tape: ForwardTape,
    arch: Architecture,
    block: GenericBlock,
    heads: AttentionHeads,
    batch: MicroBatch,
    y: ActivationTensor,
) -> ActivationTensor:
    """Record a block's attention and the projections it has, including low-rank ones."""
    rows, outputs = heads.num_tokens, dict[str, ActivationTensor]()
    for name in ATTENTION[:-1]:
        module = block.take(name)
        if module is not None:
            source = outputs.get(name.replace("_b_", "_a_"), y) if "_b_" in name else y
            outputs[name] = linear(tape, module, source, rows, block.shapes[name][0])
    query = outputs.get("q_proj", outputs.get("q_b_proj", y))
    key = outputs.get("k_proj", outputs.get("kv_b_proj", y))
    value = outputs.get("v_proj", outputs.get("kv_b_proj", y))
    if arch.rotary_dim:
        query, key = rotate(tape, heads, query, key)
    kind = "eager" if arch.attends_eagerly else batch.attn_implementation
    if arch.name == "mpnet":
        heads = heads._replace(fp32_softmax=False)
    output = attention(tape, kind, heads, query, key, value)
    if arch.has_position_bias:
        count = heads.num_heads * heads.batch_size * heads.sequence_length**2
        bias = tape.op([], tape.tensor(count // max(1, arch.num_layers), requires_grad=False))
        output = tape.op([output, bias], tape.tensor(output.numel, output.itemsize), [bias])
    module = block.take("o_proj")
    return linear(tape, module, output, rows, arch.hidden_size) if module is not None else output


def _mixer(
    tape: ForwardTape, arch: Architecture, block: GenericBlock, y: ActivationTensor, rows: int
) -> ActivationTensor:
    """Record a Mamba mixer, linear attention or convolution.

    Parts of the projection go through a convolution, an activation and the scan, and a gate multiplies the output of
    the scan (`MambaMixer`, `Qwen3NextGatedDeltaNet`, `Lfm2ShortConv`).
    """
    width = block.shapes["out_proj"][1]
    into, out = block.take("in_proj"), block.take("out_proj")
    states, steps = block.take("x_proj"), block.take("dt_proj")
    assert into is not None
    assert out is not None
    projected = linear(tape, into, y, rows, block.shapes["in_proj"][0])
    convolved_numel = max(projected.numel - rows * width, rows * width)
    convolved = tape.op([projected], tape.tensor(convolved_numel), [projected])
    x = activation(tape, None, convolved)
    inputs = [x]
    if states is not None and steps is not None:
        parameters = linear(tape, states, x, rows, block.shapes["x_proj"][0])
        inputs += [linear(tape, steps, parameters, rows, width), parameters]
    scanned = tape.op(inputs, tape.tensor(rows * width), inputs)
    gate = tape.op([projected], tape.tensor(rows * width), [])
    return linear(tape, out, multiply_elementwise(tape, scanned, gate), rows, arch.hidden_size)


def _record_mlp(
    tape: ForwardTape, arch: Architecture, block: GenericBlock, y: ActivationTensor, rows: int
) -> ActivationTensor:
    """Record the dense MLP or shared expert, and the routed experts."""
    result: ActivationTensor | None = None
    up = block.take("up_proj")
    if up is not None:
        gate, down = block.take("gate_proj"), block.take("down_proj")
        width = block.shapes["up_proj"][0]
        gated = linear(tape, gate, y, rows, width) if gate is not None else None
        product = _record_gated_product(tape, arch, gated, linear(tape, up, y, rows, width))
        assert down is not None
        result = linear(tape, down, product, rows, arch.hidden_size)
    router = block.take("router")
    if router is not None:
        with tape.record_module(router, y):
            scores = tape.op(
                [y],
                tape.tensor(rows * arch.num_experts),
                saved_inputs(tape, y, router.weights),
                router.weights,
            )
        probs = tape.tensor(rows * arch.num_experts, 4)
        tape.op([scores], probs, [probs])
        routed = _record_experts(tape, arch, block, y, probs, rows)
        result = routed if result is None else add_residual(tape, result, routed)
    return y if result is None else result


def _record_gated_product(
    tape: ForwardTape, arch: Architecture, gate: ActivationTensor | None, up: ActivationTensor
) -> ActivationTensor:
    """Record the activation, multiplied by the gate if there is one."""
    if arch.has_tanh_gelu and gate is None:
        return gelu_new(tape, None, up)
    if gate is None:
        return activation(tape, None, up)
    if tape.kernels.fused_mlp:
        return tape.op([gate, up], tape.tensor(up.numel, up.itemsize), [gate, up])
    return multiply_elementwise(tape, activation(tape, None, gate), up)


def _record_experts(
    tape: ForwardTape,
    arch: Architecture,
    block: GenericBlock,
    y: ActivationTensor,
    probs: ActivationTensor,
    rows: int,
) -> ActivationTensor:
    """Record experts as grouped matmuls over copies of the tokens, like `MoEBlock`."""
    routed, hidden = rows * arch.num_experts_per_tok, arch.hidden_size
    width = arch.moe_intermediate_size
    copies = tape.op([y], tape.tensor(routed * hidden))
    parts = {name: block.take(f"experts.{name}") for name in ("gate", "up", "down")}

    def grouped(part: Module | None, source: ActivationTensor, numel: int) -> ActivationTensor:
        assert part is not None
        trains = any(weight.requires_grad for weight in part.weights)
        unpacked = tape.unpack_experts(part.weights)
        saved = [*([source] if trains else []), *unpacked]
        return tape.op([source, *unpacked], tape.tensor(numel), saved, part.weights)

    gate = grouped(parts["gate"], copies, routed * width) if parts["gate"] else None
    product = _record_gated_product(tape, arch, gate, grouped(parts["up"], copies, routed * width))
    output = grouped(parts["down"], product, routed * hidden)
    weighted = tape.op([output, probs], tape.tensor(routed * hidden), [output])
    return tape.op([weighted], tape.tensor(rows * hidden), temporary=routed * hidden * tape.itemsize)
