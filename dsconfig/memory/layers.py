"""Layers of transformer models as autograd operations: linear layers, attention, masks, embeddings and norms."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape, LoraModules, ModelParameter, Module
from dsconfig.memory.models.architecture import Architecture, MicroBatch

if TYPE_CHECKING:
    from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape, Module


# Layers as autograd operations. Shapes and saved tensors follow torch and Transformers, not the math.


def cast_tensor(tape: ForwardTape, x: ActivationTensor, itemsize: int) -> ActivationTensor:
    """Record `x.to(dtype)`, which returns `x` itself if it already has the dtype."""
    if x.itemsize == itemsize:
        return x
    return tape.op([x], tape.tensor(x.numel, itemsize, x.requires_grad))


def to_fp32_under_autocast(tape: ForwardTape, x: ActivationTensor) -> ActivationTensor:
    """Cast to fp32 for operations that CUDA autocast runs in fp32, such as pow, norms and softmax."""
    return cast_tensor(tape, x, 4) if tape.autocast else x


def linear(
    tape: ForwardTape,
    module: Module,
    x: ActivationTensor,
    rows: int,
    out: int,
    label: str = "activations",
    *,
    flat: bool = False,
) -> ActivationTensor:
    """Record `nn.Linear`; autocast casts the input and the weight, and saves the copies.

    If `flat`, the input is two-dimensional, so the bias is part of the product (`addmm`).
    """
    if module.lora_modules is not None:
        return _lora_linear(tape, module, module.lora_modules, x, rows, out)
    with tape.record_module(module, x):
        itemsize = 2 if tape.autocast else 4 if module.weights[0].stays_fp32 else tape.itemsize
        x = cast_tensor(tape, x, itemsize)
        output = tape.tensor(rows * out, itemsize, label=label)
        is_stage3_linear = (
            tape.saves_linear_inputs and module.weights[0].is_linear and len(module.weights) > 1
        )
        # The fp32 bias is added in place; on a CPU TensorIterator first casts both operands.
        cast_bytes = (
            8 * output.numel
            if is_stage3_linear and tape.on_cpu and itemsize < tape.itemsize and not flat
            else 0
        )
        saved = saved_inputs(tape, x, module.weights)
        numel = module.weights[0].original_numel
        if numel and tape.quantization is not None and tape.quantization.saves_dequantized:
            # Unpacked integers and a product with the scales precede the weights (auto_gptq qlinear_cuda.py).
            weight = tape.op([], tape.tensor(numel, itemsize, requires_grad=False), temporary=(4 + 1) * numel)
            return tape.op([x, weight], output, [*saved, weight], module.weights, cast_bytes)
        # A quantized weight is dequantized for each product (bitsandbytes `matmul_4bit`).
        dequantized = itemsize * numel
        return tape.op([x], output, saved, module.weights, cast_bytes + dequantized, dequantized)


def saved_inputs(
    tape: ForwardTape, x: ActivationTensor, weights: Sequence[ModelParameter]
) -> list[ActivationTensor]:
    """Return the inputs that a matmul saves; none if its weights are frozen, except in stage 3's own linear layer."""
    is_stage3_linear = tape.saves_linear_inputs and weights[0].is_linear
    return [x] if is_stage3_linear or any(weight.requires_grad for weight in weights) else []


def _lora_linear(
    tape: ForwardTape, module: Module, parts: LoraModules, x: ActivationTensor, rows: int, out: int
) -> ActivationTensor:
    """Record PEFT's `Linear.forward`: the base layer plus the scaled output of `lora_B(lora_A(dropout(x)))`."""
    assert tape.adapter is not None
    with tape.record_module(module, x):
        base = linear(tape, parts.base, x, rows, out)
        y = cast_tensor(tape, x, 4) if tape.adapter.stays_fp32 else x
        with tape.record_module(parts.dropout):
            y = dropout(tape, y, tape.adapter.dropout)
        low_rank = linear(tape, parts.lora_a, y, rows, tape.adapter.rank)
        delta = linear(tape, parts.lora_b, low_rank, rows, out)
        scaled = tape.op([delta], tape.tensor(delta.numel, delta.itemsize))
        return cast_tensor(tape, add_residual(tape, base, scaled), base.itemsize)


