"""A generic transformer: the layers of a model type without a module of its own, from its sizes alone.

Each block has a norm, attention, a norm and an MLP or experts, as almost all models do. What a type does besides is not
known, so its activations are approximate (`APPROXIMATION`).
"""

from __future__ import annotations

from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape, Module
from dsconfig.memory.layers import (
    AttentionHeads,
    activation,
    add,
    attention,
    embed,
    language_loss,
    layer_norm,
    linear,
    multiply,
    rms_norm,
    rotate,
    saved_inputs,
)
from dsconfig.memory.models.architecture import Architecture, MicroBatch, RepeatedBlock

APPROXIMATION = 0.4
"""Fraction of its activations by which a model can differ from the generic one."""
ATTENTION = ("q_proj", "q_a_proj", "q_b_proj", "k_proj", "v_proj", "kv_a_proj", "kv_b_proj", "o_proj")


class GenericBlock:
    """Modules of one layer."""

    def __init__(self, tape: ForwardTape, arch: Architecture, block: RepeatedBlock, index: int) -> None:
        prefix = f"{block.name}.{index}"
        self.module = tape.module(prefix)
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
            self.parts.setdefault(name, []).append(part)
        count = 1 if "in_proj" in self.parts else 2
        self.norms = [tape.module(f"{prefix}.norm{number}", arch.hidden_size) for number in range(count)]
        self.shapes = {name: (rows, columns) for name, rows, columns in block.weights}

    def take(self, name: str) -> Module | None:
        """The next module of this name."""
        modules = self.parts.get(name)
        return modules.pop(0) if modules else None


