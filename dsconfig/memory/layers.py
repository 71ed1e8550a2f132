"""Layers of transformer models as autograd operations: linear, norms, attention, masks, and the loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dsconfig.memory.graph import Adapted, Module, Tape, Tensor, Weight
from dsconfig.memory.models.shape import Shape, Work

# The layers that models are made of, as operations of autograd (Transformers' and torch's own code).


def cast(tape: Tape, x: Tensor, width: int) -> Tensor:
    """`x.to(dtype)`: nothing where it has the type."""
    if x.width == width:
        return x
    return tape.step([x], tape.tensor(x.elements, width, x.needs))


def widened(tape: Tape, x: Tensor) -> Tensor:
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
    if module.adapted is not None:
        return _adapted(tape, module, module.adapted, x, rows, out)
    with tape.inside(module, x):
        width = 2 if tape.autocast else 4 if module.weights[0].full else tape.width
        x = cast(tape, x, width)
        made = tape.tensor(rows * out, width, label=label)
        own = tape.keeps_inputs and module.weights[0].linear and len(module.weights) > 1
        # a bias in fp32 is added in place: on a CPU alone TensorIterator casts both sides first
        both = 8 * made.elements if own and tape.on_cpu and width < tape.width and not flat else 0
        return tape.step([x], made, kept(tape, x, module.weights), module.weights, both)


def kept(tape: Tape, x: Tensor, weights: Sequence[Weight]) -> list[Tensor]:
    """What a product keeps of its input: nothing where the weights do not train."""
    own = tape.keeps_inputs and weights[0].linear
    return [x] if own or any(weight.trains for weight in weights) else []


def _adapted(tape: Tape, module: Module, parts: Adapted, x: Tensor, rows: int, out: int) -> Tensor:
    """PEFT's `Linear.forward`: the layer, and beside it two narrow ones, scaled."""
    assert tape.adapter is not None
    with tape.inside(module, x):
        straight = linear(tape, parts.base, x, rows, out)
        y = cast(tape, x, 4) if tape.adapter.full else x
        with tape.inside(parts.dropout):
            y = dropout(tape, y, tape.adapter.dropout)
        narrow = linear(tape, parts.first, y, rows, tape.adapter.rank)
        wide = linear(tape, parts.second, narrow, rows, out)
        scaled = tape.step([wide], tape.tensor(wide.elements, wide.width))
        return cast(tape, add(tape, straight, scaled), straight.width)


def add(tape: Tape, x: Tensor, y: Tensor) -> Tensor:
    """A residual: both get the gradient as it is; where types differ a CPU casts the narrow one first."""
    same, width = x.width == y.width, max(x.width, y.width)
    cast_first = 0 if same or not tape.on_cpu else width * x.elements
    return tape.step([x, y], tape.tensor(x.elements, width), temporary=cast_first, shares=same)


def multiply(tape: Tape, x: Tensor, y: Tensor) -> Tensor:
    """Two tensors, each kept for the other's gradient."""
    return tape.step([x, y], tape.tensor(x.elements, max(x.width, y.width)), [x, y])


def activation(tape: Tape, module: Module | None, x: Tensor) -> Tensor:
    """A function of each element that keeps its input."""
    if module is None:
        return tape.step([x], tape.tensor(x.elements, x.width), [x])
    with tape.inside(module, x):
        return tape.step([x], tape.tensor(x.elements, x.width), [x])


def relu(tape: Tape, module: Module, x: Tensor) -> Tensor:
    """A function whose gradient is computed from what it makes."""
    with tape.inside(module, x):
        made = tape.tensor(x.elements, x.width)
        return tape.step([x], made, [made])


def gated_halves(tape: Tape, module: Module, both: Tensor) -> Tensor:
    """A function of one half of a tensor, times the other half: their gradients are put together at last."""
    count = both.elements // 2
    with tape.inside(module):
        gate = tape.step([both], tape.tensor(count, both.width), [both])
    return tape.step([gate], tape.tensor(count, both.width), [gate, both], back=gate.bytes)