def add_residual(tape: ForwardTape, x: ActivationTensor, y: ActivationTensor) -> ActivationTensor:
    """Record a residual addition, whose inputs share one gradient; on the CPU, mixed dtypes are cast first."""
    same_dtype, itemsize = x.itemsize == y.itemsize, max(x.itemsize, y.itemsize)
    cast_first = 0 if same_dtype or not tape.on_cpu else itemsize * x.numel
    return tape.op([x, y], tape.tensor(x.numel, itemsize), temporary=cast_first, shares_grad=same_dtype)


def multiply_elementwise(tape: ForwardTape, x: ActivationTensor, y: ActivationTensor) -> ActivationTensor:
    """Record an element-wise product, which saves both factors."""
    return tape.op([x, y], tape.tensor(x.numel, max(x.itemsize, y.itemsize)), [x, y])


def activation(tape: ForwardTape, module: Module | None, x: ActivationTensor) -> ActivationTensor:
    """Record an element-wise function that saves its input (SiLU, GELU)."""
    if module is None:
        return tape.op([x], tape.tensor(x.numel, x.itemsize), [x])
    with tape.record_module(module, x):
        return tape.op([x], tape.tensor(x.numel, x.itemsize), [x])


def relu(tape: ForwardTape, module: Module, x: ActivationTensor) -> ActivationTensor:
    """Record an element-wise function that saves its output (ReLU, tanh)."""
    with tape.record_module(module, x):
        output = tape.tensor(x.numel, x.itemsize)
        return tape.op([x], output, [output])


def gated_activation(tape: ForwardTape, module: Module, both: ActivationTensor) -> ActivationTensor:
    """Record `act(gate) * up` on the halves of one tensor, whose gradients are concatenated in the backward pass."""
    count = both.numel // 2
    with tape.record_module(module):
        gate = tape.op([both], tape.tensor(count, both.itemsize), [both])
    return tape.op([gate], tape.tensor(count, both.itemsize), [gate, both], backward_temporary=gate.bytes)


def gelu_new(tape: ForwardTape, module: Module | None, x: ActivationTensor) -> ActivationTensor:
    """Record `NewGELUActivation`: seven operations, of which pow, tanh and the products save tensors."""
    count = x.numel
    with nullcontext() if module is None else tape.record_module(module, x):
        # 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))), one tensor per operation.
        half = tape.op([x], tape.tensor(count, x.itemsize))
        x_fp32 = to_fp32_under_autocast(tape, x)
        itemsize = x_fp32.itemsize  # autocast runs `pow` in fp32, and the rest of the chain stays in fp32
        cube = tape.op(
            [x_fp32], tape.tensor(count, itemsize), [x_fp32], backward_temporary=2 * count * itemsize
        )
        scaled = tape.op([cube], tape.tensor(count, itemsize))
        total = tape.op([x, scaled], tape.tensor(count, itemsize), shares_grad=x.itemsize == itemsize)
        inner = tape.op([total], tape.tensor(count, itemsize))
        tanh = tape.tensor(count, itemsize)
        tape.op([inner], tanh, [tanh])
        one = tape.op([tanh], tape.tensor(count, itemsize), shares_grad=True)
        return multiply_elementwise(tape, half, one)


def dropout(tape: ForwardTape, x: ActivationTensor, rate: float) -> ActivationTensor:
    """Record dropout, which saves a mask with one byte per element."""
    if not rate:
        return x
    mask = tape.tensor(x.numel, 1, requires_grad=False)
    tape.op([], mask)
    return tape.op([x, mask], tape.tensor(x.numel, x.itemsize), [mask])


# Attention: one fused kernel (sdpa, flash), or products and softmax one by one (eager).


