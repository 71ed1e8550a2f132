"""The smallest changes with which a config fits a GPU, the cheapest in speed first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.consumers.launch_file import is_launch_file
from dsconfig.resolving.asked import MICRO, Options, Question, ask
from dsconfig.resolving.errors import ResolveError
from dsconfig.sizing.models.families import record
from dsconfig.sizing.refused import NotModelledError

if TYPE_CHECKING:
    from dsconfig.document import Document
    from dsconfig.json_types import Json, JsonObject
    from dsconfig.sizing.estimate import Estimate

BATCH, STEPS = "train_batch_size", "gradient_accumulation_steps"
ZERO = "zero_optimization."
SMALL_BUCKET, FEW_LIVE, SMALL_GROUP = 50_000_000, 100_000_000, 100_000_000
MOST_RANKS, GIB, KILO = 4096, 1 << 30, 1024
LIVE = (f"{ZERO}stage3_max_live_parameters", f"{ZERO}stage3_max_reuse_distance")
NVME = "/local_nvme"
"""Where nothing says another folder: DeepSpeed's documentation has this one."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change: values of the config, or something in the script."""

    told: str
    values: Mapping[str, Json]
    checkpointing: bool = False
    zero_init: bool = False

    def to_dict(self, bound: int, host: int) -> JsonObject:
        """As JSON has it, with what a rank and its host hold at most after it."""
        return {
            "told": self.told,
            "set": dict(self.values),
            "checkpointing": self.checkpointing,
            "zero_init": self.zero_init,
            "bound": bound,
            "host_bound": host,
        }


class After(NamedTuple):
    """A change, and what a rank and its host hold at most with it and those before it, in bytes."""

    change: Change
    bound: int
    host: int


@dataclass(frozen=True, slots=True)
class Fit:
    """The changes that were found, with what is held after each; none where nothing had to change.

    `ranks`: where no changes are enough, so many ranks would be; None where not even those.
    """

    fits: bool
    changes: tuple[After, ...] = ()
    ranks: int | None = None
    why: str = ""

    def to_dict(self) -> JsonObject:
        """As JSON has it."""
        changes: list[Json] = [change.to_dict(bound, host) for change, bound, host in self.changes]
        return {"fits": self.fits, "changes": changes, "world_size": self.ranks, "why": self.why or None}


Compute = Callable[[Sequence[Change], int], "Estimate"]
"""An estimate after these changes, on so many ranks."""


def fitted(document: Document, options: Options, room: int, host: int | None = None) -> Fit:
    """The smallest changes with which a rank holds no more than `room` bytes, and a host than `host`.

    It is the upper bound of the estimate that has to fit, at the highest peak; `room` is without the margin.
    """
    search, first, changes = search_of(document, options, room, host)
    return search.fit(first, changes)


def search_of(
    document: Document, options: Options, room: int, host: int | None = None
) -> tuple[Search, Estimate, list[Change]]:
    """The search, what is held before any change, and all changes, the cheapest first."""
    written = dict(options.set or {})
    first = ask(document, options)

    def compute(changes: Sequence[Change], ranks: int) -> Estimate:
        values = {key: value for change in changes for key, value in change.values.items()}
        if ranks != first.run.world_size and "train_batch_size" in first.run.config:  # it grows with them
            groups = ranks // first.setup.sequence
            triplet = {
                MICRO: first.run.train_micro_batch_size_per_gpu,
                STEPS: first.setup.accumulation,
                **values,
            }
            values = {**triplet, BATCH: int(str(triplet[MICRO])) * int(str(triplet[STEPS])) * groups}
        return ask(document, _changed(options, changes, {**written, **values}, ranks)).answer()

    checkpoints, in_shards = first.work.checkpointing, first.setup.zero_init
    part = 0 if host is None else _largest_part(first)
    changes = list(ladder(first.values.values, checkpoints, in_shards, part))
    return Search(compute, room, host), first.answer(), changes


