"""What DeepSpeed moves to NVMe, without its compiled kernels for asynchronous I/O.

`StandIn` has the methods of `aio_handle` (csrc/aio) that `runtime/swap_tensor` calls. Buffers that the
kernels lock in memory come from torch here, so that its profiler sees them; files are kept as bytes. With
the kernels themselves an engine holds the same: their buffers are as long, and are outside of torch.
"""

import types
import weakref
from typing import Any

import torch

FILES: dict[str, bytes] = {}
LOCKED: list[torch.Tensor] = []
PINNED: list[weakref.ref[torch.Tensor]] = []


class StandIn:
    """One handle; each operation is over when it is called."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.begun = 0

    def new_cpu_locked_tensor(self, count: int, example: torch.Tensor) -> torch.Tensor:
        """A buffer as long as the kernels' own."""
        LOCKED.append(torch.empty(int(count), dtype=example.dtype))
        return LOCKED[-1]

    def free_cpu_locked_tensor(self, tensor: torch.Tensor) -> bool:
        """Forget a buffer."""
        place = tensor.untyped_storage().data_ptr()
        LOCKED[:] = [found for found in LOCKED if found.untyped_storage().data_ptr() != place]
        return True

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Whether it lies in a buffer."""
        place = tensor.untyped_storage().data_ptr()
        there = [*LOCKED, *(tensor for found in PINNED if (tensor := found()) is not None)]
        return any(found.untyped_storage().data_ptr() == place for found in there)

    def async_pwrite(self, tensor: torch.Tensor, path: str, _: int = 0) -> int:
        """Write."""
        FILES[path] = tensor.detach().contiguous().view(torch.uint8).numpy().tobytes()
        self.begun += 1
        return 0

    def async_pread(self, tensor: torch.Tensor, path: str, _: int = 0) -> int:
        """Read as much as was written, and as there is room for; what was never written reads as zeros."""
        into = tensor.detach().view(torch.uint8).numpy()
        found = FILES.get(path, b"")[: into.nbytes]
        into[: len(found)] = bytearray(found)
        into[len(found) :] = 0
        self.begun += 1
        return 0

    def wait(self) -> int:
        """How many operations were begun since the last wait."""
        begun, self.begun = self.begun, 0
        return begun


def pinned(tensor: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    """The same, and known as pinned."""
    PINNED.append(weakref.ref(tensor))
    return tensor


def on_host(function: Any) -> Any:
    """Mark what makes buffers on the host."""

    def inner(*args: Any, **named: Any) -> Any:
        with torch.profiler.record_function("MARK swap buffers"):
            return function(*args, **named)

    return inner


def stand_in() -> None:
    """Let every release swap with `StandIn`."""
    import deepspeed.ops.op_builder
    from deepspeed.runtime.swap_tensor.partitioned_param_swapper import AsyncPartitionedParameterSwapper
    from deepspeed.runtime.swap_tensor.utils import SwapBufferManager

    for kind, name in ((AsyncPartitionedParameterSwapper, "_configure_aio"), (SwapBufferManager, "__init__")):
        setattr(kind, name, on_host(getattr(kind, name)))
    accelerator = deepspeed.accelerator.get_accelerator()
    accelerator.pin_memory = pinned  # before 0.19 buffers are pinned by it, which a CPU's does not do
    accelerator.is_pinned = StandIn().is_pinned
    kernels = types.SimpleNamespace(aio_handle=StandIn)
    builder = deepspeed.ops.op_builder.AsyncIOBuilder
    builder.load = lambda self, *_, **__: kernels
    builder.is_compatible = lambda self, *_, **__: True
