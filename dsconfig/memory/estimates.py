"""Estimate the memory that a config needs with a model: each memory term at rest, and at the peak of each phase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.advice import MemoryAdvice, advice_for
from dsconfig.memory.device_overhead import LOAD, DeviceUsage, overheads_of, relative_lengths
from dsconfig.memory.engines.base_engine import CONSOLIDATED, PINNED, SAVE, WEIGHTS
from dsconfig.memory.engines.select_engine import select_engine
from dsconfig.memory.memory_ledger import (
    SLACK,
    TERMS,
    LimitExceededError,
    MemoryLedger,
    MemoryPool,
    add_slack,
)
from dsconfig.memory.models.generic_transformer import APPROXIMATION
from dsconfig.memory.models.record_pass_by_family import record_forward_pass
from dsconfig.memory.setup_from_config import micro_batch_of, setup_of
from dsconfig.memory.training_method_memory import (
    FROZEN,
    GENERATION,
    NO_EXTRA,
    VALUE,
    VLLM,
    TrainerMemory,
    training_method_memory,
)
from dsconfig.memory.unsupported_settings import reject_run
from dsconfig.memory.verdict import (
    ACTIVATION_TERMS,
    ASSUMED_IMAGES,
    EXCEEDS,
    FITS,
    HOST_BUILD,
    RANK,
    TIGHT,
    UNKNOWN,
    NotModelledError,
    UnmodeledSetting,
    Verdict,
)

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.memory.autograd_graph import ForwardTape
    from dsconfig.memory.config_values import ConfigValues
    from dsconfig.memory.engines.base_engine import Engine
    from dsconfig.memory.engines.engine_setup import EngineSetup
    from dsconfig.memory.models.architecture import Architecture, MicroBatch
    from dsconfig.memory.setup_from_config import TrainingJob


# The estimate: memory usage of a rank and of its host.

PHASES = ("load", "forward", "backward", "step")
"""Phases of every run; a `save` phase follows if stage 3 gathers the model on save."""
AT_REST = "at rest"


@dataclass(frozen=True, slots=True)
class MemoryTerm:
    """The memory allocated for one purpose, such as "gradients": bytes at rest and at the peak of each phase."""

    name: str
    bytes: int
    """Largest of the values in `phases`."""
    phases: Mapping[str, int]
    """Bytes at rest (`at_rest`) and at the peak of each phase."""
    key: str
    formula: str


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """The memory usage of a GPU or a host."""

    at_rest: int
    peak: Mapping[str, int]
    bound: Mapping[str, int]
    """Upper bound of each phase's peak."""
    terms: tuple[MemoryTerm, ...]

    @property
    def highest_peak(self) -> int:
        """The highest peak of any phase, or the usage at rest if that is higher."""
        return max(self.at_rest, *self.peak.values())

    @property
    def upper_bound(self) -> int:
        """The highest upper bound of any phase."""
        return max(self.at_rest, *self.bound.values())

    def lower_bound(self, lowering: Sequence[UnmodeledSetting]) -> int:
        """Return the highest upper bound without the memory terms that the settings in `lowering` may reduce."""
        if not lowering:
            return self.upper_bound
        if not all(each.terms for each in lowering):
            return 0
        names = frozenset[str]().union(*(each.terms for each in lowering))
        reducible = [term.phases for term in self.terms if term.name in names]
        bounds = [self.at_rest - sum(live.get("at_rest", 0) for live in reducible)]
        for phase, count in self.peak.items():
            reducible_bytes = sum(live.get(phase, 0) for live in reducible)
            bounds.append(
                self.bound[phase] - reducible_bytes - reducible_bytes // SLACK
                if reducible_bytes < count
                else 0
            )
        return max(bounds)

    def least_needed(self, lowering: Sequence[UnmodeledSetting]) -> int:
        """Return the highest peak, without slack and the memory terms that the settings in `lowering` may reduce."""
        if not all(each.terms for each in lowering):
            return 0
        names = frozenset[str]().union(*(each.terms for each in lowering))
        reducible = [term.phases for term in self.terms if term.name in names]
        totals = {"at_rest": self.at_rest, **self.peak}
        return max(count - sum(live.get(phase, 0) for live in reducible) for phase, count in totals.items())

    def to_dict(self) -> JsonObject:
        """Return the usage as a JSON object."""
        return {
            "at_rest": self.at_rest,
            "peak": dict(self.peak),
            "bound": dict(self.bound),
            "terms": [
                {
                    "name": term.name,
                    "bytes": term.bytes,
                    "phases": dict(term.phases),
                    "key": term.key,
                    "formula": term.formula,
                }
                for term in self.terms
            ],
        }


