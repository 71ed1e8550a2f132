"""What an engine keeps, by the names of its attributes, and what a profiler saw it allocate."""

import contextlib
import gc
import sys
from typing import Any

import torch

HOST = (
    "single_partition_of_fp32_groups",
    "fp32_partitioned_groups_flat",
    "optimizer.state",
    "param_buffer_of_bit16",
    "temp_grad_buffer_for_cpu_offload",
    "accumulated_grads_in_cpu",
    "grad_partitions_flat_buffer",
    "param_groups_fp16_flat_cpu_memory",
)
"""Attributes whose tensors an engine on GPUs keeps on the host where they are offloaded."""


# ---------------------------------------------------------------- what is kept, by name
class Owners:
    """Bytes of every storage that the engine keeps, under the first name that it is found by."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.bytes: dict[str, int] = {}

    def take(self, tensor: Any, name: str) -> None:
        if not isinstance(tensor, torch.Tensor) or tensor.device.type == "meta":
            return
        storage = tensor.untyped_storage()
        if storage.nbytes() and storage.data_ptr() not in self.seen:
            self.seen.add(storage.data_ptr())
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


def kept(engine: Any) -> dict[str, int]:
    """What the engine keeps, by attribute."""
    owners, wrapper = Owners(), engine.optimizer
    base = getattr(wrapper, "optimizer", wrapper)
    for state in list(base.state.values()):
        owners.walk(list(state.values()), "optimizer.state")
    for key, value in list(vars(wrapper).items()):
        if "fp32" in key:
            owners.walk(value, key)
    for parameter in engine.module.parameters():
        owners.take(parameter.data, "parameter")
        owners.take(getattr(parameter, "ds_tensor", None), "parameter.ds_tensor")
        owners.take(parameter.grad, "parameter.grad")
    for key, value in list(vars(wrapper).items()):
        if key != "optimizer" and not isinstance(value, torch.nn.Module):
            owners.walk(value, key.replace("_DeepSpeedZeroOptimizer_Stage3", ""))
    for found in gc.get_objects():
        with contextlib.suppress(Exception):  # weak references that are gone, mostly
            owners.take(found, "unclaimed")
    return owners.bytes


# ---------------------------------------------------------------- the recording
def allocations(profiler: Any) -> tuple[list[tuple[int, int, int, Any]], list[tuple[int, str]]]:
    """Every block taken and freed (time, bytes, address, trail), and the marks, in order."""
    found: list[tuple[int, int, int, Any]] = []
    marks: list[tuple[int, str]] = []

    def visit(event: Any, trail: tuple[str, ...]) -> None:
        name = event.name
        if name.startswith("MARK "):
            marks.append((event.start_time_ns, name[5:]))
        kind = type(event.extra_fields).__name__
        if "Allocation" in kind:
            found.append((event.start_time_ns, event.extra_fields.alloc_size, event.extra_fields.ptr, trail))
            return
        if kind in ("_ExtraFields_TorchOp", "_ExtraFields_PyCall"):
            trail = (*trail, name)[-8:]
        for child in event.children:
            visit(child, trail)

    sys.setrecursionlimit(100_000)
    for root in profiler.profiler.kineto_results.experimental_event_tree():
        visit(root, ())
    return sorted(found, key=lambda event: event[0]), sorted(marks)


def phases(found: list[tuple[int, int, int, Any]], marks: list[tuple[int, str]], explain: int) -> list[Any]:
    """Of each mark: the bytes alive when it began and the most until the next, with who, if asked for."""
    total, at, rows = 0, 0, []
    current: dict[str, Any] = {"name": "build", "start": 0, "peak": 0, "index": -1}
    for index, (when, count, _, _) in enumerate(found):
        while at < len(marks) and marks[at][0] <= when:
            rows.append(current)
            current = {"name": marks[at][1], "start": total, "peak": total, "index": index - 1}
            at += 1
        total += count
        if total > current["peak"]:
            current.update(peak=total, index=index)
    rows.append(current)
    for _, name in marks[at:]:
        rows.append({"name": name, "start": total, "peak": total, "index": len(found) - 1})
    wanted, live = {row["index"]: row for row in rows} if explain else {}, {}
    for index, (_, count, address, trail) in enumerate(found if explain else ()):
        if count > 0:
            live[address] = (count, trail)
        else:
            live.pop(address, None)
        if index in wanted:
            groups: dict[Any, int] = {}
            for block in live.values():
                groups[block] = groups.get(block, 0) + 1
            top = sorted(groups.items(), key=lambda item: -item[0][0] * item[1])[:explain]
            wanted[index]["alive"] = [[times, count, " > ".join(t[-5:])] for (count, t), times in top]
    return rows
