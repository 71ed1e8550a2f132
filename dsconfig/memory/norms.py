"""Norms as autograd operations, with the tensors that each Transformers implementation computes and saves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.memory.layers import cast_tensor, to_fp32_under_autocast

if TYPE_CHECKING:
    from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape, Module

LAYER_NORMS = ("layer", "layer_unbiased", "layer_1p", "layer_unweighted")
"""Norms that run as one operation, `torch.nn.functional.layer_norm`."""


def normalize(
    tape: ForwardTape, module: Module, x: ActivationTensor, rows: int, kind: str = "llama"
) -> ActivationTensor:
    """Record the normalization of `rows` vectors.

    `kind`: an RMS norm whose weight is multiplied in the input's dtype (`llama`), in fp32 (`olmo2`), or in fp32 after
    adding 1 (`gemma`); a layer norm (`layer`), without a bias (`layer_unbiased`), with a weight to which 1 is added
    (`layer_1p`), in fp32 without a weight (`layer_unweighted`), or computed step by step in fp32 (`layer_fp32`).
    """
    if kind in LAYER_NORMS:
        return layer_norm(tape, module, x, rows, kind)
    if kind == "layer_fp32":
        return _layer_norm_fp32(tape, module, x, rows)
    return rms_norm(tape, module, x, rows, kind)


def norm_weights(kind: str, *sizes: int | tuple[int, ...]) -> tuple[int | tuple[int, ...], ...]:
    """Return the shapes of a norm's parameters, which are a weight and, for some layer norms, a bias."""
    if kind == "layer_unweighted":
        return ()
    return sizes * 2 if kind in ("layer", "layer_1p") else sizes


def rms_norm(
    tape: ForwardTape, module: Module, x: ActivationTensor, rows: int, style: str = "llama"
) -> ActivationTensor:
    """Record `LlamaRMSNorm`, which computes in fp32 with one reciprocal root per token.

    `style`: the weight is multiplied in the input's dtype (`llama`), in fp32 (`olmo2`), or in fp32 after
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

    `kind`: Nemotron adds 1 to the weight first (`layer_1p`), and OLMo computes in fp32 (`layer_unweighted`).
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