@dataclass(frozen=True, slots=True)
class CollectiveCalls:
    """The calls of one collective operation in a phase of a step."""

    phase: str
    name: str
    calls: int
    numel: int
    itemsize: int
    ranks: int

    @property
    def sent(self) -> int:
        """Bytes that a rank sends if the collective uses a ring algorithm."""
        times = 2 if self.name == "all_reduce" else 1
        return times * self.numel * self.itemsize * (self.ranks - 1) // self.ranks


@dataclass(frozen=True, slots=True)
class Estimate:
    """The memory usage of a rank and of its host."""

    release: str
    world_size: int
    number: int
    """Number of the rank with the highest usage."""
    parameters: int
    trained: int
    rank: MemoryUsage
    host: MemoryUsage
    collectives: tuple[CollectiveCalls, ...]
    findings: tuple[MemoryAdvice, ...] = ()
    """Settings that waste memory, or that do not work with this model."""
    unmodelled: tuple[UnmodeledSetting, ...] = ()
    """Settings of the job that change memory but are not part of these numbers."""
    assumed: tuple[UnmodeledSetting, ...] = (HOST_BUILD,)
    """Assumptions about the training script."""
    device: DeviceUsage | None = None
    """Memory of the process in `nvidia-smi`, or None if the simulation had a limit."""
    assumptions: tuple[str, ...] = ()
    """Assumptions about the run, as sentences."""

    @property
    def has_activations(self) -> bool:
        """Whether activations are estimated, because the model's layers are known."""
        return any(term.bytes > 1024 for term in self.rank.terms if term.name in ACTIVATION_TERMS)

    def verdict(self, name: str, least: int, most: int | None = None, margin: int = 0) -> Verdict:
        """Return the verdict on whether `rank` or `host` fits in `least` bytes, or up to `most` for a range."""
        needed = (self.rank if name == RANK else self.host).upper_bound + margin
        if needed <= least:
            return self._fits_unless_raised(name)
        most = least if most is None else most
        if needed <= most or self.lower_bound(name) + margin <= most:
            is_assumed = needed > most and not any(name in each.lowers for each in self.unmodelled)
            return TIGHT if is_assumed and name == RANK else UNKNOWN
        return EXCEEDS

    def _fits_unless_raised(self, name: str, assumed: Sequence[UnmodeledSetting] | None = None) -> Verdict:
        """Return `fits`, or a weaker verdict if a setting or input without an estimate may raise the usage.

        `assumed`: the missing inputs that count, None for all of them.
        """
        assumed = self.assumed if assumed is None else assumed
        if any(name in each.raises for each in self.unmodelled):
            return UNKNOWN
        return TIGHT if any(name in each.raises for each in assumed) else FITS

    def device_verdict(self, least: int, most: int | None = None) -> DeviceVerdict:
        """Return the verdict on whether a rank fits a GPU with `least` bytes, or up to `most` if the size is a range.

        The process fits if the upper bound, all cached blocks and the highest overheads fit. It does not fit if the
        allocated bytes and the lowest overheads alone exceed the memory.
        """
        device, most = self.device, least if most is None else most
        assert device is not None
        low = device.overhead[0]
        low -= max(0, self.rank.highest_peak - device.allocated)  # the doubt about a generic model
        # The expected range already covers sequences with any number of images.
        assumed = [each for each in self.assumed if each != ASSUMED_IMAGES]
        lowering = [each for each in (*self.unmodelled, *self.assumed) if RANK in each.lowers]
        if self.rank.least_needed([]) + low > most:
            if self.rank.least_needed(lowering) + low > most:
                return DeviceVerdict(EXCEEDS)
            unmodeled = [each for each in lowering if each in self.unmodelled]
            if unmodeled and self.rank.least_needed(unmodeled) + low <= most:
                return DeviceVerdict(UNKNOWN, "settings that are not estimated decide whether it fits")
            return DeviceVerdict(TIGHT, _describe_deciding_settings(lowering))
        if device.needed > least:
            if device.needed <= most:
                return DeviceVerdict(UNKNOWN, CARD)
            images = "the images of a sequence, " if ASSUMED_IMAGES in self.assumed else ""
            reason = f"the expected range exceeds the GPU: {images}the CUDA context, NCCL and kernels decide"
            return DeviceVerdict(TIGHT, reason)
        cached = _cached_blocks(device, least)
        if cached is not None:
            return cached
        verdict = self._fits_unless_raised(RANK, assumed)
        if verdict == UNKNOWN:
            return DeviceVerdict(UNKNOWN, "settings that are not estimated decide whether it fits")
        reason = _describe_deciding_settings(each for each in assumed if RANK in each.raises)
        return DeviceVerdict(verdict, reason, is_assumed=verdict == TIGHT)

    def lower_bound(self, name: str) -> int:
        """Return the upper bound of `rank` or `host`, leaving out memory terms that may be smaller than estimated."""
        side = self.rank if name == RANK else self.host
        return side.lower_bound([each for each in (*self.unmodelled, *self.assumed) if name in each.lowers])

    def to_dict(self) -> JsonObject:
        """Return the estimate as a JSON object."""
        collectives: list[Json] = [
            {
                "phase": item.phase,
                "name": item.name,
                "calls": item.calls,
                "elements": item.numel,
                "ranks": item.ranks,
                "bytes": item.sent,
            }
            for item in self.collectives
        ]
        return {
            "release": self.release,
            "world_size": self.world_size,
            "number": self.number,
            "parameters": self.parameters,
            "trained": self.trained,
            "rank": self.rank.to_dict(),
            "host": self.host.to_dict(),
            "communication": {
                "bytes": sum(item.sent for item in self.collectives),
                "collectives": collectives,
            },
            "assumptions": list(self.assumptions),
            "findings": [item.to_dict() for item in self.findings],
            "not_modelled": [item.to_dict() for item in self.unmodelled],
            "expected": self.device and self.device.to_dict(),
        }


