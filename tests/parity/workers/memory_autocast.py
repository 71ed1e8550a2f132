"""Autocast as GPUs have it, on a CPU: what CUDA computes in fp32 is computed in fp32 here too.

The two lists are in `aten/src/ATen/autocast_mode.h`: `AT_FORALL_FP32` and `AT_FORALL_FP32_SET_OPT_DTYPE` are
CUDA's. A CPU's own list has no powers, norms or softmax, so that they stay in half precision there.
"""

from collections.abc import Callable
from typing import Any

import torch

FULL = (
    "acos",
    "asin",
    "cosh",
    "erfinv",
    "exp",
    "expm1",
    "log",
    "log10",
    "log1p",
    "log2",
    "reciprocal",
    "rsqrt",
    "sinh",
    "tan",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "pow.Scalar",
    "softplus",
    "layer_norm",
    "native_layer_norm",
    "group_norm",
    "logsumexp",
)
"""Computed in fp32, whatever they are given."""
TYPED = ("softmax.int", "log_softmax.int", "cumsum", "cumprod", "sum", "sum.dim_IntList")
"""Computed in fp32 where the caller asks for no type."""
LIBRARY: list[torch.library.Library] = []
"""What is registered lasts as long as this."""


def stand_in() -> None:
    """Register CUDA's kernels under the key of a CPU."""
    library = torch.library.Library("aten", "IMPL", "AutocastCPU")
    LIBRARY.append(library)
    for names, kernel in ((FULL, widened), (TYPED, typed)):
        for name in names:
            if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "AutocastCPU"):
                library.impl(name, kernel(operation(name)))


def operation(name: str) -> Callable[..., Any]:
    """The overload of this name."""
    packet, _, overload = name.partition(".")
    found: Callable[..., Any] = getattr(getattr(torch.ops.aten, packet), overload or "default")
    return found


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of fp32 (`CastPolicy::fp32`)."""

    def inner(*args: Any, **named: Any) -> Any:
        with without_autocast():
            return function(*map(full, args), **{name: full(value) for name, value in named.items()})

    return inner


def typed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a `dtype` (`CastPolicy::fp32_set_opt_dtype`)."""

    def inner(*args: Any, **named: Any) -> Any:
        said = any(isinstance(value, torch.dtype) for value in (*args, *named.values()))
        more = {} if said or not is_half(args[0]) else {"dtype": torch.float32}
        with without_autocast():
            return function(*args, **named | more)

    return inner


def without_autocast() -> Any:
    """What is called in this block is not looked at again."""
    return torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU))


def is_half(value: Any) -> bool:
    """Whether autocast would give it another type."""
    return isinstance(value, torch.Tensor) and value.dtype in (torch.bfloat16, torch.float16)


def full(value: Any) -> Any:
    """A tensor in fp32."""
    return value.float() if is_half(value) else value
