"""What AutoEP needs of a GPU, in functions that allocate the same tensors on a CPU."""

import sys
from typing import Any

import torch


class Swiglu(torch.autograd.Function):
    """`swiglu_triton`: keeps both of its inputs, and makes their gradients at once."""

    @staticmethod
    def forward(ctx: Any, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gate, up)
        return torch.zeros_like(gate)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        gate, up = ctx.saved_tensors
        return torch.zeros_like(gate), torch.zeros_like(up)


def gather_rows(rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """`ep_kernels.gather_rows`."""
    return torch.zeros((index.numel(), rows.shape[1]), dtype=rows.dtype)


def stand_in() -> None:
    """Put them in the place of kernels, and let AutoEP read the registry of newer Transformers."""
    try:
        from deepspeed.moe import ep_kernels
        from deepspeed.ops.triton_ops import swiglu_triton
    except ImportError:  # releases before AutoEP
        return
    ep_kernels.gather_rows = gather_rows
    ep_kernels.permute_rows_supported = lambda rows: rows.dim() == 2
    swiglu_triton.swiglu = Swiglu.apply
    capturing = sys.modules.get("transformers.utils.output_capturing")
    registry = getattr(capturing, "_CanRecordRegistry", None)
    if registry is not None:  # of Transformers 5.20 or so on: AutoEP asks it as the dict that it was
        registry.get = lambda self, key, *default: (
            dict.get(self, key, *default) if default else dict.get(self, str(key.__class__)) or {}
        )
