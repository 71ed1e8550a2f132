"""Ledger of the bytes that a rank and its host hold, by term, with the meaning of each term."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# Bytes that are held, by name, on a rank and on its host, and the most that were held in each phase.

PLACES = ("rank", "host")
SLACK, SMALL = 32, 1 << 20
"""A bound is above the estimate by a thirty-second and a MiB: the workspaces of operations (measured)."""


def with_slack(count: int) -> int:
    """What an estimate of so many bytes stays below."""
    return count + count // SLACK + SMALL


class LimitExceededError(Exception):
    """More is held than may be."""


class Peak(NamedTuple):
    """The most that was held at once, and by what."""

    bytes: int
    live: Mapping[str, int]


class MemoryPool:
    """One kind of memory: what is held now, and the peak of each phase."""

    __slots__ = ("_top", "limit", "live", "peaks", "phase", "total")

    def __init__(self) -> None:
        self.phase, self.total, self._top = "load", 0, 0
        self.limit: int | None = None
        """What may be held, where that is all that is asked."""
        self.live: dict[str, int] = {}
        self.peaks: dict[str, Peak] = {}

    def add(self, name: str, count: int) -> None:
        """Hold more, or less, under this name."""
        if count < 0 and self.total > self._top:
            self.record_peak()
        self.total += count
        self.live[name] = self.live.get(name, 0) + count

    def record_peak(self) -> None:
        """Remember what is held now, if it is the most of the phase.

        Raises:
            ExceededError: it is more than may be.
        """
        if self.total > self._top:
            if self.limit is not None and self.total > self.limit:
                raise LimitExceededError
            self._top = self.total
            self.peaks[self.phase] = Peak(self.total, self.live.copy())

    def enter(self, phase: str) -> None:
        """Begin a phase, or go on with one that was left."""
        self.record_peak()
        self.phase = phase
        self._top = self.peaks[phase].bytes if phase in self.peaks else 0
        self.record_peak()


class Ledger:
    """What a process holds on its rank and on its host; where the two are one, on both taken together."""

    __slots__ = ("_pools", "_tracks_combined", "combined", "host", "rank")

    def __init__(self, *, tracks_combined: bool = False) -> None:
        self.rank, self.host, self.combined = MemoryPool(), MemoryPool(), MemoryPool()
        self._tracks_combined = tracks_combined
        self._pools = (self.rank, self.host, self.combined) if tracks_combined else (self.rank, self.host)

    def allocate(self, name: str, count: int, *, host: bool = False) -> None:
        """Hold this many bytes more."""
        if count:
            (self.host if host else self.rank).add(name, count)
            if self._tracks_combined:
                self.combined.add(name, count)

    def free(self, name: str, count: int, *, host: bool = False) -> None:
        """Hold this many bytes less."""
        if count:
            (self.host if host else self.rank).add(name, -count)
            if self._tracks_combined:
                self.combined.add(name, -count)

    def allocate_briefly(self, name: str, count: int, *, host: bool = False) -> None:
        """Hold bytes for a moment."""
        self.allocate(name, count, host=host)
        self.free(name, count, host=host)

    def reset(self) -> None:
        """Hold nothing."""
        for place in self._pools:
            place.record_peak()
            place.live.clear()
            place.total = 0

    def enter(self, phase: str) -> None:
        """Begin a phase."""
        for place in self._pools:
            place.enter(phase)


# The names of what is held: the key that governs each, and how its size comes about.

ZERO = "zero_optimization."


class TermInfo(NamedTuple):
    """A term's governing key and formula.

    P are trained parameters, W ranks, T tokens of a micro batch, V the vocabulary, h the hidden size; b are
    bytes of a weight, p is P/W with its padding.
    """

    key: str
    formula: str


TERMS = {
    "parameters": TermInfo(f"{ZERO}stage", "b·P; at stage 3 b·Σ⌈n/W⌉"),
    "persistent parameters": TermInfo(
        f"{ZERO}stage3_param_persistence_threshold", "b·Σ n of parameters up to the threshold"
    ),
    "gathered parameters": TermInfo(
        f"{ZERO}stage3_max_live_parameters",
        "b·n of each parameter that is fetched, prefetched or soon needed again",
    ),
    "secondary partition": TermInfo(
        f"{ZERO}zero_hpz_partition_size", "b·P/hpz, from a parameter's first use up to the step"
    ),
    "staging buffers of NVMe": TermInfo(
        f"{ZERO}offload_optimizer.buffer_count",
        "4·buffer_count·largest sub-group; b·buffer_count·buffer_size of offload_param, "
        "and b·n of a sub-group where max_in_cpu leaves some on the drive",
    ),
    "gradients that wait for NVMe": TermInfo(
        f"{ZERO}offload_optimizer.device",
        "4·⌈n/W⌉ of each parameter where that is below 1 MiB or no multiple of 1 KiB, up to the step",
    ),
    "receive buffers": TermInfo(
        f"{ZERO}stage3_prefetch_bucket_size", "b·Σ n of a prefetched batch, until its last parameter is used"
    ),
    "master weights": TermInfo(
        f"{ZERO}stage", "4·p; at stage 0 4·P with bf16 or fp16; half of it for masters in half precision"
    ),
    "optimizer states": TermInfo(
        "optimizer.type",
        "8·p for Adam, 4·p with one moment, 0 for plain SGD; half of it with bf16_optimizer_states; "
        "2·p and 8 bytes for each 256 of them for 8-bit Adam",
    ),
    "gradients": TermInfo(
        f"{ZERO}stage",
        "b·P; at stages 1 and 2 b·Σ n of the parameters that a rank's piece touches; at stage 3 b·p",
    ),
    "fp32 gradients of the partition": TermInfo("data_types.grad_accum_dtype", "4·p"),
    "fp32 gradients of the model": TermInfo("data_types.grad_accum_dtype", "4·P, never freed"),
    "gradients of the partition, offloaded": TermInfo(f"{ZERO}offload_optimizer.device", "4·p on the host"),
    "staging buffers of offload": TermInfo(
        f"{ZERO}offload_optimizer.device",
        "b·p and b·n of the largest parameter on the host, the latter on the rank too",
    ),
    "gradient buffer of the optimizer's process": TermInfo(
        f"{ZERO}offload_optimizer.super_offload", "4·largest sub-group, up to sub_group_size and a parameter"
    ),
    "selected columns": TermInfo(
        f"{ZERO}zenflow.topk_ratio",
        "b·S of gradients, and of their weights up to the step; S: topk_ratio of matrices, and all vectors",
    ),
    "states of selected columns": TermInfo(
        f"{ZERO}zenflow.topk_ratio", "2·b·S on each rank; on the host with zenflow.offload"
    ),
    "stale weights of the optimizer's process": TermInfo(f"{ZERO}zenflow.overlap_step", "4·p on the host"),
    "rounding of pinned memory": TermInfo(
        f"{ZERO}offload_optimizer.pin_memory",
        "2^⌈log₂ bytes⌉ less the bytes, of each pinned tensor; and blocks of shards that zero.Init pinned, "
        "and of gradients that SuperOffload moves to shared memory",
    ),
    "reduce bucket": TermInfo(
        f"{ZERO}reduce_bucket_size",
        "b·bucket, twice with overlap_comm at stages 1 and 2; always there at stage 3",
    ),
    "flattened bucket": TermInfo(f"{ZERO}reduce_bucket_size", "b·elements of a bucket that is sent"),
    "buffers that put matrices together": TermInfo(
        f"{ZERO}reduce_bucket_size",
        "Muon at stage 3: gradients and momenta of a bucket of matrices; up to 256 MiB stay",
    ),
    "activations": TermInfo(
        "train_micro_batch_size_per_gpu", "what operations keep for the backward pass, ∝ T"
    ),
    "gradients of activations": TermInfo("train_micro_batch_size_per_gpu", "of tensors on the way back, ∝ T"),
    "logits and loss": TermInfo("train_micro_batch_size_per_gpu", "(b + 8)·T·V; 8·T·V where b is 4"),
    "dispatched tokens": TermInfo(
        "expert_parallel.autoep_size", "b·h·k·T, as they are sent to experts and back; k experts a token"
    ),
    "exchanged heads": TermInfo(
        "sequence_parallel_size",
        "b·h·T for queries, keys, values and what attention makes, each sent from a copy",
    ),
    "autocast's copies of weights": TermInfo(
        "torch_autocast.enabled", "2·n of each weight of a linear layer"
    ),
    "temporaries": TermInfo("train_micro_batch_size_per_gpu", "inside one operation"),
    "temporaries of the step": TermInfo(
        "optimizer.type", "4·p for the gradient in fp32, and what the optimizer needs for its update"
    ),
    "inputs": TermInfo("train_micro_batch_size_per_gpu", "the batch itself"),
    "consolidated weights": TermInfo(
        f"{ZERO}stage3_gather_16bit_weights_on_model_save",
        "b·n of all parameters, on the host of rank 0 while the model is saved",
    ),
    "model as it is built": TermInfo(
        f"{ZERO}stage",
        "4·P (2·P where it is built in half precision) in each process, with a head that is tied afterwards; "
        "before the weights are cast and moved",
    ),
}
