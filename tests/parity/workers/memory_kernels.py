"""What quantises on GPUs: functions that allocate the same tensors."""

import types
from typing import Any

import torch


def stand_in() -> None:
    """Put them in the place of the kernels."""
    import deepspeed.ops.op_builder

    def quantize(values: Any, groups: int, bits: int, _: Any) -> tuple[Any, Any]:
        return torch.empty(values.numel() * bits // 8, dtype=torch.int8), torch.empty(groups)

    def dequantize(values: Any, _: Any, __: int, bits: int, ___: Any) -> Any:
        made = torch.zeros(values.numel() * 8 // bits, dtype=torch.half)
        return made.view(values.shape) if bits == 8 else made

    def swizzle(values: Any, groups: int, bits: int, *_: Any) -> tuple[Any, Any]:
        return torch.empty(values.numel() * bits // 8, dtype=torch.int8), torch.empty(groups, 1)

    def reduction(values: Any, _: Any, __: int, groups: int, ___: int, ____: Any, ranks: int) -> Any:
        return torch.empty(values.numel() // ranks, dtype=torch.int8), torch.empty(groups, 1)

    own = {"quantize": quantize, "dequantize": dequantize}
    own |= {"swizzle_quant": swizzle, "quantized_reduction": reduction}
    kernels = types.SimpleNamespace(Symmetric=0, **own)
    deepspeed.ops.op_builder.QuantizerBuilder = lambda: types.SimpleNamespace(load=lambda: kernels)