class AttentionHeads(NamedTuple):
    """The dimensions of an attention layer."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    batch_size: int
    sequence_length: int
    dropout: float = 0.0
    """Dropout rate of eager attention."""
    has_no_mask: bool = False
    """Whether eager attention adds no mask (BERT)."""
    fp32_softmax: bool = True
    """Whether eager softmax runs in fp32 in any precision; BERT and GPT-2 use fp32 only under autocast."""
    is_concatenated: bool = False
    """Whether queries come from `torch.cat`, head by head, so that the attention output needs a copy."""

    runs_unfused: bool = False
    """Whether sdpa runs as separate operations, since keys have fewer heads than queries (Falcon 7B)."""
    has_sinks: bool = False
    """Whether eager attention adds a learned score per head to the softmax (gpt-oss)."""
    value_head_dim: int = 0
    """Number of elements in a value head, or 0 if value heads are as large as those of queries and keys."""

    @property
    def num_tokens(self) -> int:
        """Number of tokens in the batch."""
        return self.batch_size * self.sequence_length

    @property
    def numel(self) -> int:
        """Number of elements in all queries."""
        return self.num_tokens * self.num_heads * self.head_dim

    @property
    def output_numel(self) -> int:
        """Number of elements in the attention output."""
        return self.num_tokens * self.num_heads * (self.value_head_dim or self.head_dim)


def multi_head_dimensions(arch: Architecture, batch: MicroBatch, **options: bool) -> AttentionHeads:
    """Return the dimensions of attention with one key and value head per query head."""
    size = arch.hidden_size // arch.num_heads
    tokens = batch.micro_batch_size, batch.sequence_length
    return AttentionHeads(arch.num_heads, arch.num_heads, size, *tokens, arch.attention_dropout, **options)


def attention(
    tape: ForwardTape,
    kind: str,
    heads: AttentionHeads,
    query: ActivationTensor,
    key: ActivationTensor,
    value: ActivationTensor,
    mask: ActivationTensor | None = None,
    softcap: bool = False,
) -> ActivationTensor:
    """Record attention and return its output; `softcap` passes the scores through a tanh (Gemma 2)."""
    itemsize = 2 if tape.autocast else tape.itemsize
    if kind == "eager":
        return _eager_attention(tape, heads, query, key, value, itemsize, softcap)
    if kind == "sdpa" and heads.runs_unfused:
        return _unfused_sdpa(tape, heads, query, key, value, itemsize)
    masks: list[ActivationTensor] = []
    if mask is not None:  # sdpa converts the mask to the query dtype and needs repeated key and value heads
        if heads.num_kv_heads > 1:  # a single head is expanded without a copy
            key, value = _repeat_kv(tape, heads, key), _repeat_kv(tape, heads, value)
        masks = [
            tape.op(
                [mask],
                tape.tensor(heads.batch_size * heads.sequence_length**2, itemsize, requires_grad=False),
            )
        ]
    query, key, value = (cast_tensor(tape, x, itemsize) for x in (query, key, value))
    logsumexp = tape.tensor(heads.num_tokens * heads.num_heads, 4, requires_grad=False)
    tape.op([], logsumexp)
    output = tape.tensor(heads.output_numel, itemsize)
    tape.op([query, key, value, logsumexp, *masks], output, [query, key, value, logsumexp, output, *masks])
    if heads.is_concatenated:
        output = tape.op([output], tape.tensor(output.numel, itemsize))
    return output


def _repeat_kv(tape: ForwardTape, heads: AttentionHeads, x: ActivationTensor) -> ActivationTensor:
    """Record `repeat_kv`, which copies each key or value head for all query heads that share it."""
    if heads.num_kv_heads == heads.num_heads:
        return x
    return tape.op([x], tape.tensor(heads.numel, x.itemsize))


def _eager_attention(
    tape: ForwardTape,
    heads: AttentionHeads,
    query: ActivationTensor,
    key: ActivationTensor,
    value: ActivationTensor,
    itemsize: int,
    softcap: bool,
) -> ActivationTensor:
    """Record `eager_attention_forward`: S×S scores per head, softmax in fp32, and a cast back."""
    count = heads.batch_size * heads.num_heads * heads.sequence_length**2
    key, value = _repeat_kv(tape, heads, key), _repeat_kv(tape, heads, value)
    query, key, value = (cast_tensor(tape, x, itemsize) for x in (query, key, value))
    scores = tape.op([query, key], tape.tensor(count, itemsize), [query, key])
    scaled = tape.op([scores], tape.tensor(count, itemsize))
    if softcap:
        tanh = tape.tensor(count, itemsize)
        tape.op([tape.op([scaled], tape.tensor(count, itemsize))], tanh, [tanh])
        scaled = tape.op([tanh], tape.tensor(count, itemsize))
    masked = (
        scaled if heads.has_no_mask else tape.op([scaled], tape.tensor(count, itemsize), shares_grad=True)
    )
    if heads.has_sinks:
        probs = _softmax_with_sinks(tape, heads, masked)
        output = tape.op([probs, value], tape.tensor(heads.output_numel, itemsize), [probs, value])
        return tape.op([output], tape.tensor(heads.output_numel, itemsize))
    # Eager attention materializes scores of batch × heads × S × S; Llama's softmax runs in fp32.
    probs_fp32 = tape.tensor(count, 4 if heads.fp32_softmax or tape.autocast else itemsize)
    copy = 4 * count if itemsize != probs_fp32.itemsize else 0  # ATen's `softmax` casts its input first
    tape.op([masked], probs_fp32, [probs_fp32], temporary=copy)
    probs = dropout(tape, cast_tensor(tape, probs_fp32, itemsize), heads.dropout)
    output = tape.op([probs, value], tape.tensor(heads.output_numel, itemsize), [probs, value])
    return tape.op([output], tape.tensor(heads.output_numel, itemsize))


def _unfused_sdpa(
    tape: ForwardTape,
    heads: AttentionHeads,
    query: ActivationTensor,
    key: ActivationTensor,
    value: ActivationTensor,
    itemsize: int,
) -> ActivationTensor:
    """Record `_scaled_dot_product_attention_math`, which computes in fp32 and repeats keys and values for all heads."""
    count, square = heads.numel, heads.batch_size * heads.num_heads * heads.sequence_length**2

    def in_fp32(x: ActivationTensor, *, is_scaled: bool = True) -> ActivationTensor:
        x = cast_tensor(tape, x, 4)
        if is_scaled:
            x = tape.op([x], tape.tensor(x.numel, 4))
        return tape.op([x], tape.tensor(count, 4), shares_grad=True)

    query, key = in_fp32(query), in_fp32(key)
    scores = tape.op([query, key], tape.tensor(square, 4), [query, key])
    masked = tape.op([scores], tape.tensor(square, 4), shares_grad=True)
    probs = tape.tensor(square, 4)
    tape.op([masked], probs, [probs])
    value = in_fp32(value, is_scaled=False)
    output = cast_tensor(tape, tape.op([probs, value], tape.tensor(count, 4), [probs, value]), itemsize)
    return tape.op([output], tape.tensor(count, itemsize), shares_grad=True)


def _softmax_with_sinks(
    tape: ForwardTape, heads: AttentionHeads, scores: ActivationTensor
) -> ActivationTensor:
    """Record softmax over the scores and one sink per head, which is dropped afterwards (gpt-oss)."""
    lines = heads.batch_size * heads.num_heads * heads.sequence_length
    count, itemsize = scores.numel + lines, scores.itemsize
    combined = tape.op([scores], tape.tensor(count, itemsize))
    highest = tape.op([combined], tape.tensor(lines, itemsize + 8))
    shifted = tape.op([combined, highest], tape.tensor(count, itemsize))
    probs = tape.tensor(count, itemsize)
    tape.op([shifted], probs, [probs])
    tape.keep_alive(scores, shifted)
    return probs


# Attention masks, which Transformers (`masking_utils.py`) creates once for all layers of a kind.


class AttentionMasks:
    """The attention masks of a model: float masks for `eager`, boolean sliding-window masks for `sdpa`."""

    def __init__(self, tape: ForwardTape, arch: Architecture, batch: MicroBatch) -> None:
        self.tape, self.sliding_layers = tape, frozenset(arch.sliding_layers)
        self.full: ActivationTensor | None = None
        self.sliding: ActivationTensor | None = None
        square = batch.sequence_length**2
        if batch.attn_implementation == "eager":
            masks = [
                self._make(batch.micro_batch_size * square, tape.itemsize)
                for _ in range(arch.variant.num_masks)
            ]
            self.full, self.sliding = masks[0], masks[-1]
        elif (
            batch.attn_implementation == "sdpa"
            and self.sliding_layers
            and batch.sequence_length >= arch.sliding_window
        ):
            self.sliding = self._make(square, 1)

    def _make(self, count: int, itemsize: int) -> ActivationTensor:
        return self.tape.op([], self.tape.tensor(count, itemsize, requires_grad=False))

    def for_layer(self, layer: int) -> ActivationTensor | None:
        """Return the attention mask of a layer, or None if it has none."""
        return self.sliding if layer in self.sliding_layers else self.full

    def release(self) -> None:
        """Drop the masks at the end of the model's forward pass."""
        masks = {mask: None for mask in (self.full, self.sliding) if mask is not None}
        if masks:
            self.tape.keep_alive(*masks)


