"""What an engine starts in a process of its own runs in the same one here, so that the recording shows it.

What the two say to each other goes through DeepSpeed's own queues and torch's shared memory all the same.
"""

import contextlib
import importlib
import multiprocessing
import types
from collections.abc import Callable
from typing import Any

import torch

HOST = "MARK on host"
"""The name of blocks of the recording that an engine on GPUs has on its host."""


class Worker:
    """As much of a process as DeepSpeed asks of one: it runs while nobody else does, until it waits."""

    pid = None

    def __init__(self, target: Callable[..., None], args: tuple[Any, ...] = (), daemon: bool = True) -> None:
        import greenlet

        self.line = greenlet.greenlet(lambda: target(*args))

    def start(self) -> None:
        with torch.profiler.record_function(HOST):
            self.line.switch()

    def is_alive(self) -> bool:
        return not self.line.dead


SPAWN = multiprocessing.get_context("spawn")


class Queue:
    """A queue between processes; what is put there moves to shared memory."""

    def __init__(self) -> None:
        self.inner = SPAWN.SimpleQueue()
        self.waiting: Any = None

    def put(self, value: Any) -> None:
        with torch.profiler.record_function(HOST):
            self.inner.put(value)
            if self.waiting:
                self.waiting.switch()

    def get(self) -> Any:
        if self.inner.empty():
            import greenlet

            self.waiting = greenlet.getcurrent()
            self.waiting.parent.switch()
            self.waiting = None
        return self.inner.get()

    def empty(self) -> bool:
        return self.inner.empty()


class Torch(types.ModuleType):
    """torch for a module that asks for what a CPU has not: pinned memory, and CUDA."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(torch, name)
        return tame(found) if name in ("empty", "zeros", "tensor") else found


def tame(function: Any) -> Any:
    """The same, on the only device that there is."""

    def inner(*args: Any, **named: Any) -> Any:
        named.pop("pin_memory", None)
        if str(named.get("device", "")).startswith("cuda"):
            named["device"] = "cpu"
        return function(*args, **named)

    return inner


class Accelerator:
    """The CPU for a module that waits for a stream."""

    def __init__(self) -> None:
        import deepspeed.accelerator

        self.real = deepspeed.accelerator.get_accelerator()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def current_stream(self, *_: Any) -> Any:
        return types.SimpleNamespace(synchronize=lambda: None)


def stand_in_for_adam() -> None:
    """Adam's kernels of the host work in place and allocate nothing: nothing is compiled for them."""
    names = ("create_adam", "destroy_adam", "adam_update", "adam_rollback", "adam_update_copy")
    kernels = types.SimpleNamespace(**dict.fromkeys(names, lambda *_: None))
    builder = types.SimpleNamespace(load=lambda: kernels)
    for module in ("deepspeed.ops.op_builder", "deepspeed.ops.adam.cpu_adam"):
        importlib.import_module(module).CPUAdamBuilder = lambda: builder  # type: ignore[attr-defined]


def stand_in() -> None:
    """For SuperOffload, in releases that have it."""
    stand_in_for_adam()
    with contextlib.suppress(ImportError):
        package = "deepspeed.runtime.superoffload.superoffload_"
        utils, third = (importlib.import_module(package + name) for name in ("utils", "stage3"))
        context = types.SimpleNamespace(Process=Worker, SimpleQueue=Queue)
        utils.mp = types.SimpleNamespace(get_context=lambda _: context)  # type: ignore[attr-defined]
        utils.torch = Torch("torch")  # type: ignore[attr-defined]
        utils.SuperOffloadCPUOptimizer._set_cpu_affinity = lambda *_: None  # type: ignore[attr-defined]
        third.get_accelerator = Accelerator  # type: ignore[attr-defined]
        third._validate_superoffload_accelerator = lambda: None  # type: ignore[attr-defined]
