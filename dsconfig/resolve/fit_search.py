"""The smallest changes with which a config fits a GPU, the cheapest in speed first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from dsconfig.core.batch_triplet import MICRO, STEPS
from dsconfig.core.batch_triplet import TRAIN as BATCH
from dsconfig.memory.estimate import Estimate, Room
from dsconfig.memory.models.registry import record
from dsconfig.memory.verdict import EXCEEDS, FITS, HOST, RANK, UNKNOWN, NotModelledError
from dsconfig.resolve.errors import ResolveError
from dsconfig.resolve.memory_changes import After, Change, over, set_to, steps_of
from dsconfig.resolve.memory_request import Options, Question, ask
from dsconfig.resolve.shrink_batch import ZENFLOW, Filler, count, filler_of, smaller_batches

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.document import Document
    from dsconfig.memory.verdict import Unmodelled, Verdict

ZERO = "zero_optimization."
SMALL_BUCKET, FEW_LIVE, SMALL_GROUP = 50_000_000, 100_000_000, 100_000_000
MOST_RANKS, GIB, KILO = 4096, 1 << 30, 1024
LIVE = (f"{ZERO}stage3_max_live_parameters", f"{ZERO}stage3_max_reuse_distance")
NVME = "/local_nvme"
"""Where nothing says another folder: DeepSpeed's documentation has this one."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The changes that were found, with what is held after each; none where nothing had to change.

    `ranks`: where no changes are enough, so many ranks would be; None where not even those. `chosen`: the
    changes one by one, as the ladder has them; in `changes` those stand together that change nothing alone.
    """

    fits: bool
    changes: tuple[After, ...] = ()
    ranks: int | None = None
    why: str = ""
    chosen: tuple[Change, ...] = ()
    unmodelled: tuple[Unmodelled, ...] = ()

    verdict: Verdict = EXCEEDS
    """Whether it fits after all these changes, or what is not modelled decides."""

    def to_dict(self) -> JsonObject:
        """As JSON has it."""
        changes: list[Json] = [change.to_dict(bound, host) for change, bound, host in self.changes]
        return {
            "fits": self.fits,
            "verdict": self.verdict,
            "changes": changes,
            "world_size": self.ranks,
            "why": self.why or None,
            "not_modelled": [each.to_dict() for each in self.unmodelled],
        }


Asks = Callable[[Sequence[Change], int], Question]
"""The question after these changes, on so many ranks."""


def fitted(document: Document, options: Options, room: int, host: int | None = None) -> Fit:
    """The smallest changes with which a rank holds no more than `room` bytes, and a host than `host`.

    It is the upper bound of the estimate that has to fit, at the highest peak; `room` is without the margin.
    """
    search, first, changes = search_of(document, options, room, host)
    return replace(search.fit(first, changes), unmodelled=first.unmodelled)


def search_of(
    document: Document, options: Options, room: int, host: int | None = None
) -> tuple[Search, Estimate, list[Change]]:
    """The search, what is held before any change, and all changes, the cheapest first."""
    written = dict(options.set or {})
    if options.micro_batch is not None:  # has the last word
        written.pop(MICRO, None)
    options = options._replace(room=room)
    first = ask(document, options)

    def asks(changes: Sequence[Change], ranks: int) -> Question:
        values = reduce(over, (change.values for change in changes), dict[str, "Json"]())
        if ranks != first.run.world_size and "train_batch_size" in first.run.config:  # it grows with them
            groups = ranks // first.setup.sequence
            triplet = {
                MICRO: first.run.train_micro_batch_size_per_gpu,
                STEPS: first.setup.accumulation,
                **values,
            }
            values = {**triplet, BATCH: int(str(triplet[MICRO])) * int(str(triplet[STEPS])) * groups}
        return ask(document, _changed(options, changes, over(written, values), ranks))

    checkpoints, in_shards = first.work.checkpointing, first.setup.zero_init
    part = 0 if host is None else _largest_part(first)
    zenflow, filler = bool(first.setup.selection), filler_of(document, options, first.run)
    there = _sections_of(first.run.config)
    changes = list(ladder(first.values.values, checkpoints, in_shards, part, zenflow, filler, there))
    return Search(asks, Room(room, host)), first.answer(), changes


def _changed(options: Options, changes: Sequence[Change], values: Mapping[str, Json], ranks: int) -> Options:
    checks = any(change.checkpointing for change in changes) or options.checkpointing
    shards = any(change.zero_init for change in changes) or options.zero_init
    micro = None if MICRO in values else options.micro_batch
    return options._replace(
        set=values, checkpointing=checks, zero_init=shards, world_size=ranks, micro_batch=micro
    )


def ladder(
    values: Mapping[str, Json],
    checkpointing: bool,
    in_shards: bool,
    part: int,
    zenflow: bool,
    filler: Filler,
    there: frozenset[str],
) -> Iterator[Change]:
    """Changes in the order of what they cost in speed; `values`: what counts today.

    `part`: elements of the largest part of a parameter, where the host's memory is short, too; else 0.
    `zenflow`: whether it is on; it goes before stage 3, whose hooks turn neither shards that are built nor
    segments. `there`: sections of what is offloaded which the config has.
    """
    stage = count(values, f"{ZERO}stage")
    bucket = count(values, f"{ZERO}reduce_bucket_size") > SMALL_BUCKET
    smaller = set_to({f"{ZERO}reduce_bucket_size": SMALL_BUCKET})
    if bucket and stage:
        yield smaller
    if stage == 3:
        yield from _of_third(values, in_shards)
    yield from smaller_batches(values, zenflow, filler)
    if not checkpointing:
        yield CHECKPOINTING
    if zenflow:
        yield from _less_zenflow(values, stage, checkpointing, in_shards)
    for higher in range(stage + 1, 4):
        off = {f"{ZERO}reduce_scatter": False} if higher == 3 and _is_muon(values) else {}
        yield set_to({f"{ZERO}stage": higher, **off})
        if bucket and not stage and higher == 1:
            yield smaller
        if higher == 3:
            yield from _of_third(values, in_shards)
    yield from _offloads(values, there)
    if part:
        yield from _for_host(values, part)


def _less_zenflow(
    values: Mapping[str, Json], stage: int, checkpointing: bool, in_shards: bool
) -> Iterator[Change]:
    """Its states on the host, then none of it, with what stage 3 can do without it."""
    if not values.get(f"{ZENFLOW}.offload"):
        yield set_to({f"{ZENFLOW}.offload": True, f"{ZERO}overlap_comm": True})
    yield set_to({ZENFLOW: None})
    if stage == 3 and not checkpointing:
        yield CHECKPOINTING
    if stage == 3:
        yield from _of_third(values, in_shards)


def _is_muon(values: Mapping[str, Json]) -> bool:
    return str(values.get("optimizer.type")).lower() == "muon"


def _of_third(values: Mapping[str, Json], in_shards: bool) -> Iterator[Change]:
    """What only stage 3 knows."""
    if not in_shards:
        yield Change("build the model in shards (zero.Init) in the script", {}, zero_init=True)
    if any(count(values, key) > FEW_LIVE for key in LIVE) or LIVE[0] not in values:
        yield set_to(dict.fromkeys(LIVE, FEW_LIVE))


CHECKPOINTING = Change("checkpoint activations in the script", {}, checkpointing=True)
SECTIONS = (f"{ZERO}offload_optimizer", f"{ZERO}offload_param")


def _sections_of(config: JsonObject) -> frozenset[str]:
    zero = config.get("zero_optimization")
    found = zero if isinstance(zero, dict) else {}
    return frozenset(each for each in SECTIONS if isinstance(found.get(each.removeprefix(ZERO)), dict))


def _offloads(values: Mapping[str, Json], there: frozenset[str]) -> Iterator[Change]:
    """The optimizer before the parameters."""
    for section in SECTIONS:
        if values.get(f"{section}.device") in (None, "none"):
            yield set_to({f"{section}.device": "cpu"} if section in there else {section: {"device": "cpu"}})
        if section == SECTIONS[0] and _is_muon(values):  # stage 3 puts all matrices of a group together
            yield set_to({f"{ZERO}sub_group_size": SMALL_GROUP})


def _for_host(values: Mapping[str, Json], part: int) -> Iterator[Change]:
    """Without pinning, which takes more than is held; then its disk, with buffers that are large enough."""
    for section in SECTIONS:
        if values.get(f"{section}.pin_memory") is not False:
            yield set_to({f"{section}.pin_memory": False})
    for section in SECTIONS:
        if values.get(f"{section}.device") != "nvme":
            more = {f"{section}.buffer_size": part} if section == SECTIONS[1] else {}
            yield set_to({f"{section}.device": "nvme", f"{section}.nvme_path": NVME, **more})
    if count(values, f"{ZERO}sub_group_size") > SMALL_GROUP or f"{ZERO}sub_group_size" not in values:
        yield set_to({f"{ZERO}sub_group_size": SMALL_GROUP})


def _largest_part(asked: Question) -> int:
    """Elements of the largest that a rank has of one parameter, in whole kilobytes."""
    tape = record(asked.shape, asked.work)
    largest = max((weight.elements for weight in tape.weights), default=0)
    return -(-largest // asked.setup.world // KILO) * KILO


def _key(chosen: Sequence[Change], ranks: int) -> tuple[str, ...]:
    return (*(change.told for change in chosen), str(ranks))


class Search:
    """Which changes are enough."""

    def __init__(self, asks: Asks, room: Room) -> None:
        self.asks, self.room = asks, room
        self.known: dict[tuple[str, ...], Estimate] = {}
        """What fits, by what the changes tell."""

    def estimate(self, chosen: Sequence[Change], ranks: int) -> Estimate | None:
        """What is held after these changes; None where the release or the model does not go with them."""
        known = self.known.get(_key(chosen, ranks))
        try:
            return known or self.asks(chosen, ranks).answer()
        except (ResolveError, NotModelledError):
            return None

    def fits(self, chosen: Sequence[Change], ranks: int) -> bool | None:
        """Whether a rank fits, and a host where its memory is known; None where they do not go with it."""
        try:
            found = self.asks(chosen, ranks).fitting(self.room)
        except (ResolveError, NotModelledError):
            return None
        if found is not None:
            self.known[_key(chosen, ranks)] = found
        return found is not None

    def fit(self, first: Estimate, changes: Sequence[Change]) -> Fit:
        """The changes of the ladder up to the first that fits, without those that it fits without."""
        ranks = first.world_size
        if self.room.holds(first):
            return Fit(fits=True, verdict=self._verdict(first))
        chosen: list[Change] = []
        for change in changes:
            fits = self.fits([*chosen, change], ranks)
            if fits is not None:
                chosen.append(change)
            if fits:
                chosen = self._needed(chosen, ranks)
                verdict = self._verdict(self.estimate(chosen, ranks) or first)
                return Fit(True, self._after(chosen, first), chosen=tuple(chosen), verdict=verdict)
        last = self.estimate(chosen, ranks) or first
        after, most, verdict = self._after(chosen, first), self._reason(last), self._verdict(last)
        while (ranks := ranks * 2) <= MOST_RANKS:
            if self.fits(chosen, ranks):
                return Fit(False, after, ranks, most, verdict=verdict)
        return Fit(False, after, None, most, verdict=verdict)

    def _verdict(self, found: Estimate) -> Verdict:
        """The worse of those on a rank and on its host."""
        sides = ((RANK, self.room.rank), (HOST, self.room.host))
        verdicts = {found.verdict(name, there) for name, there in sides if there is not None}
        return EXCEEDS if EXCEEDS in verdicts else UNKNOWN if UNKNOWN in verdicts else FITS

    def _needed(self, chosen: list[Change], ranks: int) -> list[Change]:
        """Those without which the others are not enough, the costly left out first.

        One that was needed may not be once another is left out, as keys of stage 3 without it.
        """
        needed: list[Change] = []
        tried = chosen[:-1]  # it is the last with which it fits
        while len(needed) != len(chosen):
            needed = chosen
            for other in reversed(tried):
                fewer = [kept for kept in chosen if kept is not other]
                if self.fits(fewer, ranks):
                    chosen = fewer
            tried = chosen
        return chosen

    def _after(self, chosen: Sequence[Change], first: Estimate) -> tuple[After, ...]:
        """What is held at most after each change, or those that change nothing one by one."""

        def held(changes: Sequence[Change]) -> tuple[int, int] | None:
            found = self.estimate(changes, first.world_size) if changes else first
            return None if found is None else (found.rank.most_bound, found.host.most_bound)

        return tuple(steps_of(chosen, held, self.room.host is not None))

    def _reason(self, found: Estimate) -> str:
        """What takes most at the highest peak, of a rank, or of its host where that is what does not fit."""
        holder, side = "a rank", found.rank
        if self.room.rank is not None and side.most_bound <= self.room.rank:
            holder, side = "the host", found.host
        phase = max(side.bound, key=lambda name: side.bound[name])
        terms = sorted(side.terms, key=lambda term: -term.phases.get(phase, 0))[:3]
        named = ", ".join(f"{term.name} {term.phases.get(phase, 0) / GIB:.2f}" for term in terms)
        return f"in {phase} {holder} holds at most {side.bound[phase] / GIB:.2f} GiB: {named}"