def gelu_new(tape: Tape, module: Module, x: Tensor) -> Tensor:
    """`NewGELUActivation`: seven operations, of which the products and the power keep what they read."""
    count = x.elements
    with tape.inside(module, x):
        half = tape.step([x], tape.tensor(count, x.width))
        full = widened(tape, x)
        width = full.width  # of all that follows: the power decides
        cube = tape.step([full], tape.tensor(count, width), [full], back=2 * count * width)
        scaled = tape.step([cube], tape.tensor(count, width))
        total = tape.step([x, scaled], tape.tensor(count, width), shares=x.width == width)
        inner = tape.step([total], tape.tensor(count, width))
        curve = tape.tensor(count, width)
        tape.step([inner], curve, [curve])
        one = tape.step([curve], tape.tensor(count, width), shares=True)
        return multiply(tape, half, one)


def rms_norm(tape: Tape, module: Module, x: Tensor, rows: int, kind: str = "narrow") -> Tensor:
    """`LlamaRMSNorm`: computed in fp32, with one reciprocal root a row.

    `kind`: its weight is multiplied in the type of the input (Llama), in fp32 (OLMo 2), or in fp32 after
    1 is added to it (Gemma).
    """
    width, count = x.width, x.elements
    with tape.inside(module, x):
        full = cast(tape, x, 4)
        square = tape.step([full], tape.tensor(count, 4), [full], back=2 * 4 * count)
        mean = tape.step([square], tape.tensor(rows, 4))
        root = tape.tensor(rows, 4)
        tape.step([mean], root, [root])
        normal = tape.step([full, root], tape.tensor(count, 4), [full, root], back=4 * count)
        if kind == "narrow":
            normal = cast(tape, normal, width)
        trains = any(weight.trains for weight in module.weights)
        saved, back = ([normal], normal.bytes) if trains else ([], 0)
        made = tape.tensor(count, 4 if kind != "narrow" else max(width, tape.width))
        if kind == "added":
            scale = tape.tensor(module.weights[0].elements, 4)
            tape.step([], scale, weights=module.weights)
            tape.step([normal, scale], made, [*saved, scale], back=back)
        else:
            tape.step([normal], made, saved, module.weights, back=back)
        return made if kind == "narrow" else cast(tape, made, width)


def layer_norm(tape: Tape, module: Module, x: Tensor, rows: int) -> Tensor:
    """`nn.LayerNorm`: keeps its input, and mean and root of each row."""
    with tape.inside(module, x):
        x = widened(tape, x)
        made = tape.tensor(x.elements, x.width)
        sums = tape.tensor(2 * rows, x.width, needs=False)
        tape.step([], sums)
        return tape.step([x, sums], made, [x, sums], module.weights)


def dropout(tape: Tape, x: Tensor, rate: float) -> Tensor:
    """A mask of a byte an element is kept."""
    if not rate:
        return x
    mask = tape.tensor(x.elements, 1, needs=False)
    tape.step([], mask)
    return tape.step([x, mask], tape.tensor(x.elements, x.width), [mask])