CARD = "the name fits several cards, which differ: name the card"


class DeviceVerdict(NamedTuple):
    """A verdict for a GPU, and the assumption on which it depends."""

    word: Verdict
    reason: str = ""
    is_assumed: bool = False
    """Whether the run fits only with the values assumed for missing inputs."""


def _cached_blocks(device: DeviceUsage, capacity: int) -> DeviceVerdict | None:
    """Return the verdict if cached blocks do not fit next to the tensors, or None if they do."""
    if device.high() <= capacity:
        return None
    survives, equal = (
        device.fits_despite_fragmentation(capacity),
        device.equal_steps.reserved + device.overhead[1],
    )
    if survives and equal <= capacity:
        return None  # only sequences of different lengths fill the GPU with cached blocks
    reason = "torch has to release cached blocks, which takes time" if survives else "fragmentation decides"
    if not device.is_expandable and device.fits_despite_fragmentation(capacity, expandable=True):
        reason += "; `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` avoids it"
    return DeviceVerdict(TIGHT, reason)


def _describe_deciding_settings(settings: Iterable[UnmodeledSetting]) -> str:
    return "; ".join(f"{each.key} decides: {each.text}" for each in settings)


class MemoryLimit(NamedTuple):
    """Bytes available to a rank and to a host; None means no limit."""

    rank: int | None = None
    host: int | None = None

    def fits(self, estimate: Estimate) -> bool:
        """Return whether the upper bounds of `estimate` stay within the limits."""
        if self.rank is not None and estimate.rank.upper_bound > self.rank:
            return False
        return self.host is None or estimate.host.upper_bound <= self.host


NO_LIMIT = MemoryLimit()


