"""`memory`: what a config holds with a model, at rest and at the peaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.advice import Remark, remarks
from dsconfig.memory.engines.base import CONSOLIDATED, SAVE
from dsconfig.memory.engines.pinned_memory import PINNED
from dsconfig.memory.engines.select_engine import engine_of
from dsconfig.memory.gradient_dtype_errors import refuse_mistyped
from dsconfig.memory.memory_ledger import SLACK, ExceededError, Ledger, Place, with_slack
from dsconfig.memory.memory_terms import MEANINGS
from dsconfig.memory.models.registry import record
from dsconfig.memory.not_modelled import NotModelledError
from dsconfig.memory.quantized_gather import refuse_quantised
from dsconfig.memory.verdict import BUILT, EXCEEDS, FITS, RANK, UNKNOWN, Unmodelled, Verdict

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.memory.engines.base import Engine
    from dsconfig.memory.engines.setup import Setup
    from dsconfig.memory.graph import Tape
    from dsconfig.memory.models.shape import Shape, Work

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

    def floor(self, lowering: Sequence[Unmodelled]) -> int:
        """The highest of the bounds, without all that could be less."""
        if not lowering:
            return self.most_bound
        if not all(each.terms for each in lowering):
            return 0
        names = frozenset[str]().union(*(each.terms for each in lowering))
        less = [term.phases for term in self.terms if term.name in names]
        found = [self.at_rest - sum(held.get("at_rest", 0) for held in less)]
        for phase, count in self.peak.items():
            part = sum(held.get(phase, 0) for held in less)
            found.append(self.bound[phase] - part - part // SLACK if part < count else 0)
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
    elements: int
    width: int
    ranks: int

    @property
    def sent(self) -> int:
        """Bytes that a rank sends, in a ring."""
        times = 2 if self.name == "all_reduce" else 1
        return times * self.elements * self.width * (self.ranks - 1) // self.ranks


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
    findings: tuple[Remark, ...] = ()
    """What the config does to no purpose with this model."""
    unmodelled: tuple[Unmodelled, ...] = ()
    """What of the job is not in these numbers, though it changes them."""
    assumed: tuple[Unmodelled, ...] = (BUILT,)
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
                "elements": found.elements,
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


def simulate(setup: Setup, tape: Tape, work: Work, room: Room = ANY) -> tuple[Ledger, Engine]:
    """Build an engine on paper around what was recorded, and take one step with it.

    Raises:
        ExceededError: it does not fit, as soon as that is clear.
    """
    ledger = Ledger(together=not setup.apart)
    ledger.rank.most = room.rank
    if not any(weight.trains for weight in tape.weights):
        names = ", ".join(sorted(work.adapter.targets)) if work.adapter else ""
        raise NotModelledError(
            f"no linear layer is called {names}", f"give some of {', '.join(tape.linear)}, or all"
        )
    if setup.selection:
        from dsconfig.memory.zenflow_support import refuse_shapes

        refuse_shapes(setup, tape.weights, work.checkpointing)
    refuse_quantised(setup, tape)
    refuse_mistyped(setup, tape)
    engine = engine_of(setup, tape, ledger)
    engine.load()
    ledger.touch(PINNED, engine.rounding() if setup.apart else 0, host=True)
    ledger.clear()
    ledger.enter(AT_REST)
    engine.settle()
    if room.host is not None and ledger.host.total > room.host:
        raise ExceededError
    engine.run()
    return ledger, engine


def side(place: Place, engine: Engine | None = None, times: int = 1) -> Side:
    """What the memory of a rank holds, or that of a host with so many; see `bound`."""
    phases = [*PHASES, *([SAVE] if SAVE in place.peaks else [])]
    parts = {AT_REST: place.held}
    parts |= {phase: dict(place.peaks[phase].held) for phase in phases if phase in place.peaks}
    parts = {phase: {name: count for name, count in held.items() if count} for phase, held in parts.items()}

    def bytes_of(name: str, phase: str) -> int:
        return parts[phase][name] * (1 if name == CONSOLIDATED else times)  # one rank of a host saves

    peaks = {phase: sum(bytes_of(name, phase) for name in parts.get(phase, ())) for phase in phases}
    terms = []
    for name in dict.fromkeys(name for held in parts.values() for name in held):
        own = {
            phase.replace(" ", "_"): bytes_of(name, phase) for phase, held in parts.items() if name in held
        }
        terms.append(Term(name, max(own.values()), own, *MEANINGS[name]))
    order = {name: index for index, name in enumerate(MEANINGS)}
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
    return with_slack(count) + (engine.largest_in(phase) if engine is not None and more else 0)


def estimate(
    setup: Setup,
    shape: Shape,
    work: Work,
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
    tape = record(shape, work)
    for number in (0,) if alone else sorted({0, setup.world - 1}):
        ledger, engine = simulate(setup._replace(rank=number), tape, work, Room(room.rank, host))
        found.append((max(peak.bytes for peak in ledger.rank.peaks.values()), number, ledger, engine))
    _, number, ledger, engine = max(found, key=lambda entry: entry[0])
    calls = tuple(
        Collective(phase, name, count, elements, width, ranks)
        for (phase, name, width, ranks), (count, elements) in engine.calls.items()
    )
    return Estimate(
        release,
        setup.world * setup.tensor,
        number * setup.tensor,
        engine.whole,
        engine.elements,
        side(ledger.rank, engine),
        side(ledger.host, times=ranks_of_host),
        calls,
        assumptions,
        remarks(engine, ledger),
    )