# The ends of a language model: its head, and its embeddings.


def lm_head(tape: ForwardTape, words: Module, arch: Architecture) -> Module:
    """Create the LM head, whose weight may be tied to the embedding."""
    rows = arch.vocab_size // arch.lm_head_shards
    is_tied = arch.tie_word_embeddings
    if is_tied and tape.trains_whole(
        "lm_head"
    ):  # PEFT copies the tied weight, which stays with the embeddings
        adapter, tape.adapter = tape.adapter, None
        head = tape.module("lm_head", (rows, arch.hidden_size), casts=True)
        tape.adapter = adapter
        return head
    sizes = () if is_tied else ((rows, arch.hidden_size),)
    head = tape.module("lm_head", *sizes, *((rows,) if arch.lm_head_bias else ()), casts=True)
    if is_tied:
        head.weights = (*words.original_weights, *head.weights)
        tape.untied_numel = arch.vocab_size * arch.hidden_size
    return head


def embed_tokens(
    tape: ForwardTape, table: Module, count: int, batch: MicroBatch, scaled: bool = False
) -> ActivationTensor:
    """Record the lookup of token embeddings, which Gemma scales by `sqrt(hidden_size)`."""
    with tape.record_module(table):
        x = tape.op([], tape.tensor(count), weights=table.weights)
        if scaled:
            x = tape.op([x], tape.tensor(count))
        if batch.needs_input_grad:
            tape.enable_input_grad(x)
    return x