def simulate(
    setup: EngineSetup,
    tape: ForwardTape,
    batch: MicroBatch,
    limit: MemoryLimit = NO_LIMIT,
    extra: TrainerMemory = NO_EXTRA,
    *,
    records_events: bool = False,
) -> tuple[MemoryLedger, Engine]:
    """Simulate an engine for a recorded model: load the model, then run one step.

    If `records_events`, the ledger records all allocations of the rank in order.

    Raises:
        LimitExceededError: the usage exceeds a limit; raised as soon as that is certain.
    """
    ledger = MemoryLedger(tracks_combined=not setup.has_separate_host)
    ledger.rank.limit = limit.rank
    if not any(weight.requires_grad for weight in tape.weights):
        names = ", ".join(sorted(batch.adapter.targets)) if batch.adapter else ""
        raise NotModelledError(
            f"no linear layer is called {names}", f"use some of {', '.join(tape.linear_names)}, or all"
        )
    reject_run(setup, tape, batch.gradient_checkpointing)
    engine = select_engine(setup, tape, ledger)
    # Only with offloaded parameters the optimizer does not empty torch's cache (`defragment` in zero/utils.py).
    if records_events and setup.offloads_params:
        ledger.rank.events = ledger.rank.load_events
    engine.load()
    ledger.rank.events = None
    ledger.allocate_briefly(PINNED, engine.pinned_padding() if setup.has_separate_host else 0, host=True)
    ledger.reset()
    ledger.enter(AT_REST)
    if records_events:
        ledger.rank.events = []
    ledger.allocate(WEIGHTS, tape.buffer_bytes)
    engine.allocate_at_rest()
    if extra.has_value_model:
        ledger.allocate(VALUE, ledger.rank.total)
    ledger.allocate(FROZEN, extra.frozen)
    ledger.allocate(VLLM, 0 if extra.vllm_sleeps else extra.vllm)
    ledger.rank.mark_step_start()
    if extra.generation or extra.vllm_sleeps:
        ledger.enter("forward")
        ledger.allocate_briefly(GENERATION, extra.generation)
        ledger.allocate_briefly(VLLM, extra.vllm if extra.vllm_sleeps else 0)
    if limit.host is not None and ledger.host.total > limit.host:
        raise LimitExceededError
    engine.run()
    return ledger, engine


def usage_of(pool: MemoryPool, engine: Engine | None = None, times: int = 1) -> MemoryUsage:
    """Return the memory usage of a rank, or of a host on which `times` ranks run."""
    phases = [*PHASES, *([SAVE] if SAVE in pool.peaks else [])]
    parts = {AT_REST: pool.live}
    parts |= {phase: dict(pool.peaks[phase].live) for phase in phases if phase in pool.peaks}
    parts = {phase: {name: count for name, count in live.items() if count} for phase, live in parts.items()}

    def bytes_of(name: str, phase: str) -> int:
        # Only one rank of a host gathers the model.
        return parts[phase][name] * (1 if name == CONSOLIDATED else times)

    peaks = {phase: sum(bytes_of(name, phase) for name in parts.get(phase, ())) for phase in phases}
    terms = []
    for name in dict.fromkeys(name for live in parts.values() for name in live):
        by_phase = {
            phase.replace(" ", "_"): bytes_of(name, phase) for phase, live in parts.items() if name in live
        }
        terms.append(MemoryTerm(name, max(by_phase.values()), by_phase, *TERMS[name]))
    order = {name: index for index, name in enumerate(TERMS)}
    terms.sort(key=lambda term: order[term.name])
    return MemoryUsage(
        pool.total * times,
        peaks,
        {phase: upper_bound_of_peak(count, phase, engine) for phase, count in peaks.items()},
        tuple(terms),
    )


def upper_bound_of_peak(count: int, phase: str, engine: Engine | None = None) -> int:
    """Return the upper bound for a peak of `count` bytes.

    The step, and passes that gather parameters, may allocate one more gradient of the largest parameter, on the rank.
    """
    if not count:
        return 0
    # Which gradients of a layer coexist depends on autograd's order, so the bound adds one of the largest
    # size.
    gathers_one_more = engine is not None and (phase == "step" or (engine.gathers and phase != "load"))
    return add_slack(count) + (
        engine.largest_block_in(phase) if engine is not None and gathers_one_more else 0
    )


