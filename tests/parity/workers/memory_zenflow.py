"""ZenFlow's process and its GPUs, on a CPU and in one process; see `memory_processes`."""

import contextlib
import importlib
import multiprocessing
import types
from typing import Any

import memory_processes
import torch

KERNELS = ("create", "destroy", "ctrl_init", "submit")
"""Of `zenflow_adam_*`: they work in place, and allocate nothing."""


class Event:
    """What the process sets once it is ready."""

    def set(self) -> None:
        """Nobody waits."""

    def wait(self, timeout: float) -> bool:
        return True


class End:
    """One end of a pipe; who has nothing to read lets the other side go on."""

    def __init__(self) -> None:
        self.read: list[Any] = []
        self.other = self
        self.waiting: Any = None

    def send(self, value: Any) -> None:
        with torch.profiler.record_function(memory_processes.HOST):
            self.other.read.append(value)
            if self.other.waiting:
                self.other.waiting.switch()

    def recv(self) -> Any:
        if not self.read:
            import greenlet

            self.waiting = greenlet.getcurrent()
            self.waiting.parent.switch()
            self.waiting = None
        return self.read.pop(0)


def pipe() -> tuple[End, End]:
    """Both ends (before 0.19.3)."""
    one, two = End(), End()
    one.other, two.other = two, one
    return one, two


class Groups:
    """What the process's kernels are given, and hold (`cpu_adam_impl.cpp:ZenFlowAdam.register_group`)."""

    def __init__(self) -> None:
        self.held: list[tuple[torch.Tensor, ...]] = []

    def __call__(self, handle: int, weights: torch.Tensor, *others: torch.Tensor) -> None:
        self.held.append((weights, *others))
        others[-1].copy_(weights)  # the stale ones


def until_asked(*_: Any) -> None:
    """What the process does all the time."""
    import greenlet

    greenlet.getcurrent().parent.switch()


def on_host(owner: Any, name: str) -> None:
    """Mark what a function allocates as the host's."""
    function = getattr(owner, name, None)

    def inner(*args: Any, **named: Any) -> Any:
        with torch.profiler.record_function(memory_processes.HOST):
            return function(*args, **named)

    if function is not None:
        setattr(owner, name, inner)


def stand_in() -> None:
    """In releases that have ZenFlow."""
    with contextlib.suppress(ImportError):
        utils = importlib.import_module("deepspeed.runtime.zenflow.zenflow_utils")
        kernels = importlib.import_module("deepspeed.ops.op_builder").CPUAdamBuilder().load()
        vars(kernels).update({f"zenflow_adam_{name}": lambda *_: None for name in KERNELS})
        kernels.zenflow_adam_ctrl_size, kernels.zenflow_adam_wait = lambda: 4096, lambda *_: True
        kernels.zenflow_adam_run_worker = until_asked
        kernels.zenflow_adam_register_group = Groups()
        cores = list(range(multiprocessing.cpu_count()))
        utils.disable_accelerator = lambda: None  # type: ignore[attr-defined]
        utils._compute_zf_pt_affinity = lambda _: (cores, cores)  # type: ignore[attr-defined]
        context = types.SimpleNamespace(Process=memory_processes.Worker, Event=Event)
        multiprocessing.get_context = lambda _: context  # type: ignore[assignment,return-value]
        multiprocessing.Pipe, multiprocessing.Manager = pipe, lambda: types.SimpleNamespace(dict=dict)  # type: ignore[assignment]
        for name in ("zenflow_stage_1_and_2", "engine_stage3"):
            module = importlib.import_module(f"deepspeed.runtime.zenflow.{name}")
            module.torch = memory_processes.Torch("torch")  # type: ignore[attr-defined]
            module.torch.empty = memory_processes.tame(torch.zeros)  # what other ranks would send
            if hasattr(module, "mp"):  # before 0.18.1
                module.mp = types.SimpleNamespace(Pool=lambda _: None)  # type: ignore[attr-defined]
                module.disable_accelerator = lambda: None  # type: ignore[attr-defined]
            for function in ("start_optimizer_process", "initialize_optimizer_states"):
                on_host(module, function)
            if hasattr(module, "ZenFlowZeroOptimizerParallel"):
                on_host(module.ZenFlowZeroOptimizerParallel, "initialize_optimizer_states")
                on_host(module.ZenFlowZeroOptimizerParallel, "start_optimizer_process")
                on_host(module.ZenFlowZeroOptimizer, "sync_fp32_param_from_gpu")