def _changed(options: Options, changes: Sequence[Change], values: Mapping[str, Json], ranks: int) -> Options:
    checks = any(change.checkpointing for change in changes) or options.checkpointing
    shards = any(change.zero_init for change in changes) or options.zero_init
    micro = None if MICRO in values else options.micro_batch
    return options._replace(
        set=values, checkpointing=checks, zero_init=shards, world_size=ranks, micro_batch=micro
    )


def written(document: Document, found: Fit) -> str:
    """The text of the config with the changes.

    Raises:
        ValueError: there is no place for them, as in a launch file.
    """
    from dsconfig.checking.patches import edited
    from dsconfig.consumers.launchers.follow import job_of
    from dsconfig.diagnostic import Set
    from dsconfig.document.edit import EditError

    if job_of(document) is not None or is_launch_file(document.value()):
        raise ValueError(f"{document.name} is a launch file: -o writes the config that is given itself")
    values = {key: value for change, *_ in found.changes for key, value in change.values.items()}
    try:
        operations = [Set(tuple(key.split(".")), value) for key, value in values.items()]
        return edited(document, operations).text if operations else document.text
    except EditError as error:
        raise ValueError(f"{document.name} cannot be changed: {error}") from None


def ladder(
    values: Mapping[str, Json], checkpointing: bool, in_shards: bool, part: int = 0
) -> Iterator[Change]:
    """Changes in the order of what they cost in speed; `values`: what counts today.

    `part`: elements of the largest part of a parameter, where the host's memory is short, too.
    """
    stage = _count(values, f"{ZERO}stage")
    bucket = _count(values, f"{ZERO}reduce_bucket_size") > SMALL_BUCKET
    smaller = _set({f"{ZERO}reduce_bucket_size": SMALL_BUCKET})
    if bucket and stage:
        yield smaller
    if stage == 3:
        yield from _of_third(values, in_shards)
    yield from _smaller_batches(_count(values, MICRO), max(1, _count(values, STEPS)))
    if not checkpointing:
        yield Change("checkpoint activations in the script", {}, checkpointing=True)
    for higher in range(stage + 1, 4):
        off = {f"{ZERO}reduce_scatter": False} if higher == 3 and _is_muon(values) else {}
        yield _set({f"{ZERO}stage": higher, **off})
        if bucket and not stage and higher == 1:
            yield smaller
        if higher == 3:
            yield from _of_third(values, in_shards)
    yield from _offloads(values)
    if part:
        yield from _for_host(values, part)


def _count(values: Mapping[str, Json], key: str) -> int:
    value = values.get(key)
    return int(value) if isinstance(value, (int, float)) else 0


def _is_muon(values: Mapping[str, Json]) -> bool:
    return str(values.get("optimizer.type")).lower() == "muon"


def _of_third(values: Mapping[str, Json], in_shards: bool) -> Iterator[Change]:
    """What only stage 3 knows."""
    if not in_shards:
        yield Change("build the model in shards (zero.Init) in the script", {}, zero_init=True)
    if any(_count(values, key) > FEW_LIVE for key in LIVE) or LIVE[0] not in values:
        yield _set(dict.fromkeys(LIVE, FEW_LIVE))


SECTIONS = (f"{ZERO}offload_optimizer", f"{ZERO}offload_param")


def _offloads(values: Mapping[str, Json]) -> Iterator[Change]:
    """The optimizer before the parameters."""
    for section in SECTIONS:
        if values.get(f"{section}.device") in (None, "none"):
            yield _set({section: {"device": "cpu"}})
        if section == SECTIONS[0] and _is_muon(values):  # stage 3 puts all matrices of a group together
            yield _set({f"{ZERO}sub_group_size": SMALL_GROUP})


def _for_host(values: Mapping[str, Json], part: int) -> Iterator[Change]:
    """Without pinning, which takes more than is held; then its disk, with buffers that are large enough."""
    for section in SECTIONS:
        if values.get(f"{section}.pin_memory") is not False:
            yield _set({f"{section}.pin_memory": False})
    for section in SECTIONS:
        if values.get(f"{section}.device") != "nvme":
            more = {f"{section}.buffer_size": part} if section == SECTIONS[1] else {}
            yield _set({f"{section}.device": "nvme", f"{section}.nvme_path": NVME, **more})
    if _count(values, f"{ZERO}sub_group_size") > SMALL_GROUP or f"{ZERO}sub_group_size" not in values:
        yield _set({f"{ZERO}sub_group_size": SMALL_GROUP})