def estimate(
    config: ConfigValues,
    model: Architecture,
    job: TrainingJob,
    limit: MemoryLimit = NO_LIMIT,
    *,
    expects_device: bool = True,
) -> Estimate:
    """Estimate the memory of a host, and of the rank that needs most, which is the first or the last.

    Args:
        config: effective values of the config.
        model: sizes of the model.
        job: release, world size, and what the training script does.
        limit: bytes at which the simulation stops.
        expects_device: whether to also estimate the memory that `nvidia-smi` shows.

    Raises:
        NotModelledError: the config or model has no estimate; the message names the setting.
        LimitExceededError: the rank or the host exceeds its limit; raised as soon as that is certain.
    """
    setup = setup_of(config, job)
    batch, extra = micro_batch_of(setup, job), NO_EXTRA
    if job.trainer is not None:
        extra = training_method_memory(setup, model, batch, job.trainer, job.frozen_models, job.vllm_bytes)
        extra = extra._replace(vllm_sleeps=job.vllm_sleeps and extra.vllm > 0)
    compute = _estimate if expects_device else _cached_estimate  # what the device shows takes memory
    result = compute(setup, model, batch, limit, extra, expects_device)
    device = result.device and replace(result.device, is_expandable=job.expandable_segments)
    return replace(result, release=job.release, device=device)


def _estimate(
    setup: EngineSetup,
    arch: Architecture,
    batch: MicroBatch,
    limit: MemoryLimit,
    extra: TrainerMemory,
    expects_device: bool,
) -> Estimate:
    candidates, ranks_of_host = [], setup.gpus_per_node
    records = expects_device and limit == NO_LIMIT
    ranks_are_equal = setup.stage in (0, 3)
    host = limit.host // ranks_of_host if ranks_are_equal and limit.host is not None else None
    tape = record_forward_pass(arch, batch)
    if extra.gathered:
        tape.add_transient(extra.gathered)
    # At stages 1 and 2 the last rank owns the last layers, whose gradients come while all activations are
    # alive. Rank 0 can still have the larger embedding.
    for number in (0,) if ranks_are_equal else sorted({0, setup.dp_world_size - 1}):
        ledger, engine = simulate(
            setup._replace(rank=number),
            tape,
            batch,
            MemoryLimit(limit.rank, host),
            extra,
            records_events=records,
        )
        candidates.append((max(peak.bytes for peak in ledger.rank.peaks.values()), number, ledger, engine))
    _, number, ledger, engine = max(candidates, key=lambda entry: entry[0])
    calls = tuple(
        CollectiveCalls(phase, name, count, numel, itemsize, ranks)
        for (phase, name, itemsize, ranks), (count, numel) in engine.calls.items()
    )
    return Estimate(
        "",
        setup.dp_world_size * setup.tp_size,
        number * setup.tp_size,
        engine.model_numel + sum(w.original_numel - w.numel for w in tape.weights if w.original_numel),
        engine.trainable_numel,
        usage_of(ledger.rank, engine),
        usage_of(ledger.host, times=ranks_of_host),
        calls,
        advice_for(engine, ledger),
        device=_device_usage(ledger, engine, arch, batch),
    )


_cached_estimate = lru_cache(maxsize=32)(_estimate)
"""Cached estimates for rules, which run again with each keystroke in an editor."""


def _device_usage(
    ledger: MemoryLedger, engine: Engine, arch: Architecture, batch: MicroBatch
) -> DeviceUsage | None:
    """Return the GPU usage of a rank's process, or None if no allocations were recorded."""
    pool = ledger.rank
    if pool.events is None:
        return None
    usage, events = usage_of(pool, engine), pool.events
    doubt = 0
    if arch.family == "generic":
        by_phase = [
            sum(live.get(name, 0) for name in ACTIVATION_TERMS)
            for live in (p.live for p in pool.peaks.values())
        ]
        doubt = int(APPROXIMATION * max(by_phase, default=0))
    return DeviceUsage(
        usage.highest_peak - doubt,
        usage.upper_bound + doubt,
        overheads_of(engine.setup, arch, batch),
        events[: pool.step_start],
        events[pool.step_start :],
        [(LOAD + name, count) for name, count in pool.load_events],
        relative_lengths(batch.micro_batch_size) if batch.has_varied_lengths else (),
    )