# Norms, with the tensors that each Transformers implementation computes and saves.

LAYER_NORMS = ("layer", "layer_unbiased", "layer_1p", "layer_unweighted")
"""Norms that run as one operation, `torch.nn.functional.layer_norm`."""


def normalize(
    tape: ForwardTape, module: Module, x: ActivationTensor, rows: int, kind: str = "llama"
) -> ActivationTensor:
    """Record the normalization of `rows` vectors.

    `kind` is an RMS norm whose weight is multiplied in the input's dtype (`llama`), in fp32 (`olmo2`), or in fp32 after
    adding 1 (`gemma`); or a layer norm (`layer`), possibly without a bias (`layer_unbiased`), with a weight to which 1
    is added (`layer_1p`), in fp32 without a weight (`layer_unweighted`), or computed step by step in fp32
    (`layer_fp32`).
    """
    if kind in LAYER_NORMS:
        return layer_norm(tape, module, x, rows, kind)
    if kind == "layer_fp32":
        return _layer_norm_fp32(tape, module, x, rows)
    return rms_norm(tape, module, x, rows, kind)


def norm_weights(kind: str, *sizes: int | tuple[int, ...]) -> tuple[int | tuple[int, ...], ...]:
    """Return the shapes of a norm's parameters: a weight and, for some layer norms, a bias."""
    if kind == "layer_unweighted":
        return ()
    return sizes * 2 if kind in ("layer", "layer_1p") else sizes


