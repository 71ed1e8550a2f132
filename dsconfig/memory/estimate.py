"""Memory estimate of a config with a model: every term at rest and at the peaks, and advice on settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.engines.base import CONSOLIDATED, PINNED, SAVE
from dsconfig.memory.engines.param_coordinator import GATHERED
from dsconfig.memory.engines.select_engine import select_engine
from dsconfig.memory.engines.zero12 import Stage12State, reject_mistyped_grads
from dsconfig.memory.graph import Segment
from dsconfig.memory.memory_ledger import SLACK, TERMS, Ledger, LimitExceededError, MemoryPool, with_slack
from dsconfig.memory.models.registry import record
from dsconfig.memory.quantized_gather import reject_quantized
from dsconfig.memory.verdict import (
    EXCEEDS,
    FITS,
    HOST_BUILD,
    RANK,
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


# Settings that gain nothing with this model, reported beside the table.

ZERO = "zero_optimization."
NEARLY_ALL = 0.98


class Advice(NamedTuple):
    """One of them, and the key that it is about."""

    key: str
    text: str

    def to_dict(self) -> JsonObject:
        """As JSON has it."""
        return {"key": self.key, "text": self.text}


def advice_for(engine: Engine, ledger: Ledger) -> tuple[Advice, ...]:
    """All of them."""
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
    setup = engine.setup
    if setup.stage and setup.contiguous_gradients and setup.reduce_bucket_size > engine.trainable_numel:
        text = f"the bucket of {setup.reduce_bucket_size:,} elements is larger than all {engine.trainable_numel:,} that are trained"
        yield Advice(f"{ZERO}reduce_bucket_size", f"{text}, and is allocated whole")


def _flatten_location(engine: Engine, ledger: Ledger) -> Iterator[Advice]:
    """Where weights are flattened decides the highest peak (`flatten_on_accelerator`, stage_1_and_2.py)."""
    if not isinstance(engine, Stage12State) or engine.setup.quirks.flattens_on_host:
        return
    since = "from 0.19.0 on stages 1 and 2 flatten the weights on the host where the GPU lacks room"
    if engine.flattened_on_host:
        yield Advice(f"{ZERO}stage", f"{since} for a second copy of them, as here")
    peaks = {phase: peak.bytes for phase, peak in ledger.rank.peaks.items()}
    if engine.setup.gpu_limit is None and max(peaks, key=lambda phase: peaks[phase]) == "load":
        yield Advice(f"{ZERO}stage", f"{since} for a second copy of them: `--gpu` tells whether it does")


def _stage3_gathering(engine: Engine, ledger: Ledger) -> Iterator[Advice]:
    """What stage 3 gathers, and what it offloads of one sub-group."""
    setup = engine.setup
    if setup.stage != 3:
        return
    peaks = ledger.rank.peaks
    most = max(peaks[phase].live.get(GATHERED, 0) for phase in ("forward", "backward") if phase in peaks)
    if setup.dp_world_size > 1 and most >= NEARLY_ALL * setup.itemsize * engine.total_numel:
        text = "all parameters are gathered at once: lower it together with `stage3_max_live_parameters`"
        yield Advice(f"{ZERO}stage3_max_reuse_distance", text)
    shards = sum(-(-weight.numel // setup.dp_world_size) for weight in engine.trainable)
    if setup.offloads_optimizer and 0 < setup.offload_ratio < 1 and setup.stage3.sub_group_size >= shards:
        text = f"all is offloaded, for the {shards:,} parameters of a rank are one sub-group"
        yield Advice(f"{ZERO}offload_optimizer.ratio", text)


def _recomputed_modules(engine: Engine) -> Iterator[Advice]:
    """`ds_grads_remaining` is not set back before a pass (0.16.0 to 0.16.7, parameter_offload.py)."""
    setup = engine.setup
    if setup.stage != 3 or not setup.quirks.miscounts_recomputed_modules or setup.use_reentrant:
        return
    if any(isinstance(step, Segment) for step in engine.tape.steps):
        text = "0.16.0 to 0.16.7 keep what non-reentrant checkpointing computes again gathered until the step"
        yield Advice(f"{ZERO}stage", f"{text}: upgrade to 0.16.8, or pass `use_reentrant=True`")


def _mistaken_fp32_accumulation(engine: Engine) -> Iterator[Advice]:
    """`DDP_BFLOAT16` was the same word as `BFLOAT16` (0.17.6 to 0.18.4, runtime/constants.py)."""
    if engine.setup.uses_bf16_optimizer and engine.setup.quirks.mistakes_fp32_accumulation:
        held = ", and every rank holds the full optimizer state" if engine.setup.stage else ""
        yield Advice("data_types.grad_accum_dtype", f"0.17.6 to 0.18.4 accumulate in bf16 all the same{held}")


def _experts_not_leaf(engine: Engine) -> Iterator[Advice]:
    kinds = {module.class_name for module in engine.tape.modules if module.class_name}
    if engine.setup.stage == 3 and kinds and not kinds & set(engine.setup.leaf_classes):
        names = ", ".join(sorted(kinds))
        why = "where experts are modules (Transformers 4), ranks that skip one wait for ever"
        if engine.setup.quirks.reads_leaf_module:
            yield Advice(f"{ZERO}leaf_module.classes", f"make {names} a leaf: {why}")
        else:
            call = f"deepspeed.utils.set_z3_leaf_modules(model, [{names}])"
            yield Advice(f"{ZERO}stage", f"make {names} a leaf, with `{call}` in the script: {why}")


def _sequence_parallel_dtype(engine: Engine) -> Iterator[Advice]:
    """Gradients of ranks that share sequences are sent in fp32 unless this key says another type."""
    setup = engine.setup
    if setup.sp_size > 1 and setup.stage in (0, 3) and setup.comm_itemsize > setup.itemsize:
        text = "gradients are sent in fp32 where ranks share sequences"
        more = f", and the bucket takes {setup.comm_itemsize} bytes an element" if setup.stage == 3 else ""
        yield Advice("seq_parallel_communication_data_type", f"{text}{more}: say bf16 or fp16 for half of it")


def _autoep_save(engine: Engine) -> Iterator[Advice]:
    """`_zero3_consolidated_16bit_state_dict` raises where experts are partitioned apart (0.19.8)."""
    setup = engine.setup
    if setup.ep_size and setup.stage == 3 and setup.gathers_on_save:
        text = "the model cannot be put together with AutoEP at stage 3: DeepSpeed raises as it is saved"
        yield Advice(f"{ZERO}stage3_gather_16bit_weights_on_model_save", text)


def _zenflow_layout(engine: Engine) -> Iterator[Advice]:
    """`_update_model_bit16_weights` views the transposed weights in their old shape (0.19.7 and 0.19.8)."""
    setup = engine.setup
    if setup.zenflow and setup.stage in (1, 2):
        text = "from 0.19.7 on stages 1 and 2 read matrices row by row that ZenFlow has laid out by columns"
        yield Advice(f"{ZERO}zenflow", f"{text}: the model that is trained is not the one that was loaded")


# `memory`: what a config holds with a model, at rest and at the peaks.

PHASES = ("load", "forward", "backward", "step")
"""Those of every run; where a model is put together to be saved there is a fifth, `save`."""
AT_REST = "at rest"


@dataclass(frozen=True, slots=True)
class Term:
    """One kind of thing that is held."""

    name: str
    bytes: int
    """At rest, or at the peak of the phase that holds most of it."""
    phases: Mapping[str, int]
    """Its part of what is held at rest and at each peak."""
    key: str
    formula: str


@dataclass(frozen=True, slots=True)
class Side:
    """One memory: a rank's GPU, or a host's."""

    at_rest: int
    peak: Mapping[str, int]
    bound: Mapping[str, int]
    """What each peak stays below."""
    terms: tuple[Term, ...]

    @property
    def most(self) -> int:
        """The highest peak, or what is held at rest."""
        return max(self.at_rest, *self.peak.values())

    @property
    def most_bound(self) -> int:
        """The highest of the bounds."""
        return max(self.at_rest, *self.bound.values())

    def floor(self, lowering: Sequence[UnmodeledSetting]) -> int:
        """The highest of the bounds, without all that could be less."""
        if not lowering:
            return self.most_bound
        if not all(each.terms for each in lowering):
            return 0
        names = frozenset[str]().union(*(each.terms for each in lowering))
        less = [term.phases for term in self.terms if term.name in names]
        found = [self.at_rest - sum(held.get("at_rest", 0) for held in less)]
        for phase, count in self.peak.items():
            padded_shard_numel = sum(held.get(phase, 0) for held in less)
            found.append(
                self.bound[phase] - padded_shard_numel - padded_shard_numel // SLACK
                if padded_shard_numel < count
                else 0
            )
        return max(found)

    def to_dict(self) -> JsonObject:
        """As JSON has it."""
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
    """Calls of one kind in one phase of a step."""

    phase: str
    name: str
    calls: int
    numel: int
    itemsize: int
    ranks: int

    @property
    def sent(self) -> int:
        """Bytes that a rank sends, in a ring."""
        times = 2 if self.name == "all_reduce" else 1
        return times * self.numel * self.itemsize * (self.ranks - 1) // self.ranks


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a rank and a host hold; `to_dict` for JSON."""

    release: str
    world_size: int
    number: int
    """The rank that holds most."""
    parameters: int
    trained: int
    rank: Side
    host: Side
    collectives: tuple[Collective, ...]
    assumptions: tuple[str, ...]
    findings: tuple[Advice, ...] = ()
    """What the config does to no purpose with this model."""
    unmodelled: tuple[UnmodeledSetting, ...] = ()
    """What of the job is not in these numbers, though it changes them."""
    assumed: tuple[UnmodeledSetting, ...] = (HOST_BUILD,)
    """What of the script they take for granted."""

    def verdict(self, name: str, least: int, most: int | None = None, margin: int = 0) -> Verdict:
        """Whether a `rank` or a `host` fits so many bytes; `most`: where only a range of them is known."""
        needed = (self.rank if name == RANK else self.host).most_bound + margin
        if needed <= least:
            return UNKNOWN if any(name in each.raises for each in self.unmodelled) else FITS
        most = least if most is None else most
        return UNKNOWN if needed <= most or self.floor(name) + margin <= most else EXCEEDS

    def floor(self, name: str) -> int:
        """What a `rank` or a `host` holds at most, without what could be less than the estimate."""
        side = self.rank if name == RANK else self.host
        return side.floor([each for each in (*self.unmodelled, *self.assumed) if name in each.lowers])

    def to_dict(self) -> JsonObject:
        """As JSON has it."""
        sent: list[Json] = [
            {
                "phase": found.phase,
                "name": found.name,
                "calls": found.calls,
                "elements": found.numel,
                "ranks": found.ranks,
                "bytes": found.sent,
            }
            for found in self.collectives
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
                "bytes": sum(found.sent for found in self.collectives),
                "collectives": sent,
            },
            "assumptions": list(self.assumptions),
            "findings": [found.to_dict() for found in self.findings],
            "not_modelled": [found.to_dict() for found in self.unmodelled],
        }