def _largest_part(asked: Question) -> int:
    """Elements of the largest that a rank has of one parameter, in whole kilobytes."""
    tape = record(asked.shape, asked.work)
    largest = max((weight.elements for weight in tape.weights), default=0)
    return -(-largest // asked.setup.world // KILO) * KILO


def _smaller_batches(micro: int, steps: int) -> Iterator[Change]:
    """Ever smaller micro batches, and more steps for them."""
    while micro > 1:
        part = next(divisor for divisor in range(2, micro + 1) if micro % divisor == 0)
        micro, steps = micro // part, steps * part
        yield _set({MICRO: micro, STEPS: steps})


def _set(values: Mapping[str, Json]) -> Change:
    import json

    told = " and ".join(f"set `{key}` to {json.dumps(value)}" for key, value in values.items())
    return Change(told, values)


class Search:
    """Which changes are enough."""

    def __init__(self, compute: Compute, room: int, host: int | None) -> None:
        self.compute, self.room, self.host = compute, room, host

    def estimate(self, chosen: Sequence[Change], ranks: int) -> Estimate | None:
        """What is held after these changes; None where the release or the model does not go with them."""
        try:
            return self.compute(chosen, ranks)
        except (ResolveError, NotModelledError):
            return None

    def fits(self, found: Estimate | None) -> bool:
        """Whether a rank fits, and a host where its memory is known."""
        if found is None or found.rank.most_bound > self.room:
            return False
        return self.host is None or found.host.most_bound <= self.host

    def fit(self, first: Estimate, changes: Sequence[Change]) -> Fit:
        """The changes of the ladder up to the first that fits, without those that it fits without."""
        ranks = first.world_size
        if self.fits(first):
            return Fit(fits=True)
        chosen: list[Change] = []
        for change in changes:
            found = self.estimate([*chosen, change], ranks)
            if found is None:
                continue
            chosen.append(change)
            if self.fits(found):
                chosen = self._needed(chosen, ranks)
                return Fit(True, tuple(self._after(chosen, ranks)))
        after, most = tuple(self._after(chosen, ranks)), self._reason(self.estimate(chosen, ranks) or first)
        while (ranks := ranks * 2) <= MOST_RANKS:
            if self.fits(self.estimate(chosen, ranks)):
                return Fit(False, after, ranks, most)
        return Fit(False, after, None, most)

    def _needed(self, chosen: list[Change], ranks: int) -> list[Change]:
        """Those without which the others are not enough, the costly left out first."""
        for other in reversed(chosen[:-1]):
            fewer = [kept for kept in chosen if kept is not other]
            if self.fits(self.estimate(fewer, ranks)):
                chosen = fewer
        return chosen

    def _after(self, chosen: list[Change], ranks: int) -> Iterator[After]:
        """What is held at most after each change."""
        for number, change in enumerate(chosen):
            found = self.estimate(chosen[: number + 1], ranks)
            yield After(change, found.rank.most_bound if found else 0, found.host.most_bound if found else 0)

    def _reason(self, found: Estimate) -> str:
        """What takes most at the highest peak, of a rank, or of its host where that is what does not fit."""
        holder, side = "a rank", found.rank
        if side.most_bound <= self.room:
            holder, side = "the host", found.host
        phase = max(side.bound, key=lambda name: side.bound[name])
        terms = sorted(side.terms, key=lambda term: -term.phases.get(phase, 0))[:3]
        named = ", ".join(f"{term.name} {term.phases.get(phase, 0) / GIB:.2f}" for term in terms)
        return f"in {phase} {holder} holds at most {side.bound[phase] / GIB:.2f} GiB: {named}"
