"""Layers of transformer models as autograd operations: linear, norms, attention, masks, and the loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dsconfig.memory.graph import LoraModules, Module, Tape, Tensor, Weight
from dsconfig.memory.models.architecture import Architecture, MicroBatch

# The layers that models are made of, as operations of autograd (Transformers' and torch's own code).


def cast(tape: Tape, x: Tensor, itemsize: int) -> Tensor:
    """`x.to(dtype)`: nothing where it has the type."""
    if x.itemsize == itemsize:
        return x
    return tape.op([x], tape.tensor(x.numel, itemsize, x.requires_grad))


def to_fp32_under_autocast(tape: Tape, x: Tensor) -> Tensor:
    """What CUDA's autocast computes in fp32: powers, norms (`AT_FORALL_FP32`, ATen/autocast_mode.h)."""
    return cast(tape, x, 4) if tape.autocast else x


def linear(
    tape: Tape,
    module: Module,
    x: Tensor,
    rows: int,
    out: int,
    label: str = "activations",
    *,
    flat: bool = False,
) -> Tensor:
    """`nn.Linear`; under autocast the input and the weight are cast, and the copies are kept.

    `flat`: the input has two dimensions, so that the bias is part of the product (`addmm`).
    """
    if module.lora_modules is not None:
        return _adapted(tape, module, module.lora_modules, x, rows, out)
    with tape.scope(module, x):
        itemsize = 2 if tape.autocast else 4 if module.weights[0].stays_fp32 else tape.itemsize
        x = cast(tape, x, itemsize)
        made = tape.tensor(rows * out, itemsize, label=label)
        own = tape.saves_linear_inputs and module.weights[0].is_linear and len(module.weights) > 1
        # a bias in fp32 is added in place: on a CPU alone TensorIterator casts both sides first
        both = 8 * made.numel if own and tape.on_cpu and itemsize < tape.itemsize and not flat else 0
        return tape.op([x], made, saved_inputs(tape, x, module.weights), module.weights, both)


def saved_inputs(tape: Tape, x: Tensor, weights: Sequence[Weight]) -> list[Tensor]:
    """What a product keeps of its input: nothing where the weights do not train."""
    own = tape.saves_linear_inputs and weights[0].is_linear
    return [x] if own or any(weight.requires_grad for weight in weights) else []


def _adapted(tape: Tape, module: Module, parts: LoraModules, x: Tensor, rows: int, out: int) -> Tensor:
    """PEFT's `Linear.forward`: the layer, and beside it two narrow ones, scaled."""
    assert tape.adapter is not None
    with tape.scope(module, x):
        straight = linear(tape, parts.base, x, rows, out)
        y = cast(tape, x, 4) if tape.adapter.stays_fp32 else x
        with tape.scope(parts.dropout):
            y = dropout(tape, y, tape.adapter.dropout)
        narrow = linear(tape, parts.lora_a, y, rows, tape.adapter.rank)
        wide = linear(tape, parts.lora_b, narrow, rows, out)
        scaled = tape.op([wide], tape.tensor(wide.numel, wide.itemsize))
        return cast(tape, add(tape, straight, scaled), straight.itemsize)


def add(tape: Tape, x: Tensor, y: Tensor) -> Tensor:
    """A residual: both get the gradient as it is; where types differ a CPU casts the narrow one first."""
    same, itemsize = x.itemsize == y.itemsize, max(x.itemsize, y.itemsize)
    cast_first = 0 if same or not tape.on_cpu else itemsize * x.numel
    return tape.op([x, y], tape.tensor(x.numel, itemsize), temporary=cast_first, passes_grad_through=same)


def multiply(tape: Tape, x: Tensor, y: Tensor) -> Tensor:
    """Two tensors, each kept for the other's gradient."""
    return tape.op([x, y], tape.tensor(x.numel, max(x.itemsize, y.itemsize)), [x, y])