def build(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Build the modules and, unless only parameters are needed, record the pass."""
    tape = batch.new_tape()
    rows = batch.micro_batch_size * batch.local_sequence_length
    root = tape.module("", inputs_require_grad=False)
    embedding = tape.module(
        "embed_tokens",
        (arch.vocab_size, arch.hidden_size),
        inputs_require_grad=False,
        casts=arch.tie_word_embeddings,
    )
    # Towers of other modalities come first, are taken as frozen if adapters are trained, and run without activations.
    others = [block for block in arch.weight_blocks if not is_text(block)]
    towers = [
        tape.module(f"{block.name}.{index}.{name}", (rows_, columns))
        for block in others
        for index in range(block.repeats)
        for name, rows_, columns in block.weights
    ]
    blocks = [
        GenericBlock(tape, arch, block, index)
        for block in arch.weight_blocks
        if is_text(block)
        for index in range(block.repeats)
    ]
    norm = tape.module("norm", arch.hidden_size)
    sizes = () if arch.tie_word_embeddings else ((arch.vocab_size, arch.hidden_size),)
    head = tape.module("lm_head", *sizes, casts=True)
    if arch.tie_word_embeddings:
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
    with tape.scope(root):
        x = embed(tape, embedding, rows * arch.hidden_size, batch)
        for tower in towers:
            with tape.scope(tower, x):
                # Its output is added to the embeddings; the tensors inside are not known.
                features = tape.op([], tape.tensor(0), weights=tower.weights)
                x = tape.op([x, features], tape.tensor(x.numel, x.itemsize), shares_grad=True)
        for block in blocks:
            x = _record(tape, arch, block, heads, batch, x)
        x = _norm(tape, arch, norm, x, rows)
        language_loss(tape, head, head.weights, x, rows, arch.vocab_size)
    return tape


def is_text(block: RepeatedBlock) -> bool:
    """Whether a block belongs to the language model."""
    return block.name in ("layers", "dense_layers", "decoder")


def _norm(
    tape: ForwardTape, arch: Architecture, module: Module, x: ActivationTensor, rows: int
) -> ActivationTensor:
    return rms_norm(tape, module, x, rows) if arch.has_rms_norms else layer_norm(tape, module, x, rows)


def _record(
    tape: ForwardTape,
    arch: Architecture,
    block: GenericBlock,
    heads: AttentionHeads,
    batch: MicroBatch,
    x: ActivationTensor,
) -> ActivationTensor:
    rows = heads.num_tokens
    with tape.scope(block.module, x), tape.checkpoint(x, batch.gradient_checkpointing):
        y = _norm(tape, arch, block.norms[0], x, rows)
        if block.parts.get("in_proj"):
            return add(tape, x, _state_space(tape, arch, block, y, rows))
        x = add(tape, x, _attention(tape, arch, block, heads, batch, y))
        while block.parts.get("o_proj"):  # cross attention
            x = add(tape, x, _attention(tape, arch, block, heads, batch, x))
        y = _norm(tape, arch, block.norms[1], x, rows)
        return add(tape, x, _mlp(tape, arch, block, y, rows))


def _attention(
    tape: ForwardTape,
    arch: Architecture,
    block: GenericBlock,
    heads: AttentionHeads,
    batch: MicroBatch,
    y: ActivationTensor,
) -> ActivationTensor:
    """Projections that the block has, low-rank ones included, and the attention itself."""
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
        query, key = rotate(tape, query, key)
    output = attention(tape, batch.attn_implementation, heads, query, key, value)
    module = block.take("o_proj")
    return linear(tape, module, output, rows, arch.hidden_size) if module is not None else output


def _state_space(
    tape: ForwardTape, arch: Architecture, block: GenericBlock, y: ActivationTensor, rows: int
) -> ActivationTensor:
    """A Mamba mixer: two halves of the projection, a convolution, the step sizes, and the scan (`MambaMixer`)."""
    width = block.shapes["out_proj"][1]
    modules = [block.take(name) for name in ("in_proj", "x_proj", "dt_proj", "out_proj")]
    into, states, steps, out = (module for module in modules if module is not None)
    both = linear(tape, into, y, rows, 2 * width)
    convolved = tape.op([both], tape.tensor(rows * width), [both])
    x = activation(tape, None, convolved)
    parameters = linear(tape, states, x, rows, block.shapes["x_proj"][0])
    step = linear(tape, steps, parameters, rows, width)
    scanned = tape.op([x, step, parameters], tape.tensor(rows * width), [x, step, parameters])
    return linear(tape, out, multiply(tape, scanned, activation(tape, None, x)), rows, arch.hidden_size)


def _mlp(
    tape: ForwardTape, arch: Architecture, block: GenericBlock, y: ActivationTensor, rows: int
) -> ActivationTensor:
    """The dense MLP or the shared expert, and the routed experts."""
    result: ActivationTensor | None = None
    up = block.take("up_proj")
    if up is not None:
        gate, down = block.take("gate_proj"), block.take("down_proj")
        width = block.shapes["up_proj"][0]
        gated = linear(tape, gate, y, rows, width) if gate is not None else None
        product = _product(tape, gated, linear(tape, up, y, rows, width))
        assert down is not None
        result = linear(tape, down, product, rows, arch.hidden_size)
    router = block.take("router")
    if router is not None:
        with tape.scope(router, y):
            scores = tape.op(
                [y],
                tape.tensor(rows * arch.num_experts),
                saved_inputs(tape, y, router.weights),
                router.weights,
            )
        probs = tape.tensor(rows * arch.num_experts, 4)
        tape.op([scores], probs, [probs])
        routed = _experts(tape, arch, block, y, probs, rows)
        result = routed if result is None else add(tape, result, routed)
    return y if result is None else result


def _product(tape: ForwardTape, gate: ActivationTensor | None, up: ActivationTensor) -> ActivationTensor:
    """The activation, and the product with the gate if there is one."""
    if gate is None:
        return activation(tape, None, up)
    if tape.kernels.fused_mlp:
        return tape.op([gate, up], tape.tensor(up.numel, up.itemsize), [gate, up])
    return multiply(tape, activation(tape, None, gate), up)


def _experts(
    tape: ForwardTape,
    arch: Architecture,
    block: GenericBlock,
    y: ActivationTensor,
    probs: ActivationTensor,
    rows: int,
) -> ActivationTensor:
    """Experts as grouped products over copies of the tokens, as `MoEBlock` of the Llama-like decoders has them."""
    routed, hidden = rows * arch.num_experts_per_tok, arch.hidden_size
    width = arch.moe_intermediate_size
    copies = tape.op([y], tape.tensor(routed * hidden))
    parts = {name: block.take(f"experts.{name}") for name in ("gate", "up", "down")}

    def grouped(part: Module | None, source: ActivationTensor, numel: int) -> ActivationTensor:
        assert part is not None
        trains = any(weight.requires_grad for weight in part.weights)
        return tape.op([source], tape.tensor(numel), [source] if trains else [], part.weights)

    gate = grouped(parts["gate"], copies, routed * width) if parts["gate"] else None
    product = _product(tape, gate, grouped(parts["up"], copies, routed * width))
    output = grouped(parts["down"], product, routed * hidden)
    weighted = tape.op([output, probs], tape.tensor(routed * hidden), [output])
    return tape.op([weighted], tape.tensor(rows * hidden), temporary=routed * hidden * tape.itemsize)