class Room(NamedTuple):
    """Bytes that a rank, and a host, may hold; None: any number of them."""

    rank: int | None = None
    host: int | None = None

    def holds(self, found: Estimate) -> bool:
        """Whether the bounds of an estimate are within it."""
        if self.rank is not None and found.rank.most_bound > self.rank:
            return False
        return self.host is None or found.host.most_bound <= self.host


ANY = Room()


def simulate(setup: Setup, tape: Tape, batch: MicroBatch, room: Room = ANY) -> tuple[Ledger, Engine]:
    """Build an engine on paper around what was recorded, and take one step with it.

    Raises:
        ExceededError: it does not fit, as soon as that is clear.
    """
    ledger = Ledger(tracks_combined=not setup.has_separate_host)
    ledger.rank.limit = room.rank
    if not any(weight.requires_grad for weight in tape.weights):
        names = ", ".join(sorted(batch.adapter.targets)) if batch.adapter else ""
        raise NotModelledError(
            f"no linear layer is called {names}", f"give some of {', '.join(tape.linear_names)}, or all"
        )
    if setup.zenflow:
        from dsconfig.memory.optimizers import reject_zenflow_shapes

        reject_zenflow_shapes(setup, tape.weights, batch.gradient_checkpointing)
    reject_quantized(setup, tape)
    reject_mistyped_grads(setup, tape)
    engine = select_engine(setup, tape, ledger)
    engine.load()
    ledger.allocate_briefly(PINNED, engine.pinned_padding() if setup.has_separate_host else 0, host=True)
    ledger.reset()
    ledger.enter(AT_REST)
    engine.allocate_steady_state()
    if room.host is not None and ledger.host.total > room.host:
        raise LimitExceededError
    engine.run()
    return ledger, engine