def activation(tape: Tape, module: Module | None, x: Tensor) -> Tensor:
    """A function of each element that keeps its input."""
    if module is None:
        return tape.op([x], tape.tensor(x.numel, x.itemsize), [x])
    with tape.scope(module, x):
        return tape.op([x], tape.tensor(x.numel, x.itemsize), [x])


def relu(tape: Tape, module: Module, x: Tensor) -> Tensor:
    """A function whose gradient is computed from what it makes."""
    with tape.scope(module, x):
        made = tape.tensor(x.numel, x.itemsize)
        return tape.op([x], made, [made])


def gated_activation(tape: Tape, module: Module, both: Tensor) -> Tensor:
    """A function of one half of a tensor, times the other half: their gradients are put together at last."""
    count = both.numel // 2
    with tape.scope(module):
        gate = tape.op([both], tape.tensor(count, both.itemsize), [both])
    return tape.op([gate], tape.tensor(count, both.itemsize), [gate, both], backward_temporary=gate.bytes)


def gelu_new(tape: Tape, module: Module, x: Tensor) -> Tensor:
    """`NewGELUActivation`: seven operations, of which the products and the power keep what they read."""
    count = x.numel
    with tape.scope(module, x):
        half = tape.op([x], tape.tensor(count, x.itemsize))
        full = to_fp32_under_autocast(tape, x)
        itemsize = full.itemsize  # of all that follows: the power decides
        cube = tape.op([full], tape.tensor(count, itemsize), [full], backward_temporary=2 * count * itemsize)
        scaled = tape.op([cube], tape.tensor(count, itemsize))
        total = tape.op([x, scaled], tape.tensor(count, itemsize), passes_grad_through=x.itemsize == itemsize)
        inner = tape.op([total], tape.tensor(count, itemsize))
        curve = tape.tensor(count, itemsize)
        tape.op([inner], curve, [curve])
        one = tape.op([curve], tape.tensor(count, itemsize), passes_grad_through=True)
        return multiply(tape, half, one)


def rms_norm(tape: Tape, module: Module, x: Tensor, rows: int, kind: str = "narrow") -> Tensor:
    """`LlamaRMSNorm`: computed in fp32, with one reciprocal root a row.

    `kind`: its weight is multiplied in the type of the input (Llama), in fp32 (OLMo 2), or in fp32 after
    1 is added to it (Gemma).
    """
    itemsize, count = x.itemsize, x.numel
    with tape.scope(module, x):
        full = cast(tape, x, 4)
        square = tape.op([full], tape.tensor(count, 4), [full], backward_temporary=2 * 4 * count)
        mean = tape.op([square], tape.tensor(rows, 4))
        root = tape.tensor(rows, 4)
        tape.op([mean], root, [root])
        normal = tape.op([full, root], tape.tensor(count, 4), [full, root], backward_temporary=4 * count)
        if kind == "narrow":
            normal = cast(tape, normal, itemsize)
        requires_grad = any(weight.requires_grad for weight in module.weights)
        saved, back = ([normal], normal.bytes) if requires_grad else ([], 0)
        made = tape.tensor(count, 4 if kind != "narrow" else max(itemsize, tape.itemsize))
        if kind == "added":
            scale = tape.tensor(module.weights[0].numel, 4)
            tape.op([], scale, weights=module.weights)
            tape.op([normal, scale], made, [*saved, scale], backward_temporary=back)
        else:
            tape.op([normal], made, saved, module.weights, backward_temporary=back)
        return made if kind == "narrow" else cast(tape, made, itemsize)


def layer_norm(tape: Tape, module: Module, x: Tensor, rows: int) -> Tensor:
    """`nn.LayerNorm`: keeps its input, and mean and root of each row."""
    with tape.scope(module, x):
        x = to_fp32_under_autocast(tape, x)
        made = tape.tensor(x.numel, x.itemsize)
        sums = tape.tensor(2 * rows, x.itemsize, requires_grad=False)
        tape.op([], sums)
        return tape.op([x, sums], made, [x, sums], module.weights)


