"""What an engine keeps, by the names of its attributes, and what a profiler saw it allocate."""

import contextlib
import gc
import sys
from typing import Any, NamedTuple

import torch

WITH_OPTIMIZER = (
    "single_partition_of_fp32_groups",
    "fp32_partitioned_groups_flat",
    "optimizer.state",
    "param_buffer_of_bit16",
    "temp_grad_buffer_for_cpu_offload",
    "accumulated_grads_in_cpu",
    "grad_partitions_flat_buffer",
    "optimizer_swapper",
    "parameter.exp_avg",
)
WITH_PARAMETERS = ("parameter.ds_tensor", "param_groups_fp16_flat_cpu_memory", "nvme_swapper")
"""Attributes whose tensors an engine on GPUs keeps on the host where one or the other is offloaded."""
ON_HOST = ("MARK on host", "Optimizer.step#")
"""Names of blocks of a recording in which an engine that offloads its optimizer allocates on the host."""


SWAPPING = "MARK swap buffers"
"""And of that in which it makes buffers for NVMe, whatever it offloads."""


class Event(NamedTuple):
    """A block is taken, or freed (`bytes` below 0)."""

    time: int
    bytes: int
    address: int
    trail: Any
    inside: str
    """The block of `ON_HOST` or `SWAPPING` that this happened in."""


# ---------------------------------------------------------------- what is kept, by name
class Owners:
    """Bytes of every storage that the engine keeps, under the first name that it is found by."""

    def __init__(self) -> None:
        self.seen: dict[int, str] = {}
        self.bytes: dict[str, int] = {}

    def take(self, tensor: Any, name: str) -> None:
        if not isinstance(tensor, torch.Tensor) or tensor.device.type == "meta":
            return
        storage = tensor.untyped_storage()
        if storage.nbytes() and storage.data_ptr() not in self.seen:
            self.seen[storage.data_ptr()] = name
            self.bytes[name] = self.bytes.get(name, 0) + storage.nbytes()

    def walk(self, value: Any, name: str, depth: int = 0) -> None:
        if isinstance(value, torch.Tensor):
            self.take(value, name)
            if value.is_leaf and value.grad is not None:
                self.take(value.grad, f"{name}.grad")
        elif isinstance(value, dict) and depth < 5:
            for item in list(value.values()):
                self.walk(item, name, depth + 1)
        elif isinstance(value, (list, tuple, set)) and depth < 5:
            for item in list(value):
                self.walk(item, name, depth + 1)
        elif type(value).__module__.startswith("deepspeed") and hasattr(value, "__dict__") and depth < 3:
            for key, item in list(vars(value).items()):
                if not isinstance(item, torch.nn.Module):
                    self.walk(item, f"{name}.{key}", depth + 1)


def kept(engine: Any) -> Owners:
    """What the engine keeps, by attribute."""
    owners, wrapper = Owners(), engine.optimizer
    base = getattr(wrapper, "optimizer", wrapper)
    for state in list(base.state.values()):
        owners.walk(list(state.values()), "optimizer.state")
    for key, value in list(vars(wrapper).items()):
        if "fp32" in key:
            owners.walk(value, key)
    for parameter in engine.module.parameters():  # one rank's parameters are views of them, on a CPU alone
        owners.take(getattr(parameter, "ds_tensor", None), "parameter.ds_tensor")
    for parameter in engine.module.parameters():
        owners.take(parameter.data, "parameter")
        owners.take(parameter.grad, "parameter.grad")
        owners.walk(getattr(parameter, "nvme_swapper", None), "nvme_swapper")
        for name in ("exp_avg_cpu_data", "exp_avg_sq_cpu_data"):
            owners.take(getattr(parameter, name, None), f"parameter.{name}")
    for key, value in list(vars(wrapper).items()):
        if key != "optimizer" and not isinstance(value, torch.nn.Module):
            owners.walk(value, key.replace("_DeepSpeedZeroOptimizer_Stage3", ""))
    for found in gc.get_objects():
        with contextlib.suppress(Exception):  # weak references that are gone, mostly
            owners.take(found, "unclaimed")
    return owners


