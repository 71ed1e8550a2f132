"""The layers that models are made of, as operations of autograd (Transformers' and torch's own code)."""

from __future__ import annotations

from collections.abc import Sequence

from dsconfig.memory.graph import Adapted, Module, Tape, Tensor, Weight


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