def dropout(tape: Tape, x: Tensor, rate: float) -> Tensor:
    """A mask of a byte an element is kept."""
    if not rate:
        return x
    mask = tape.tensor(x.numel, 1, requires_grad=False)
    tape.op([], mask)
    return tape.op([x, mask], tape.tensor(x.numel, x.itemsize), [mask])


def rotary(tape: Tape, x: Tensor, itemsize: int) -> Tensor:
    """`apply_rotary_pos_emb` on queries or keys: nothing is kept, for cos and sin need no gradient."""
    count = x.numel
    straight = tape.op([x], tape.tensor(count, itemsize))
    half = tape.op(
        [x],
        tape.tensor(count, x.itemsize),
        temporary=count // 2 * x.itemsize,
        backward_temporary=count * x.itemsize,
    )
    turned = tape.op([half], tape.tensor(count, itemsize))
    return tape.op([straight, turned], tape.tensor(count, itemsize), passes_grad_through=True)


# Attention: one fused operation, or the products and the softmax one by one.


class Heads(NamedTuple):
    """Query heads, key and value heads, elements of each; batch and length of a sequence."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    batch_size: int
    sequence_length: int
    dropout: float = 0.0
    """The rate at which attention step by step leaves something out."""
    has_no_mask: bool = False
    """Whether attention step by step has no mask (BERT)."""
    fp32_softmax: bool = True
    """Whether its softmax is in fp32, whatever the scores are; of BERT's and GPT-2's only under autocast."""
    is_concatenated: bool = False
    """Whether queries lie head by head, as `torch.cat` leaves them: what comes of them is copied."""

    @property
    def num_tokens(self) -> int:
        """Tokens."""
        return self.batch_size * self.sequence_length

    @property
    def numel(self) -> int:
        """Those of all queries."""
        return self.num_tokens * self.num_heads * self.head_dim


def attention(
    tape: Tape,
    kind: str,
    heads: Heads,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    capped: bool = False,
) -> Tensor:
    """The output of attention, of these queries, keys and values; `capped`: its scores go through a tanh."""
    itemsize = 2 if tape.autocast else tape.itemsize
    if kind == "eager":
        return _eager_attention(tape, heads, query, key, value, itemsize, capped)
    more: list[Tensor] = []
    if mask is not None:  # it is there as numbers too, and keys and values as often as queries
        if heads.num_kv_heads > 1:  # one alone is only seen as often
            key, value = _repeat_kv(tape, heads, key), _repeat_kv(tape, heads, value)
        more = [
            tape.op(
                [mask],
                tape.tensor(heads.batch_size * heads.sequence_length**2, itemsize, requires_grad=False),
            )
        ]
    query, key, value = (cast(tape, x, itemsize) for x in (query, key, value))
    rows = tape.tensor(heads.num_tokens * heads.num_heads, 4, requires_grad=False)
    tape.op([], rows)
    made = tape.tensor(heads.numel, itemsize)
    tape.op([query, key, value, rows, *more], made, [query, key, value, rows, made, *more])
    if heads.is_concatenated:
        made = tape.op([made], tape.tensor(made.numel, itemsize))
    return made


def _repeat_kv(tape: Tape, heads: Heads, x: Tensor) -> Tensor:
    """`repeat_kv`: heads of keys or values that many queries share, once for each."""
    if heads.num_kv_heads == heads.num_heads:
        return x
    return tape.op([x], tape.tensor(heads.numel, x.itemsize))


def rotate(tape: Tape, query: Tensor, key: Tensor, wide: bool = False) -> tuple[Tensor, Tensor]:
    """Queries and keys with their positions; cos and sin have the type of the residual stream, or fp32."""
    if not wide:
        return rotary(tape, query, tape.itemsize), rotary(tape, key, tape.itemsize)
    turned = rotary(tape, query, 4), rotary(tape, key, 4)
    return cast(tape, turned[0], query.itemsize), cast(tape, turned[1], key.itemsize)


def rotate_fused(tape: Tape, heads: Heads, joint: Tensor, turned: int) -> tuple[Tensor, Tensor, Tensor]:
    """The same of slices of one tensor: a part of each head is turned, the whole put together anew.

    The values stay a slice of it.
    """
    itemsize, found = tape.itemsize, []
    for count in (heads.num_heads, heads.num_kv_heads):
        own = heads.num_tokens * count * turned
        straight = tape.op([], tape.tensor(own, itemsize))
        half = tape.tensor(own, joint.itemsize)
        tape.op([joint], half, temporary=half.bytes // 2, backward_temporary=half.bytes)
        other = tape.op([half], tape.tensor(own, itemsize))
        part = tape.op([straight, other], tape.tensor(own, itemsize), passes_grad_through=True)
        found.append(
            tape.op(
                [part],
                tape.tensor(heads.num_tokens * count * heads.head_dim, itemsize),
                passes_grad_through=True,
            )
        )
    return found[0], found[1], joint


def _eager_attention(
    tape: Tape, heads: Heads, query: Tensor, key: Tensor, value: Tensor, itemsize: int, capped: bool
) -> Tensor:
    """`eager_attention_forward`: a square of the length for each head, in fp32 and once more."""
    count = heads.batch_size * heads.num_heads * heads.sequence_length**2
    key, value = _repeat_kv(tape, heads, key), _repeat_kv(tape, heads, value)
    query, key, value = (cast(tape, x, itemsize) for x in (query, key, value))
    scores = tape.op([query, key], tape.tensor(count, itemsize), [query, key])
    scaled = tape.op([scores], tape.tensor(count, itemsize))
    if capped:
        curve = tape.tensor(count, itemsize)
        tape.op([tape.op([scaled], tape.tensor(count, itemsize))], curve, [curve])
        scaled = tape.op([curve], tape.tensor(count, itemsize))
    masked = (
        scaled
        if heads.has_no_mask
        else tape.op([scaled], tape.tensor(count, itemsize), passes_grad_through=True)
    )
    full = tape.tensor(count, 4 if heads.fp32_softmax or tape.autocast else itemsize)
    copy = 4 * count if itemsize != full.itemsize else 0  # ATen's `softmax` casts first
    tape.op([masked], full, [full], temporary=copy)
    narrow = dropout(tape, cast(tape, full, itemsize), heads.dropout)
    mixed = tape.op([narrow, value], tape.tensor(query.numel, itemsize), [narrow, value])
    return tape.op([mixed], tape.tensor(query.numel, itemsize))


# Masks of attention: what `masking_utils.py` of Transformers makes once for all layers of a kind.


class AttentionMasks:
    """Those of a model: of numbers step by step (`eager`), else only where a window is shorter than all."""

    def __init__(self, tape: Tape, arch: Architecture, batch: MicroBatch) -> None:
        self.tape, self.sliding_layers = tape, frozenset(arch.sliding_layers)
        self.full: Tensor | None = None
        self.sliding: Tensor | None = None
        square = batch.sequence_length**2
        if batch.attn_implementation == "eager":
            made = [
                self._make(batch.micro_batch_size * square, tape.itemsize)
                for _ in range(arch.variant.num_masks)
            ]
            self.full, self.sliding = made[0], made[-1]
        elif (
            batch.attn_implementation == "sdpa"
            and self.sliding_layers
            and batch.sequence_length >= arch.sliding_window
        ):
            self.sliding = self._make(square, 1)

    def _make(self, count: int, itemsize: int) -> Tensor:
        return self.tape.op([], self.tape.tensor(count, itemsize, requires_grad=False))

    def for_layer(self, layer: int) -> Tensor | None:
        """That of a layer."""
        return self.sliding if layer in self.sliding_layers else self.full

    def release(self) -> None:
        """The model is through."""
        there = {found: None for found in (self.full, self.sliding) if found is not None}
        if there:
            self.tape.keep_alive(*there)


# The end of a language model: logits and their loss, in fp32 (Transformers' `ForCausalLMLoss`).

LOGITS = "logits and loss"


def lm_head(tape: Tape, words: Module, arch: Architecture) -> Module:
    """The projection onto the vocabulary, whose weight may be the table of words."""
    own = () if arch.tie_word_embeddings else ((arch.vocab_size // arch.lm_head_shards, arch.hidden_size),)
    head = tape.module("lm_head", *own, casts=True)
    if arch.tie_word_embeddings:
        head.weights = words.weights
        tape.untied_numel = arch.vocab_size * arch.hidden_size
    return head


def embed(tape: Tape, table: Module, count: int, batch: MicroBatch, scaled: bool = False) -> Tensor:
    """Words by their table; multiplied by the root of the width in Gemma."""
    with tape.scope(table):
        x = tape.op([], tape.tensor(count), weights=table.weights)
        if scaled:
            x = tape.op([x], tape.tensor(count))
        if batch.needs_input_grad:
            tape.enable_input_grad(x)
    return x


def language_loss(
    tape: Tape,
    head: Module,
    weights: Sequence[Weight],
    x: Tensor,
    rows: int,
    vocabulary: int,
    parts: int = 1,
    capped: bool = False,
) -> None:
    """The projection onto the vocabulary and the cross entropy of it; `parts`: ranks that share it.

    `capped`: logits are divided, go through a tanh, and are multiplied (Gemma).
    """
    itemsize = 2 if tape.autocast else tape.itemsize
    hidden = x
    with tape.scope(head):
        x = cast(tape, x, itemsize)
        logits = tape.tensor(rows * vocabulary // parts, itemsize, label=LOGITS)
        tape.op([x], logits, saved_inputs(tape, x, weights), weights)
        if parts > 1:  # gathered side by side, then put together (`GatherFromTensorParallelRegion`)
            whole = tape.tensor(rows * vocabulary, itemsize, label=LOGITS)
            logits = tape.op([logits], whole, temporary=whole.bytes)
    if capped:
        count, curve = logits.numel, tape.tensor(logits.numel, itemsize, label=LOGITS)
        tape.op([tape.op([logits], tape.tensor(count, itemsize, label=LOGITS))], curve, [curve])
        logits = tape.op([curve], tape.tensor(count, itemsize, label=LOGITS))
    cross_entropy(tape, hidden, logits, rows)


def cross_entropy(tape: Tape, hidden: Tensor, logits: Tensor, rows: int) -> None:
    """The mean over all rows; what the model made, and the logits, have names in Python until it is there."""
    full = logits
    if logits.itemsize != 4:
        full = tape.op([logits], tape.tensor(logits.numel, 4, label=LOGITS))
    labels = tape.tensor(rows, 8, requires_grad=False)
    tape.op([], labels)
    odds = tape.tensor(logits.numel, 4, label=LOGITS)
    tape.op([full], odds, [odds])
    loss = tape.tensor(1, 4)
    tape.op([odds, labels], loss, [odds, labels])
    tape.keep_alive(hidden, logits, *([full] if full is not logits else []))
    tape.op([loss], tape.tensor(1, 4), passes_grad_through=True)


def loss_in_logits_dtype(tape: Tape, logits: Tensor) -> None:
    """The mean over all rows, in the type of the logits; autocast computes it in fp32."""
    full = to_fp32_under_autocast(tape, logits)
    odds = tape.tensor(full.numel, full.itemsize, label=LOGITS)
    tape.op([full], odds, [odds])
    loss = tape.tensor(1, full.itemsize)
    tape.op([odds], loss, [odds])
    tape.keep_alive(logits)
    tape.op([loss], tape.tensor(1, 4), passes_grad_through=True)
