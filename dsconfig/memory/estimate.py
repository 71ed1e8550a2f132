"""Memory estimate of a config with a model: every term at rest and at each peak, and advice on settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.caching_allocator import Event
from dsconfig.memory.device import DeviceUsage, overheads_of
from dsconfig.memory.engines.base import CONSOLIDATED, GATHERED, PINNED, SAVE, WEIGHTS
from dsconfig.memory.engines.select_engine import select_engine
from dsconfig.memory.engines.zero12 import DeepSpeedZeroOptimizer
from dsconfig.memory.graph import Segment
from dsconfig.memory.memory_ledger import SLACK, TERMS, Ledger, LimitExceededError, MemoryPool, with_slack
from dsconfig.memory.models.generic import APPROXIMATION
from dsconfig.memory.models.registry import record
from dsconfig.memory.trainers import FROZEN, GENERATION, NO_EXTRA, VALUE, VLLM, TrainerMemory
from dsconfig.memory.unsupported import reject_run
from dsconfig.memory.verdict import (
    ACTIVATION_TERMS,
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
    from dsconfig.memory.engines.base import Engine
    from dsconfig.memory.engines.setup import Setup
    from dsconfig.memory.graph import Tape
    from dsconfig.memory.models.architecture import Architecture, MicroBatch


# Advice: settings that waste memory, or do not work, with this model.

ZERO = "zero_optimization."
NEARLY_ALL = 0.98


class Advice(NamedTuple):
    """A note on a setting that wastes memory or does not work with this model."""

    key: str
    text: str

    def to_dict(self) -> JsonObject:
        """The note as JSON."""
        return {"key": self.key, "text": self.text}


def advice_for(engine: Engine, ledger: Ledger) -> tuple[Advice, ...]:
    """Collect the advice on an engine's settings."""
    return (
        *_oversized_bucket(engine),
        *_flatten_location(engine, ledger),
        *_stage3_gathering(engine, ledger),
        *_recomputed_modules(engine),
        *_mistaken_fp32_accumulation(engine),
        *_experts_not_leaf(engine),
        *_sequence_parallel_dtype(engine),
        *_autoep_save(engine),
        *_zenflow_layout(engine),
    )


def _oversized_bucket(engine: Engine) -> Iterator[Advice]:
    """Warn about a reduce bucket that is larger than the model."""
    setup = engine.setup
    if setup.stage and setup.contiguous_gradients and setup.reduce_bucket_size > engine.trainable_numel:
        text = (
            f"the bucket of {setup.reduce_bucket_size:,} elements is larger than all {engine.trainable_numel:,}"
            " trainable elements"
        )
        yield Advice(f"{ZERO}reduce_bucket_size", f"{text}, and is allocated in full")


def _flatten_location(engine: Engine, ledger: Ledger) -> Iterator[Advice]:
    """Say where stages 1 and 2 flatten the weights, if that decides the peak (`flatten_on_accelerator`)."""
    if not isinstance(engine, DeepSpeedZeroOptimizer) or engine.setup.quirks.flattens_weights_on_host:
        return
    since = "since 0.19.0 stages 1 and 2 flatten the weights on the host if the GPU has no memory for a second copy"
    if engine.flattened_on_host:
        yield Advice(f"{ZERO}stage", f"{since}, as in this run")
    peaks = {phase: peak.bytes for phase, peak in ledger.rank.peaks.items()}
    if engine.setup.gpu_limit is None and max(peaks, key=lambda phase: peaks[phase]) == "load":
        yield Advice(f"{ZERO}stage", f"{since}: pass `--gpu` to see which applies")