def rms_norm(
    tape: ForwardTape, module: Module, x: ActivationTensor, rows: int, style: str = "llama"
) -> ActivationTensor:
    """Record `LlamaRMSNorm`, which computes in fp32 with one reciprocal root per token.

    `style` says whether the weight is multiplied in the input's dtype (`llama`), in fp32 (`olmo2`), or in fp32 after
    adding 1 (`gemma`).
    """
    itemsize, count = x.itemsize, x.numel
    if tape.kernels.fused_norms:
        # `LigerRMSNormFunction` saves its input and one reciprocal root per token, and writes the gradient in place.
        with tape.record_module(module, x):
            root = tape.tensor(rows, 4, requires_grad=False)
            tape.op([], root)
            return tape.op([x, root], tape.tensor(count, itemsize), [x, root], module.weights)
    with tape.record_module(module, x):
        x_fp32 = cast_tensor(tape, x, 4)
        # `pow(2)` saves its input, and `mean` and `rsqrt` keep one value per token.
        square = tape.op([x_fp32], tape.tensor(count, 4), [x_fp32], backward_temporary=2 * 4 * count)
        mean = tape.op([square], tape.tensor(rows, 4))
        root = tape.tensor(rows, 4)
        tape.op([mean], root, [root])
        normalized = tape.op(
            [x_fp32, root], tape.tensor(count, 4), [x_fp32, root], backward_temporary=4 * count
        )
        if style == "llama":
            normalized = cast_tensor(tape, normalized, itemsize)
        requires_grad = any(weight.requires_grad for weight in module.weights)
        saved, back = ([normalized], normalized.bytes) if requires_grad else ([], 0)
        output = tape.tensor(count, 4 if style != "llama" else max(itemsize, tape.itemsize))
        if style == "gemma":
            scale = tape.tensor(module.weights[0].numel, 4)
            tape.op([], scale, weights=module.weights)
            tape.op([normalized, scale], output, [*saved, scale], backward_temporary=back)
        else:
            tape.op([normalized], output, saved, module.weights, backward_temporary=back)
        return output if style == "llama" else cast_tensor(tape, output, itemsize)


def layer_norm(
    tape: ForwardTape, module: Module, x: ActivationTensor, rows: int, kind: str = "layer"
) -> ActivationTensor:
    """Record `nn.LayerNorm`, which saves its input, and the mean and reciprocal root of each token.

    With `layer_1p`, 1 is added to the weight first (Nemotron); with `layer_unweighted`, the norm computes in fp32
    (OLMo).
    """
    with tape.record_module(module, x):
        itemsize = x.itemsize
        x = cast_tensor(tape, x, 4) if kind == "layer_unweighted" else to_fp32_under_autocast(tape, x)
        output = tape.tensor(x.numel, x.itemsize)
        sums = tape.tensor(2 * rows, x.itemsize, requires_grad=False)
        tape.op([], sums)
        if kind == "layer_1p":
            scale = tape.op([], tape.tensor(module.weights[0].numel), weights=module.weights[:1])
            return tape.op([x, sums, scale], output, [x, sums, scale], module.weights[1:])
        tape.op([x, sums], output, [x, sums], module.weights)
        return cast_tensor(tape, output, itemsize) if kind == "layer_unweighted" else output


def _layer_norm_fp32(tape: ForwardTape, module: Module, x: ActivationTensor, rows: int) -> ActivationTensor:
    """Record `CohereLayerNorm`, which subtracts the mean, squares and scales in separate operations."""
    itemsize, count = x.itemsize, x.numel
    with tape.record_module(module, x):
        x_fp32 = cast_tensor(tape, x, 4)
        mean = tape.op([x_fp32], tape.tensor(rows, 4))
        centered = tape.op([x_fp32, mean], tape.tensor(count, 4))
        square = tape.op([centered], tape.tensor(count, 4), [centered], backward_temporary=2 * 4 * count)
        variance = tape.op([square], tape.tensor(rows, 4))
        again = tape.op([x_fp32, mean], tape.tensor(count, 4))
        root = tape.tensor(rows, 4)
        tape.op([variance], root, [root])
        normalized = tape.op(
            [again, root], tape.tensor(count, 4), [again, root], backward_temporary=4 * count
        )
        scale = tape.op([], tape.tensor(module.weights[0].numel, 4), weights=module.weights)
        saved = [normalized] if scale.requires_grad else []
        output = tape.op([normalized, scale], tape.tensor(count, 4), [*saved, scale])
        tape.keep_alive(variance, mean)
        return cast_tensor(tape, output, itemsize)