def side(place: MemoryPool, engine: Engine | None = None, times: int = 1) -> Side:
    """What the memory of a rank holds, or that of a host with so many; see `bound`."""
    phases = [*PHASES, *([SAVE] if SAVE in place.peaks else [])]
    parts = {AT_REST: place.live}
    parts |= {phase: dict(place.peaks[phase].live) for phase in phases if phase in place.peaks}
    parts = {phase: {name: count for name, count in held.items() if count} for phase, held in parts.items()}

    def bytes_of(name: str, phase: str) -> int:
        return parts[phase][name] * (1 if name == CONSOLIDATED else times)  # one rank of a host saves

    peaks = {phase: sum(bytes_of(name, phase) for name in parts.get(phase, ())) for phase in phases}
    terms = []
    for name in dict.fromkeys(name for held in parts.values() for name in held):
        own = {
            phase.replace(" ", "_"): bytes_of(name, phase) for phase, held in parts.items() if name in held
        }
        terms.append(Term(name, max(own.values()), own, *TERMS[name]))
    order = {name: index for index, name in enumerate(TERMS)}
    terms.sort(key=lambda term: order[term.name])
    return Side(
        place.total * times,
        peaks,
        {phase: bound(count, phase, engine) for phase, count in peaks.items()},
        tuple(terms),
    )