def rotary(tape: Tape, x: Tensor, width: int) -> Tensor:
    """`apply_rotary_pos_emb` on queries or keys: nothing is kept, for cos and sin need no gradient."""
    count = x.elements
    straight = tape.step([x], tape.tensor(count, width))
    half = tape.step([x], tape.tensor(count, x.width), temporary=count // 2 * x.width, back=count * x.width)
    turned = tape.step([half], tape.tensor(count, width))
    return tape.step([straight, turned], tape.tensor(count, width), shares=True)


# Attention: one fused operation, or the products and the softmax one by one.


class Heads(NamedTuple):
    """Query heads, key and value heads, elements of each; batch and length of a sequence."""

    queries: int
    keys: int
    size: int
    batch: int
    length: int
    dropout: float = 0.0
    """The rate at which attention step by step leaves something out."""
    bare: bool = False
    """Whether attention step by step has no mask (BERT)."""
    upcast: bool = True
    """Whether its softmax is in fp32, whatever the scores are; of BERT's and GPT-2's only under autocast."""
    apart: bool = False
    """Whether queries lie head by head, as `torch.cat` leaves them: what comes of them is copied."""

    @property
    def rows(self) -> int:
        """Tokens."""
        return self.batch * self.length

    @property
    def elements(self) -> int:
        """Those of all queries."""
        return self.rows * self.queries * self.size


def attend(
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
    width = 2 if tape.autocast else tape.width
    if kind == "eager":
        return _eager(tape, heads, query, key, value, width, capped)
    more: list[Tensor] = []
    if mask is not None:  # it is there as numbers too, and keys and values as often as queries
        if heads.keys > 1:  # one alone is only seen as often
            key, value = _repeated(tape, heads, key), _repeated(tape, heads, value)
        more = [tape.step([mask], tape.tensor(heads.batch * heads.length**2, width, needs=False))]
    query, key, value = (cast(tape, x, width) for x in (query, key, value))
    rows = tape.tensor(heads.rows * heads.queries, 4, needs=False)
    tape.step([], rows)
    made = tape.tensor(heads.elements, width)
    tape.step([query, key, value, rows, *more], made, [query, key, value, rows, made, *more])
    if heads.apart:
        made = tape.step([made], tape.tensor(made.elements, width))
    return made


def _repeated(tape: Tape, heads: Heads, x: Tensor) -> Tensor:
    """`repeat_kv`: heads of keys or values that many queries share, once for each."""
    if heads.keys == heads.queries:
        return x
    return tape.step([x], tape.tensor(heads.elements, x.width))


def turn(tape: Tape, query: Tensor, key: Tensor, wide: bool = False) -> tuple[Tensor, Tensor]:
    """Queries and keys with their positions; cos and sin have the type of the residual stream, or fp32."""
    if not wide:
        return rotary(tape, query, tape.width), rotary(tape, key, tape.width)
    turned = rotary(tape, query, 4), rotary(tape, key, 4)
    return cast(tape, turned[0], query.width), cast(tape, turned[1], key.width)


def turn_joined(tape: Tape, heads: Heads, joint: Tensor, turned: int) -> tuple[Tensor, Tensor, Tensor]:
    """The same of slices of one tensor: a part of each head is turned, the whole put together anew.

    The values stay a slice of it.
    """
    width, found = tape.width, []
    for count in (heads.queries, heads.keys):
        own = heads.rows * count * turned
        straight = tape.step([], tape.tensor(own, width))
        half = tape.tensor(own, joint.width)
        tape.step([joint], half, temporary=half.bytes // 2, back=half.bytes)
        other = tape.step([half], tape.tensor(own, width))
        part = tape.step([straight, other], tape.tensor(own, width), shares=True)
        found.append(tape.step([part], tape.tensor(heads.rows * count * heads.size, width), shares=True))
    return found[0], found[1], joint


def _eager(
    tape: Tape, heads: Heads, query: Tensor, key: Tensor, value: Tensor, width: int, capped: bool
) -> Tensor:
    """`eager_attention_forward`: a square of the length for each head, in fp32 and once more."""
    count = heads.batch * heads.queries * heads.length**2
    key, value = _repeated(tape, heads, key), _repeated(tape, heads, value)
    query, key, value = (cast(tape, x, width) for x in (query, key, value))
    scores = tape.step([query, key], tape.tensor(count, width), [query, key])
    scaled = tape.step([scores], tape.tensor(count, width))
    if capped:
        curve = tape.tensor(count, width)
        tape.step([tape.step([scaled], tape.tensor(count, width))], curve, [curve])
        scaled = tape.step([curve], tape.tensor(count, width))
    masked = scaled if heads.bare else tape.step([scaled], tape.tensor(count, width), shares=True)
    full = tape.tensor(count, 4 if heads.upcast or tape.autocast else width)
    copy = 4 * count if width != full.width else 0  # ATen's `softmax` casts first
    tape.step([masked], full, [full], temporary=copy)
    narrow = dropout(tape, cast(tape, full, width), heads.dropout)
    mixed = tape.step([narrow, value], tape.tensor(query.elements, width), [narrow, value])
    return tape.step([mixed], tape.tensor(query.elements, width))


# Masks of attention: what `masking_utils.py` of Transformers makes once for all layers of a kind.


class Masks:
    """Those of a model: of numbers step by step (`eager`), else only where a window is shorter than all."""

    def __init__(self, tape: Tape, shape: Shape, work: Work) -> None:
        self.tape, self.windowed = tape, frozenset(shape.windowed)
        self.full: Tensor | None = None
        self.sliding: Tensor | None = None
        square = work.length**2
        if work.attention == "eager":
            made = [self._make(work.micro * square, tape.width) for _ in range(shape.style.masks)]
            self.full, self.sliding = made[0], made[-1]
        elif work.attention == "sdpa" and self.windowed and work.length >= shape.window:
            self.sliding = self._make(square, 1)

    def _make(self, count: int, width: int) -> Tensor:
        return self.tape.step([], self.tape.tensor(count, width, needs=False))

    def of(self, layer: int) -> Tensor | None:
        """That of a layer."""
        return self.sliding if layer in self.windowed else self.full

    def drop(self) -> None:
        """The model is through."""
        there = {found: None for found in (self.full, self.sliding) if found is not None}
        if there:
            self.tape.hold(*there)


# The end of a language model: logits and their loss, in fp32 (Transformers' `ForCausalLMLoss`).

LOGITS = "logits and loss"


def head_of(tape: Tape, words: Module, shape: Shape) -> Module:
    """The projection onto the vocabulary, whose weight may be the table of words."""
    own = () if shape.tied else ((shape.vocabulary // shape.parts, shape.hidden),)
    head = tape.module("lm_head", *own, casts=True)
    if shape.tied:
        head.weights = words.weights
        tape.untied = shape.vocabulary * shape.hidden
    return head


def embedded(tape: Tape, table: Module, count: int, work: Work, scaled: bool = False) -> Tensor:
    """Words by their table; multiplied by the root of the width in Gemma."""
    with tape.inside(table):
        x = tape.step([], tape.tensor(count), weights=table.weights)
        if scaled:
            x = tape.step([x], tape.tensor(count))
        if work.starts_gradients:
            tape.start(x)
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
    width = 2 if tape.autocast else tape.width
    hidden = x
    with tape.inside(head):
        x = cast(tape, x, width)
        logits = tape.tensor(rows * vocabulary // parts, width, label=LOGITS)
        tape.step([x], logits, kept(tape, x, weights), weights)
        if parts > 1:  # gathered side by side, then put together (`GatherFromTensorParallelRegion`)
            whole = tape.tensor(rows * vocabulary, width, label=LOGITS)
            logits = tape.step([logits], whole, temporary=whole.bytes)
    if capped:
        count, curve = logits.elements, tape.tensor(logits.elements, width, label=LOGITS)
        tape.step([tape.step([logits], tape.tensor(count, width, label=LOGITS))], curve, [curve])
        logits = tape.step([curve], tape.tensor(count, width, label=LOGITS))
    cross_entropy(tape, hidden, logits, rows)


def cross_entropy(tape: Tape, hidden: Tensor, logits: Tensor, rows: int) -> None:
    """The mean over all rows; what the model made, and the logits, have names in Python until it is there."""
    full = logits
    if logits.width != 4:
        full = tape.step([logits], tape.tensor(logits.elements, 4, label=LOGITS))
    labels = tape.tensor(rows, 8, needs=False)
    tape.step([], labels)
    odds = tape.tensor(logits.elements, 4, label=LOGITS)
    tape.step([full], odds, [odds])
    loss = tape.tensor(1, 4)
    tape.step([odds, labels], loss, [odds, labels])
    tape.hold(hidden, logits, *([full] if full is not logits else []))
    tape.step([loss], tape.tensor(1, 4), shares=True)


def masked_loss(tape: Tape, logits: Tensor) -> None:
    """The mean over all rows, in the type of the logits; autocast computes it in fp32."""
    full = widened(tape, logits)
    odds = tape.tensor(full.elements, full.width, label=LOGITS)
    tape.step([full], odds, [odds])
    loss = tape.tensor(1, full.width)
    tape.step([odds], loss, [odds])
    tape.hold(logits)
    tape.step([loss], tape.tensor(1, 4), shares=True)