def _stage3_gathering(engine: Engine, ledger: Ledger) -> Iterator[Advice]:
    """Warn if stage 3 keeps the whole model gathered, or if `ratio` has no effect."""
    setup = engine.setup
    if setup.stage != 3:
        return
    peaks = ledger.rank.peaks
    gathered = max(peaks[phase].live.get(GATHERED, 0) for phase in ("forward", "backward") if phase in peaks)
    if setup.dp_world_size > 1 and gathered >= NEARLY_ALL * setup.itemsize * engine.total_numel:
        text = "all parameters are gathered at once. Lower it together with `stage3_max_live_parameters`"
        yield Advice(f"{ZERO}stage3_max_reuse_distance", text)
    shards = sum(-(-weight.numel // setup.dp_world_size) for weight in engine.trainable)
    if setup.offloads_optimizer and 0 < setup.offload_ratio < 1 and setup.stage3.sub_group_size >= shards:
        text = f"everything is offloaded: the {shards:,} parameters of a rank form a single sub-group"
        yield Advice(f"{ZERO}offload_optimizer.ratio", text)


def _recomputed_modules(engine: Engine) -> Iterator[Advice]:
    """Warn about parameters that non-reentrant checkpointing keeps gathered.

    0.16.0 to 0.16.7 do not reset `ds_grads_remaining` before a pass (runtime/zero/parameter_offload.py).
    """
    setup = engine.setup
    if not setup.depends_on_reentrant or setup.use_reentrant:
        return
    if any(isinstance(step, Segment) for step in engine.tape.steps):
        text = "0.16.0 to 0.16.7 keep parameters that non-reentrant checkpointing recomputes gathered until the step"
        yield Advice(f"{ZERO}stage", f"{text}: upgrade to 0.16.8, or pass `use_reentrant=True`")


def _mistaken_fp32_accumulation(engine: Engine) -> Iterator[Advice]:
    """Warn about releases that ignore fp32 gradient accumulation.

    0.17.6 to 0.18.4 define `DDP_BFLOAT16` with the value of `BFLOAT16` (runtime/constants.py).
    """
    if engine.setup.accumulates_bf16_in_fp32 and engine.setup.quirks.fp32_accumulation_is_mistaken_for_bf16:
        states = ", and every rank holds the full optimizer state" if engine.setup.stage else ""
        yield Advice("data_types.grad_accum_dtype", f"0.17.6 to 0.18.4 accumulate in bf16 anyway{states}")


def _experts_not_leaf(engine: Engine) -> Iterator[Advice]:
    """Suggest leaf modules for MoE blocks, whose ranks can use different experts."""
    classes = {module.class_name for module in engine.tape.modules if module.class_name}
    if engine.setup.stage == 3 and classes and not classes & set(engine.setup.leaf_classes):
        names = ", ".join(sorted(classes))
        why = (
            "with experts as separate modules (Transformers 4), a rank that skips an expert hangs the others"
        )
        if engine.setup.quirks.lacks_leaf_module_key:
            call = f"deepspeed.utils.set_z3_leaf_modules(model, [{names}])"
            yield Advice(f"{ZERO}stage", f"make {names} a leaf module, with `{call}` in the script: {why}")
        else:
            yield Advice(f"{ZERO}leaf_module.classes", f"make {names} a leaf module: {why}")


def _sequence_parallel_dtype(engine: Engine) -> Iterator[Advice]:
    """Warn about fp32 gradient communication, the default with sequence parallelism."""
    setup = engine.setup
    if setup.sp_size > 1 and setup.stage in (0, 3) and setup.comm_itemsize > setup.itemsize:
        text = "gradients are communicated in fp32 with sequence parallelism"
        bucket = f", and the bucket takes {setup.comm_itemsize} bytes per element" if setup.stage == 3 else ""
        yield Advice(
            "seq_parallel_communication_data_type", f"{text}{bucket}. Set it to bf16 or fp16 to halve that"
        )


def _autoep_save(engine: Engine) -> Iterator[Advice]:
    """Warn about a save that fails.

    `_zero3_consolidated_16bit_state_dict` raises if experts have their own partition group (0.19.8).
    """
    setup = engine.setup
    if setup.ep_size and setup.stage == 3 and setup.gathers_on_save:
        text = "with AutoEP at stage 3 the model cannot be gathered: DeepSpeed raises when it is saved"
        yield Advice(f"{ZERO}stage3_gather_16bit_weights_on_model_save", text)


def _zenflow_layout(engine: Engine) -> Iterator[Advice]:
    """Warn about weights that ZenFlow transposes.

    `_update_model_bit16_weights` reads the transposed weights with their original shape (0.19.7 and 0.19.8).
    """
    setup = engine.setup
    if setup.zenflow and setup.stage in (1, 2):
        text = "since 0.19.7 stages 1 and 2 read matrices by rows that ZenFlow stores by columns"
        yield Advice(f"{ZERO}zenflow", f"{text}: the trained model is not the loaded one")


# The estimate: memory usage of a rank and of its host.

PHASES = ("load", "forward", "backward", "step")
"""Phases of every run; `save` is added if stage 3 gathers the model on save."""
AT_REST = "at rest"


@dataclass(frozen=True, slots=True)
class Term:
    """Bytes of one term at rest and at each peak."""

    name: str
    bytes: int
    """The largest of `phases`."""
    phases: Mapping[str, int]
    """Bytes at rest (`at_rest`) and at the peak of each phase."""
    key: str
    formula: str


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """Usage of one memory: a rank's GPU, or a host."""

    at_rest: int
    peak: Mapping[str, int]
    bound: Mapping[str, int]
    """Upper bound of each peak."""
    terms: tuple[Term, ...]

    @property
    def highest_peak(self) -> int:
        """The highest peak, or the usage at rest if that is higher."""
        return max(self.at_rest, *self.peak.values())

    @property
    def upper_bound(self) -> int:
        """The highest of the upper bounds."""
        return max(self.at_rest, *self.bound.values())

    def lower_bound(self, lowering: Sequence[UnmodeledSetting]) -> int:
        """The highest upper bound without the terms that these settings may lower."""
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
        """The highest peak without slack, and without the terms that these settings may lower."""
        if not all(each.terms for each in lowering):
            return 0
        names = frozenset[str]().union(*(each.terms for each in lowering))
        reducible = [term.phases for term in self.terms if term.name in names]
        totals = {"at_rest": self.at_rest, **self.peak}
        return max(count - sum(live.get(phase, 0) for live in reducible) for phase, count in totals.items())

    def to_dict(self) -> JsonObject:
        """The usage as JSON."""
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
class Collective:
    """Calls of one collective in one phase of a step."""

    phase: str
    name: str
    calls: int
    numel: int
    itemsize: int
    ranks: int

    @property
    def sent(self) -> int:
        """Bytes that a rank sends with a ring algorithm."""
        times = 2 if self.name == "all_reduce" else 1
        return times * self.numel * self.itemsize * (self.ranks - 1) // self.ranks


@dataclass(frozen=True, slots=True)
class Estimate:
    """Memory usage of a rank and of a host; `to_dict` returns JSON."""

    release: str
    world_size: int
    number: int
    """The rank with the highest usage."""
    parameters: int
    trained: int
    rank: MemoryUsage
    host: MemoryUsage
    collectives: tuple[Collective, ...]
    assumptions: tuple[str, ...]
    findings: tuple[Advice, ...] = ()
    """Settings that waste memory, or do not work with this model."""
    unmodelled: tuple[UnmodeledSetting, ...] = ()
    """Settings of the job that change memory and are not in these numbers."""
    assumed: tuple[UnmodeledSetting, ...] = (HOST_BUILD,)
    """Assumptions about the script."""
    device: DeviceUsage | None = None
    """Memory of the process in `nvidia-smi`; None if the simulation had a limit."""

    @property
    def has_activations(self) -> bool:
        """Whether the layers of the model are known, so that activations are estimated."""
        return any(term.bytes > 1024 for term in self.rank.terms if term.name in ACTIVATION_TERMS)

    def verdict(self, name: str, least: int, most: int | None = None, margin: int = 0) -> Verdict:
        """Whether `rank` or `host` fits into `least` bytes (or `most`, if a range of sizes is possible)."""
        needed = (self.rank if name == RANK else self.host).upper_bound + margin
        if needed <= least:
            return self._unless_raised(name)
        most = least if most is None else most
        if needed <= most or self.lower_bound(name) + margin <= most:
            is_assumed = needed > most and not any(name in each.lowers for each in self.unmodelled)
            return TIGHT if is_assumed and name == RANK else UNKNOWN
        return EXCEEDS

    def _unless_raised(self, name: str) -> Verdict:
        """`fits`, unless a setting that is not estimated, or an input that is not given, may need more."""
        if any(name in each.raises for each in self.unmodelled):
            return UNKNOWN
        return TIGHT if any(name in each.raises for each in self.assumed) else FITS

    def device_verdict(self, least: int, most: int | None = None) -> DeviceVerdict:
        """Whether the process of a rank fits on a GPU with `least` bytes (or `most`), with all that torch cannot see.

        It fits if the upper bound does, with fragmentation and the highest overheads. It does not fit if not even the
        allocated bytes do, with the lowest overheads.
        """
        device, most = self.device, least if most is None else most
        assert device is not None
        low, high = device.overhead
        low -= max(0, self.rank.highest_peak - device.allocated)  # the doubt about a generic model
        lowering = [each for each in (*self.unmodelled, *self.assumed) if RANK in each.lowers]
        if self.rank.least_needed([]) + low > most:
            if self.rank.least_needed(lowering) + low > most:
                return DeviceVerdict(EXCEEDS)
            unmodeled = [each for each in lowering if each in self.unmodelled]
            if unmodeled and self.rank.least_needed(unmodeled) + low <= most:
                return DeviceVerdict(UNKNOWN, "settings that are not estimated decide whether it fits")
            return DeviceVerdict(TIGHT, _reasons(lowering))
        if device.bound + high > least:
            if device.bound + high <= most:
                return DeviceVerdict(UNKNOWN, CARD)
            return DeviceVerdict(
                TIGHT, "the expected range exceeds the GPU: the CUDA context, NCCL and kernels decide"
            )
        if not device.survives(least):
            ways_out = "fragmentation decides"
            if device.survives(least, expandable=True):
                ways_out += "; `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` avoids it"
            return DeviceVerdict(TIGHT, ways_out)
        verdict = self._unless_raised(RANK)
        if verdict == UNKNOWN:
            return DeviceVerdict(UNKNOWN, "settings that are not estimated decide whether it fits")
        return DeviceVerdict(verdict, _reasons(each for each in self.assumed if RANK in each.raises))

    def lower_bound(self, name: str) -> int:
        """Upper bound of `rank` or `host` without the terms that could be smaller than estimated."""
        side = self.rank if name == RANK else self.host
        return side.lower_bound([each for each in (*self.unmodelled, *self.assumed) if name in each.lowers])

    def to_dict(self) -> JsonObject:
        """The estimate as JSON."""
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
    """A verdict, and which assumption decides it."""

    word: Verdict
    reason: str = ""


def _reasons(settings: Iterable[UnmodeledSetting]) -> str:
    return "; ".join(f"{each.key} decides: {each.text}" for each in settings)


class MemoryLimit(NamedTuple):
    """Bytes that a rank and a host have; None: no limit."""

    rank: int | None = None
    host: int | None = None

    def fits(self, estimate: Estimate) -> bool:
        """Whether the upper bounds of an estimate are within the limits."""
        if self.rank is not None and estimate.rank.upper_bound > self.rank:
            return False
        return self.host is None or estimate.host.upper_bound <= self.host


NO_LIMIT = MemoryLimit()


def simulate(
    setup: Setup,
    tape: Tape,
    batch: MicroBatch,
    limit: MemoryLimit = NO_LIMIT,
    extra: TrainerMemory = NO_EXTRA,
) -> tuple[Ledger, Engine]:
    """Simulate an engine for a recorded model: load it, then run one step.

    Raises:
        LimitExceededError: the usage exceeds a limit; raised as soon as that is certain.
    """
    ledger = Ledger(tracks_combined=not setup.has_separate_host)
    ledger.rank.limit = limit.rank
    if not any(weight.requires_grad for weight in tape.weights):
        names = ", ".join(sorted(batch.adapter.targets)) if batch.adapter else ""
        raise NotModelledError(
            f"no linear layer is called {names}", f"use some of {', '.join(tape.linear_names)}, or all"
        )
    reject_run(setup, tape, batch.gradient_checkpointing)
    engine = select_engine(setup, tape, ledger)
    engine.load()
    ledger.allocate_briefly(PINNED, engine.pinned_padding() if setup.has_separate_host else 0, host=True)
    ledger.reset()
    ledger.enter(AT_REST)
    if limit == NO_LIMIT:
        ledger.rank.events = []
    ledger.allocate(WEIGHTS, tape.buffer_bytes)
    engine.allocate_at_rest()
    if extra.has_value_model:
        ledger.allocate(VALUE, ledger.rank.total)
    ledger.allocate(FROZEN, extra.frozen)
    ledger.allocate(VLLM, extra.vllm)
    ledger.rank.mark_step()
    if extra.generation:
        ledger.enter("forward")
        ledger.allocate_briefly(GENERATION, extra.generation)
    if limit.host is not None and ledger.host.total > limit.host:
        raise LimitExceededError
    engine.run()
    return ledger, engine


def usage_of(pool: MemoryPool, engine: Engine | None = None, times: int = 1) -> MemoryUsage:
    """Collect the usage of a rank, or of a host with `times` ranks."""
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
        terms.append(Term(name, max(by_phase.values()), by_phase, *TERMS[name]))
    order = {name: index for index, name in enumerate(TERMS)}
    terms.sort(key=lambda term: order[term.name])
    return MemoryUsage(
        pool.total * times,
        peaks,
        {phase: bound(count, phase, engine) for phase, count in peaks.items()},
        tuple(terms),
    )


def bound(count: int, phase: str, engine: Engine | None = None) -> int:
    """Upper bound of a peak.

    The step may allocate one more gradient of the largest parameter. So may forward and backward passes that
    gather parameters. Both are on the rank, not on the host.
    """
    if not count:
        return 0
    # Which gradients of a layer coexist depends on autograd's order, so the bound adds one of the largest
    # size.
    gathers_one_more = engine is not None and (phase == "step" or (engine.gathers and phase != "load"))
    return with_slack(count) + (
        engine.largest_block_in(phase) if engine is not None and gathers_one_more else 0
    )


def estimate(
    setup: Setup,
    arch: Architecture,
    batch: MicroBatch,
    release: str,
    ranks_of_host: int,
    assumptions: tuple[str, ...],
    limit: MemoryLimit = NO_LIMIT,
    extra: TrainerMemory = NO_EXTRA,
) -> Estimate:
    """Estimate the rank with the highest usage, the first or the last, and a host with `ranks_of_host` ranks.

    Raises:
        LimitExceededError: rank or host exceed their limit; raised as soon as that is certain.
    """
    candidates = []
    ranks_are_equal = setup.stage in (0, 3)
    host = limit.host // ranks_of_host if ranks_are_equal and limit.host is not None else None
    tape = record(arch, batch)
    if extra.gathered:
        tape.add_transient(extra.gathered)
    # At stages 1 and 2 the last rank owns the last layers, whose gradients come while all activations are
    # alive. Rank 0 can still have the larger embedding.
    for number in (0,) if ranks_are_equal else sorted({0, setup.dp_world_size - 1}):
        ledger, engine = simulate(
            setup._replace(rank=number), tape, batch, MemoryLimit(limit.rank, host), extra
        )
        candidates.append((max(peak.bytes for peak in ledger.rank.peaks.values()), number, ledger, engine))
    _, number, ledger, engine = max(candidates, key=lambda entry: entry[0])
    calls = tuple(
        Collective(phase, name, count, numel, itemsize, ranks)
        for (phase, name, itemsize, ranks), (count, numel) in engine.calls.items()
    )
    return Estimate(
        release,
        setup.dp_world_size * setup.tp_size,
        number * setup.tp_size,
        engine.model_numel + sum(w.original_numel - w.numel for w in tape.weights if w.original_numel),
        engine.trainable_numel,
        usage_of(ledger.rank, engine),
        usage_of(ledger.host, times=ranks_of_host),
        calls,
        assumptions,
        advice_for(engine, ledger),
        device=_device_usage(ledger, engine, arch, batch),
    )


def _device_usage(
    ledger: Ledger, engine: Engine, arch: Architecture, batch: MicroBatch
) -> DeviceUsage | None:
    """The usage of the GPU by the process of a rank, if its allocations were recorded."""
    pool = ledger.rank
    if pool.events is None:
        return None
    usage, events = usage_of(pool, engine), [Event(*event) for event in pool.events]
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
    )