def bound(count: int, phase: str, engine: Engine | None = None) -> int:
    """What a peak stays below: nothing that is not there grows.

    There may be one more of the largest gradient in a step, and where parameters are gathered in the passes
    too: on the rank, not on the host.
    """
    if not count:
        return 0
    more = engine is not None and (phase == "step" or (engine.gathers and phase != "load"))
    return with_slack(count) + (engine.largest_block_in(phase) if engine is not None and more else 0)


def estimate(
    setup: Setup,
    arch: Architecture,
    batch: MicroBatch,
    release: str,
    ranks_of_host: int,
    assumptions: tuple[str, ...],
    room: Room = ANY,
) -> Estimate:
    """The rank that holds most, of the first and the last; and a host with so many of them.

    Raises:
        ExceededError: one of them does not fit, as soon as that is clear.
    """
    found = []
    alone = setup.stage in (0, 3)
    host = room.host // ranks_of_host if alone and room.host is not None else None
    tape = record(arch, batch)
    for number in (0,) if alone else sorted({0, setup.dp_world_size - 1}):
        ledger, engine = simulate(setup._replace(rank=number), tape, batch, Room(room.rank, host))
        found.append((max(peak.bytes for peak in ledger.rank.peaks.values()), number, ledger, engine))
    _, number, ledger, engine = max(found, key=lambda entry: entry[0])
    calls = tuple(
        Collective(phase, name, count, numel, itemsize, ranks)
        for (phase, name, itemsize, ranks), (count, numel) in engine.calls.items()
    )
    return Estimate(
        release,
        setup.dp_world_size * setup.tp_size,
        number * setup.tp_size,
        engine.model_numel,
        engine.trainable_numel,
        side(ledger.rank, engine),
        side(ledger.host, times=ranks_of_host),
        calls,
        assumptions,
        advice_for(engine, ledger),
    )