# ---------------------------------------------------------------- the recording
def allocations(profiler: Any) -> tuple[list[Event], list[tuple[int, str]]]:
    """Every block taken and freed, and the marks, in order."""
    found: list[Event] = []
    marks: list[tuple[int, str]] = []

    def visit(event: Any, trail: tuple[str, ...], inside: str) -> None:
        name, extra = event.name, event.extra_fields
        kind = type(extra).__name__
        if "Allocation" in kind:
            found.append(Event(event.start_time_ns, extra.alloc_size, extra.ptr, trail, inside))
            return
        if name.startswith((*ON_HOST, SWAPPING)):
            inside = name
        elif name.startswith("MARK "):
            marks.append((event.start_time_ns, name[5:]))
        if kind in ("_ExtraFields_TorchOp", "_ExtraFields_PyCall"):
            trail = (*trail, name)[-8:]
        for child in event.children:
            visit(child, trail, inside)

    sys.setrecursionlimit(100_000)
    for root in profiler.profiler.kineto_results.experimental_event_tree():
        visit(root, (), "")
    return sorted(found, key=lambda event: event.time), sorted(marks)


def away(found: list[Event], owners: Owners, offloads: tuple[str, ...], inside: bool) -> set[int]:
    """Numbers of the events that take what an engine on GPUs has on the host.

    `offloads`: attributes whose tensors are kept there; `inside`: whether blocks of `ON_HOST` allocate there.
    """
    hosts = {
        number
        for number, event in enumerate(found)
        if event.bytes > 0 and ((inside and event.inside) or event.inside == SWAPPING)
    }
    last = {event.address: number for number, event in enumerate(found) if event.bytes > 0}
    return hosts | {
        last[place]
        for place, name in owners.seen.items()
        if offloads and name.startswith(offloads) and place in last
    }


def phases(
    found: list[Event], marks: list[tuple[int, str]], explain: int, hosts: set[int]
) -> list[dict[str, Any]]:
    """Of each mark: the bytes alive when it began and the most until the next, with who, if asked for.

    `device` is the most of what is not on the host.
    """
    total, host, at, rows = 0, 0, 0, list[dict[str, Any]]()
    current: dict[str, Any] = {"name": "build", "start": 0, "peak": 0, "device": 0, "index": -1}
    blocks = set[int]()
    for index, event in enumerate(found):
        while at < len(marks) and marks[at][0] <= event.time:
            rows.append(current)
            start = {"start": total, "peak": total, "device": total - host, "index": index - 1}
            current = {"name": marks[at][1]} | start
            at += 1
        total += event.bytes
        if index in hosts:
            blocks.add(event.address)
            host += event.bytes
        elif event.bytes < 0 and event.address in blocks:
            blocks.discard(event.address)
            host += event.bytes
        if total > current["peak"]:
            current.update(peak=total, index=index)
        current["device"] = max(current["device"], total - host)
    rows.append(current)
    end = {"start": total, "peak": total, "device": total - host, "index": len(found) - 1}
    rows += [{"name": name} | end for _, name in marks[at:]]
    if explain:
        explained(found, rows, explain)
    return rows


def explained(found: list[Event], rows: list[dict[str, Any]], most: int) -> None:
    """Name what is alive at each peak: how often, how large, and inside what."""
    wanted, live = {row["index"]: row for row in rows}, dict[int, tuple[int, Any]]()
    for index, event in enumerate(found):
        if event.bytes > 0:
            live[event.address] = (event.bytes, event.trail)
        else:
            live.pop(event.address, None)
        if index in wanted:
            groups: dict[Any, int] = {}
            for block in live.values():
                groups[block] = groups.get(block, 0) + 1
            top = sorted(groups.items(), key=lambda item: -item[0][0] * item[1])[:most]
            wanted[index]["alive"] = [[times, count, " > ".join(t[-5:])] for (count, t), times in top]
