"""Record the bytes allocated on a rank and its host by memory term, and the peak of each phase.

A memory term is all memory that is allocated for one purpose, such as "gradients" or "activations".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# Allocations by memory term, on a rank and on its host.

PLACES = ("rank", "host")
SLACK, SMALL = 32, 1 << 20
"""Headroom of the upper bound: 1/32 of the estimate plus 1 MiB, for kernel workspaces (measured)."""


def add_slack(count: int) -> int:
    """Return the upper bound for an estimate of `count` bytes."""
    return count + count // SLACK + SMALL


class LimitExceededError(Exception):
    """Raised when an allocation exceeds the memory limit."""


class PhasePeak(NamedTuple):
    """The highest total of a phase, and the memory terms that add up to it."""

    bytes: int
    live: Mapping[str, int]


class MemoryPool:
    """The allocated bytes of one memory (a rank's or a host's) by memory term, and the peak of each phase."""

    __slots__ = ("_top", "events", "limit", "live", "load_events", "peaks", "phase", "step_start", "total")

    def __init__(self) -> None:
        self.phase, self.total, self._top = "load", 0, 0
        self.limit: int | None = None
        """Bytes at which the simulation stops early, or None for no limit."""
        self.live: dict[str, int] = {}
        self.peaks: dict[str, PhasePeak] = {}
        self.events: list[tuple[str, int]] | None = None
        """Allocations and releases (negative) by memory term, in order, or None if they are not recorded."""
        self.load_events: list[tuple[str, int]] = []
        """Allocations and releases while the model was loaded, if their segments stay cached."""
        self.step_start = 0
        """Number of events recorded before the step."""

    def add(self, name: str, count: int) -> None:
        """Allocate bytes for a memory term, or free them if `count` is negative."""
        # Peaks are recorded lazily, just before memory is freed; allocations alone can only raise the total.
        if count < 0 and self.total > self._top:
            self.record_peak()
        self.total += count
        self.live[name] = self.live.get(name, 0) + count
        if self.events is not None:
            self.events.append((name, count))

    def record_peak(self) -> None:
        """Record the current total if it is the highest so far in this phase.

        Raises:
            LimitExceededError: the total exceeds the limit.
        """
        if self.total > self._top:
            if self.limit is not None and self.total > self.limit:
                raise LimitExceededError
            self._top = self.total
            self.peaks[self.phase] = PhasePeak(self.total, self.live.copy())

    def mark_step_start(self) -> None:
        """Mark the current total as the start of the step."""
        self.step_start = len(self.events or ())

    def enter(self, phase: str) -> None:
        """Enter a phase of the run, for the first time or again."""
        self.record_peak()
        self.phase = phase
        self._top = self.peaks[phase].bytes if phase in self.peaks else 0
        self.record_peak()


class MemoryLedger:
    """The allocated bytes of a process on its rank and its host, which may also be one memory.

    Engines measured on a CPU have a single memory, so tests compare `combined`.
    """

    __slots__ = ("_pools", "_tracks_combined", "combined", "host", "rank")

    def __init__(self, *, tracks_combined: bool = False) -> None:
        self.rank, self.host, self.combined = MemoryPool(), MemoryPool(), MemoryPool()
        self._tracks_combined = tracks_combined
        self._pools = (self.rank, self.host, self.combined) if tracks_combined else (self.rank, self.host)

    def allocate(self, name: str, count: int, *, host: bool = False) -> None:
        """Allocate bytes for a memory term on the rank or the host."""
        if count:
            (self.host if host else self.rank).add(name, count)
            if self._tracks_combined:
                self.combined.add(name, count)

    def free(self, name: str, count: int, *, host: bool = False) -> None:
        """Free bytes of a memory term on the rank or the host."""
        if count:
            (self.host if host else self.rank).add(name, -count)
            if self._tracks_combined:
                self.combined.add(name, -count)

    def allocate_briefly(self, name: str, count: int, *, host: bool = False) -> None:
        """Allocate bytes and free them again immediately, which affects only the peak."""
        self.allocate(name, count, host=host)
        self.free(name, count, host=host)

    def reset(self) -> None:
        """Free all bytes of all memory terms."""
        for place in self._pools:
            place.record_peak()
            place.live.clear()
            place.total = 0

    def enter(self, phase: str) -> None:
        """Enter a phase of the run, on both the rank and the host."""
        for place in self._pools:
            place.enter(phase)


# Memory terms: the config key that controls each one, and its formula.

ZERO = "zero_optimization."


class TermDescription(NamedTuple):
    """The config key that controls a memory term, and the term's formula.

    Symbols: P trainable parameters, W data-parallel ranks, T tokens per micro batch, V vocabulary size, h hidden size,
    b bytes per weight, p P/W with padding.
    """

    key: str
    formula: str


TERMS = {
    "parameters": TermDescription(f"{ZERO}stage", "b·P; at stage 3 b·Σ⌈n/W⌉"),
    "persistent parameters": TermDescription(
        f"{ZERO}stage3_param_persistence_threshold", "b·Σ n of parameters up to the threshold"
    ),
    "gathered parameters": TermDescription(
        f"{ZERO}stage3_max_live_parameters",
        "b·n of each parameter that is fetched, prefetched, or kept for reuse",
    ),
    "secondary partition": TermDescription(
        f"{ZERO}zero_hpz_partition_size", "b·P/hpz, from the first use of a parameter until the step"
    ),
    "NVMe swap buffers": TermDescription(
        f"{ZERO}offload_optimizer.buffer_count",
        "4·buffer_count·largest sub-group; b·buffer_count·buffer_size of offload_param, "
        "plus b·n of a sub-group if max_in_cpu leaves part of it on NVMe",
    ),
    "gradients waiting for NVMe": TermDescription(
        f"{ZERO}offload_optimizer.device",
        "4·⌈n/W⌉ of each parameter below 1 MiB or not aligned to 1 KiB, until the step",
    ),
    "receive buffers": TermDescription(
        f"{ZERO}stage3_prefetch_bucket_size", "b·Σ n of a prefetched batch, until its last parameter is used"
    ),
    "master weights": TermDescription(
        f"{ZERO}stage", "4·p; at stage 0 4·P with bf16 or fp16; half of that for half-precision masters"
    ),
    "optimizer states": TermDescription(
        "optimizer.type",
        "8·p for Adam, 4·p with one moment, 0 for plain SGD; half of that with bf16_optimizer_states; "
        "for 8-bit Adam 2·p plus 8 bytes per 256 elements",
    ),
    "gradients": TermDescription(
        f"{ZERO}stage",
        "b·P; at stages 1 and 2 b·Σ n of the parameters that overlap the rank's partition; at stage 3 b·p",
    ),
    "fp32 gradient partition": TermDescription("data_types.grad_accum_dtype", "4·p"),
    "fp32 model gradients": TermDescription("data_types.grad_accum_dtype", "4·P, never freed"),
    "offloaded gradient partition": TermDescription(f"{ZERO}offload_optimizer.device", "4·p on the host"),
    "offload staging buffers": TermDescription(
        f"{ZERO}offload_optimizer.device",
        "b·p and b·n of the largest parameter on the host, b·n also on the rank",
    ),
    "SuperOffload gradient buffer": TermDescription(
        f"{ZERO}offload_optimizer.super_offload",
        "4·largest sub-group (at most sub_group_size plus one parameter)",
    ),
    "ZenFlow selected columns": TermDescription(
        f"{ZERO}zenflow.topk_ratio",
        "b·S of gradients, and of weights until the step; S: topk_ratio of each matrix plus all vectors",
    ),
    "ZenFlow selected states": TermDescription(
        f"{ZERO}zenflow.topk_ratio", "2·b·S on each rank; on the host with zenflow.offload"
    ),
    "ZenFlow stale weights": TermDescription(f"{ZERO}zenflow.overlap_step", "4·p on the host"),
    "pinned memory rounding": TermDescription(
        f"{ZERO}offload_optimizer.pin_memory",
        "2^⌈log₂ bytes⌉ less the bytes of each pinned tensor, plus cached blocks of shards that zero.Init pinned, "
        "and of gradients that SuperOffload moves to shared memory",
    ),
    "reduce bucket": TermDescription(
        f"{ZERO}reduce_bucket_size",
        "b·bucket, twice with overlap_comm at stages 1 and 2; permanent at stage 3",
    ),
    "flattened bucket copy": TermDescription(
        f"{ZERO}reduce_bucket_size",
        "b·elements of the bucket being reduced; with offload (b + 8)·n/W of a gradient whose norm is computed",
    ),
    "Muon all-gather buffers": TermDescription(
        f"{ZERO}reduce_bucket_size",
        "Muon at stage 3: gradients and momenta of a bucket of matrices; up to 256 MiB are cached",
    ),
    "activations": TermDescription(
        "train_micro_batch_size_per_gpu", "tensors saved for the backward pass, ∝ T"
    ),
    "frozen models": TermDescription(
        f"{ZERO}stage", "b·n of reference, reward and teacher models; at stage 3 b·n/W"
    ),
    "value model": TermDescription(f"{ZERO}stage", "as much as the trained model at rest"),
    "vLLM": TermDescription("vllm_gpu_memory_utilization", "its fraction of the GPU, next to training"),
    "generation": TermDescription(
        f"{ZERO}stage", "key/value cache of the generated answers; at stage 3 also b·P of gathered weights"
    ),
    "offloaded activations": TermDescription(
        "train_micro_batch_size_per_gpu", "b·h·T of each checkpointed layer, on the host"
    ),
    "activation gradients": TermDescription(
        "train_micro_batch_size_per_gpu", "gradients in flight during the backward pass, ∝ T"
    ),
    "logits and loss": TermDescription("train_micro_batch_size_per_gpu", "(b + 8)·T·V; 8·T·V where b is 4"),
    "MoE dispatch buffers": TermDescription(
        "expert_parallel.autoep_size", "b·h·k·T of tokens sent to experts and back; k experts per token"
    ),
    "Ulysses all-to-all buffers": TermDescription(
        "sequence_parallel_size",
        "b·h·T for queries, keys, values and the attention output, each sent from a copy",
    ),
    "autocast weight copies": TermDescription("torch_autocast.enabled", "2·n of each linear weight"),
    "temporaries": TermDescription(
        "train_micro_batch_size_per_gpu", "temporary tensors inside one operation"
    ),
    "optimizer step temporaries": TermDescription(
        "optimizer.type", "4·p for the fp32 gradient, plus temporary tensors of the update"
    ),
    "inputs": TermDescription("train_micro_batch_size_per_gpu", "the batch"),
    "consolidated weights": TermDescription(
        f"{ZERO}stage3_gather_16bit_weights_on_model_save",
        "b·n of all parameters, on the host of rank 0 while the model is saved",
    ),
    "initial model copy": TermDescription(
        f"{ZERO}stage",
        "4·P (2·P if built in half precision) per process, with the head before it is tied; "
        "until the weights are cast and moved to the GPU",
    ),
}
