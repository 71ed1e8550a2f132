"""Smallest changes of a config and its script that fit a GPU, cheapest in speed first, and their text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.check.build_job import asked, job_of
from dsconfig.check.check import check_document
from dsconfig.consumers import HUGGING_FACE
from dsconfig.consumers.consumer import consumer_of
from dsconfig.consumers.consumer_versions import parted
from dsconfig.core.batch_triplet import MICRO, STEPS, TRAIN
from dsconfig.core.batch_triplet import TRAIN as BATCH
from dsconfig.core.diagnostic import Remove, Set, dotted
from dsconfig.core.releases import Target
from dsconfig.document import Document, read_text
from dsconfig.document.edit import edited
from dsconfig.document.text_edit import EditError
from dsconfig.launch.located_config import locate
from dsconfig.memory.estimate import Estimate, MemoryLimit
from dsconfig.memory.models.registry import record
from dsconfig.memory.verdict import EXCEEDS, FITS, HOST, RANK, UNKNOWN, NotModelledError
from dsconfig.resolve.errors import ResolveError
from dsconfig.resolve.input_config import read_input_config
from dsconfig.resolve.memory import EstimateRequest, Options, estimate_request

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, KeyPath
    from dsconfig.memory.verdict import UnmodeledSetting, Verdict
    from dsconfig.resolve.run import Run


# A change of a config or its script, and the order in which changes are told: each line has an effect.

NOWHERE: Mapping[str, Json] = {}
UsageOf = Callable[[Sequence["Change"]], "tuple[int, int] | None"]
"""What a rank and its host hold at most after some changes; None where they do not go together."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change: values of the config, or something in the script.

    `arguments` are training arguments, which fill those of `values` that the config leaves to them (`left`).
    """

    description: str
    values: Mapping[str, Json]
    checkpointing: bool = False
    zero_init: bool = False
    arguments: Mapping[str, Json] = field(default_factory=dict)
    left_to_arguments: frozenset[str] = frozenset()

    @property
    def in_config(self) -> JsonObject:
        """What the config itself is to say."""
        return {key: value for key, value in self.values.items() if key not in self.left_to_arguments}

    def to_dict(self, bound: int, host: int) -> JsonObject:
        """As JSON has it, with what a rank and its host hold at most after it."""
        return {
            "told": self.description,
            "set": self.in_config,
            "arguments": dict(self.arguments),
            "checkpointing": self.checkpointing,
            "zero_init": self.zero_init,
            "bound": bound,
            "host_bound": host,
        }


class AppliedChange(NamedTuple):
    """A change, and what a rank and its host hold at most with it and those before it, in bytes."""

    change: Change
    bound: int
    host: int


def override(values: Mapping[str, Json], more: Mapping[str, Json]) -> dict[str, Json]:
    """Values with others written after them; what stands in a section that is written anew is gone."""
    anew = tuple(f"{key}." for key in more)
    kept = {key: value for key, value in values.items() if key not in more and not key.startswith(anew)}
    return {**kept, **more}


def set_change(values: Mapping[str, Json]) -> Change:
    """The change that writes these values."""
    told = " and ".join(f"set `{key}` to {json.dumps(value)}" for key, value in values.items())
    return Change(told, values)


def merge_changes(changes: Sequence[Change]) -> Change:
    """Several changes as one; what a later one writes anew is told once."""
    if len(changes) == 1:
        return changes[0]
    values: dict[str, Json] = {}
    for change in changes:
        values = override(values, change.values)
    plain = all(change == set_change(change.values) for change in changes)
    return Change(
        set_change(values).description if plain else " and ".join(change.description for change in changes),
        values,
        any(change.checkpointing for change in changes),
        any(change.zero_init for change in changes),
        {key: value for change in changes for key, value in change.arguments.items()},
        frozenset[str]().union(*(change.left_to_arguments for change in changes)),
    )


def effective_steps(chosen: Sequence[Change], held: UsageOf, hosts: bool) -> Iterator[AppliedChange]:
    """The changes as they are told, with what is held after each.

    One that changes nothing by itself waits for the next in one of its sections, and stands in its line;
    else for the end, where it is tried again. What has no effect then stands with the others that have none,
    and is left out if that is so of all of them.
    """
    done, waiting = list[Change](), list[Change]()
    last = held(())

    def effect(changes: Sequence[Change]) -> tuple[int, int] | None:
        """What is held, if that is something else than before."""
        now = held([*done, *changes])
        same = now is None or last is None or (now if hosts else now[:1]) == (last if hosts else last[:1])
        return None if same else now

    for change in chosen:
        mates = [other for other in waiting if _sections(other) & _sections(change)]
        waiting = [other for other in waiting if other not in mates]
        if now := effect([*mates, change]):
            yield AppliedChange(merge_changes([*mates, change]), *now)
            done, last = [*done, *mates, change], now
        else:
            waiting += [*mates, change]
    while found := next(((change, now) for change in waiting if (now := effect([change]))), None):
        change, last = found
        yield AppliedChange(change, *last)
        done.append(change)
        waiting.remove(change)
    if waiting and (now := effect(waiting)):
        yield AppliedChange(merge_changes(waiting), *now)


def _sections(change: Change) -> set[str]:
    """The sections of the config that it is about."""
    return {".".join(key.split(".")[:2]) for key in change.values}


# The smallest changes with which a config fits a GPU, the cheapest in speed first.

ZERO = "zero_optimization."
SMALL_BUCKET, FEW_LIVE, SMALL_GROUP = 50_000_000, 100_000_000, 100_000_000
MOST_RANKS, GIB, KILO = 4096, 1 << 30, 1024
LIVE_KEYS = (f"{ZERO}stage3_max_live_parameters", f"{ZERO}stage3_max_reuse_distance")
NVME = "/local_nvme"
"""Where nothing says another folder: DeepSpeed's documentation has this one."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The changes that were found, with what is held after each; none where nothing had to change.

    `ranks`: where no changes are enough, so many ranks would be; None where not even those. `chosen`: the
    changes one by one, as the ladder has them; in `changes` those stand together that change nothing alone.
    """

    fits: bool
    changes: tuple[AppliedChange, ...] = ()
    ranks: int | None = None
    reason: str = ""
    chosen: tuple[Change, ...] = ()
    unmodelled: tuple[UnmodeledSetting, ...] = ()

    verdict: Verdict = EXCEEDS
    """Whether it fits after all these changes, or what is not supported yet decides."""

    def to_dict(self) -> JsonObject:
        """As JSON has it."""
        changes: list[Json] = [change.to_dict(bound, host) for change, bound, host in self.changes]
        return {
            "fits": self.fits,
            "verdict": self.verdict,
            "changes": changes,
            "world_size": self.ranks,
            "why": self.reason or None,
            "not_modelled": [each.to_dict() for each in self.unmodelled],
        }


Asks = Callable[[Sequence[Change], int], EstimateRequest]
"""The question after these changes, on so many ranks."""


def find_fit(document: Document, options: Options, room: int, host: int | None = None) -> Fit:
    """The smallest changes with which a rank holds no more than `room` bytes, and a host than `host`.

    It is the upper bound of the estimate that has to fit, at the highest peak; `room` is without the margin.
    """
    search, first, changes = search_of(document, options, room, host)
    return replace(search.fit(first, changes), unmodelled=first.unmodelled)


def search_of(
    document: Document, options: Options, room: int, host: int | None = None
) -> tuple[Search, Estimate, list[Change]]:
    """The search, what is held before any change, and all changes, the cheapest first."""
    fitted_config = dict(options.set or {})
    if options.micro_batch is not None:  # has the last word
        fitted_config.pop(MICRO, None)
    options = options._replace(gpu_limit=room)
    first = estimate_request(document, options)

    def asks(changes: Sequence[Change], ranks: int) -> EstimateRequest:
        values = reduce(override, (change.values for change in changes), dict[str, "Json"]())
        if ranks != first.run.world_size and "train_batch_size" in first.run.config:  # it grows with them
            groups = ranks // first.setup.sp_size
            triplet = {
                MICRO: first.run.train_micro_batch_size_per_gpu,
                STEPS: first.setup.gradient_accumulation_steps,
                **values,
            }
            values = {**triplet, BATCH: int(str(triplet[MICRO])) * int(str(triplet[STEPS])) * groups}
        return estimate_request(document, _changed(options, changes, override(fitted_config, values), ranks))

    checkpoints, in_shards = first.micro_batch.gradient_checkpointing, first.setup.zero_init
    part = 0 if host is None else _largest_shard(first)
    zenflow, filler = bool(first.setup.zenflow), filler_of(document, options, first.run)
    there = _offload_sections(first.run.config)
    changes = list(ladder(first.values.values, checkpoints, in_shards, part, zenflow, filler, there))
    return Search(asks, MemoryLimit(room, host)), first.answer(), changes


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
    filler: BatchFiller,
    there: frozenset[str],
) -> Iterator[Change]:
    """Changes in the order of what they cost in speed; `values`: what counts today.

    `part`: elements of the largest part of a parameter, where the host's memory is short, too; else 0.
    `zenflow`: whether it is on; it goes before stage 3, whose hooks turn neither shards that are built nor
    segments. `there`: sections of what is offloaded which the config has.
    """
    stage = count(values, f"{ZERO}stage")
    bucket = count(values, f"{ZERO}reduce_bucket_size") > SMALL_BUCKET
    smaller = set_change({f"{ZERO}reduce_bucket_size": SMALL_BUCKET})
    if bucket and stage:
        yield smaller
    if stage == 3:
        yield from _stage3_changes(values, in_shards)
    yield from smaller_batches(values, zenflow, filler)
    if not checkpointing:
        yield CHECKPOINTING
    if zenflow:
        yield from _without_zenflow(values, stage, checkpointing, in_shards)
    for higher in range(stage + 1, 4):
        off = {f"{ZERO}reduce_scatter": False} if higher == 3 and _is_muon(values) else {}
        yield set_change({f"{ZERO}stage": higher, **off})
        if bucket and not stage and higher == 1:
            yield smaller
        if higher == 3:
            yield from _stage3_changes(values, in_shards)
    yield from _offload_changes(values, there)
    if part:
        yield from _host_changes(values, part)


def _without_zenflow(
    values: Mapping[str, Json], stage: int, checkpointing: bool, in_shards: bool
) -> Iterator[Change]:
    """Its states on the host, then none of it, with what stage 3 can do without it."""
    if not values.get(f"{ZENFLOW}.offload"):
        yield set_change({f"{ZENFLOW}.offload": True, f"{ZERO}overlap_comm": True})
    yield set_change({ZENFLOW: None})
    if stage == 3 and not checkpointing:
        yield CHECKPOINTING
    if stage == 3:
        yield from _stage3_changes(values, in_shards)


def _is_muon(values: Mapping[str, Json]) -> bool:
    return str(values.get("optimizer.type")).lower() == "muon"


def _stage3_changes(values: Mapping[str, Json], in_shards: bool) -> Iterator[Change]:
    """What only stage 3 knows."""
    if not in_shards:
        yield Change("build the model in shards (zero.Init) in the script", {}, zero_init=True)
    if any(count(values, key) > FEW_LIVE for key in LIVE_KEYS) or LIVE_KEYS[0] not in values:
        yield set_change(dict.fromkeys(LIVE_KEYS, FEW_LIVE))


CHECKPOINTING = Change("checkpoint activations in the script", {}, checkpointing=True)
SECTIONS = (f"{ZERO}offload_optimizer", f"{ZERO}offload_param")


def _offload_sections(config: JsonObject) -> frozenset[str]:
    zero = config.get("zero_optimization")
    found = zero if isinstance(zero, dict) else {}
    return frozenset(each for each in SECTIONS if isinstance(found.get(each.removeprefix(ZERO)), dict))


def _offload_changes(values: Mapping[str, Json], there: frozenset[str]) -> Iterator[Change]:
    """The optimizer before the parameters."""
    for section in SECTIONS:
        if values.get(f"{section}.device") in (None, "none"):
            yield set_change(
                {f"{section}.device": "cpu"} if section in there else {section: {"device": "cpu"}}
            )
        if section == SECTIONS[0] and _is_muon(values):  # stage 3 puts all matrices of a group together
            yield set_change({f"{ZERO}sub_group_size": SMALL_GROUP})


def _host_changes(values: Mapping[str, Json], part: int) -> Iterator[Change]:
    """Without pinning, which takes more than is held; then its disk, with buffers that are large enough."""
    for section in SECTIONS:
        if values.get(f"{section}.pin_memory") is not False:
            yield set_change({f"{section}.pin_memory": False})
    for section in SECTIONS:
        if values.get(f"{section}.device") != "nvme":
            more = {f"{section}.buffer_size": part} if section == SECTIONS[1] else {}
            yield set_change({f"{section}.device": "nvme", f"{section}.nvme_path": NVME, **more})
    if count(values, f"{ZERO}sub_group_size") > SMALL_GROUP or f"{ZERO}sub_group_size" not in values:
        yield set_change({f"{ZERO}sub_group_size": SMALL_GROUP})


def _largest_shard(asked: EstimateRequest) -> int:
    """Elements of the largest that a rank has of one parameter, in whole kilobytes."""
    tape = record(asked.arch, asked.micro_batch)
    largest = max((weight.numel for weight in tape.weights), default=0)
    return -(-largest // asked.setup.dp_world_size // KILO) * KILO


def _key(chosen: Sequence[Change], ranks: int) -> tuple[str, ...]:
    return (*(change.description for change in chosen), str(ranks))


class Search:
    """Which changes are enough."""

    def __init__(self, asks: Asks, room: MemoryLimit) -> None:
        self.request_for, self.limit = asks, room
        self.fitting: dict[tuple[str, ...], Estimate] = {}
        """What fits, by what the changes tell."""

    def estimate(self, chosen: Sequence[Change], ranks: int) -> Estimate | None:
        """What is held after these changes; None where the release or the model does not go with them."""
        known = self.fitting.get(_key(chosen, ranks))
        try:
            return known or self.request_for(chosen, ranks).answer()
        except (ResolveError, NotModelledError):
            return None

    def fits(self, chosen: Sequence[Change], ranks: int) -> bool | None:
        """Whether a rank fits, and a host where its memory is known; None where they do not go with it."""
        try:
            found = self.request_for(chosen, ranks).fitting(self.limit)
        except (ResolveError, NotModelledError):
            return None
        if found is not None:
            self.fitting[_key(chosen, ranks)] = found
        return found is not None

    def fit(self, first: Estimate, changes: Sequence[Change]) -> Fit:
        """The changes of the ladder up to the first that fits, without those that it fits without."""
        ranks = first.world_size
        if self.limit.fits(first):
            return Fit(fits=True, verdict=self._verdict(first))
        chosen: list[Change] = []
        for change in changes:
            fits = self.fits([*chosen, change], ranks)
            if fits is not None:
                chosen.append(change)
            if fits:
                chosen = self._minimal(chosen, ranks)
                verdict = self._verdict(self.estimate(chosen, ranks) or first)
                return Fit(True, self._applied(chosen, first), chosen=tuple(chosen), verdict=verdict)
        last = self.estimate(chosen, ranks) or first
        after, most, verdict = self._applied(chosen, first), self._reason(last), self._verdict(last)
        while (ranks := ranks * 2) <= MOST_RANKS:
            if self.fits(chosen, ranks):
                return Fit(False, after, ranks, most, verdict=verdict)
        return Fit(False, after, None, most, verdict=verdict)

    def _verdict(self, found: Estimate) -> Verdict:
        """The worse of those on a rank and on its host."""
        sides = ((RANK, self.limit.rank), (HOST, self.limit.host))
        verdicts = {found.verdict(name, there) for name, there in sides if there is not None}
        return EXCEEDS if EXCEEDS in verdicts else UNKNOWN if UNKNOWN in verdicts else FITS

    def _minimal(self, chosen: list[Change], ranks: int) -> list[Change]:
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

    def _applied(self, chosen: Sequence[Change], first: Estimate) -> tuple[AppliedChange, ...]:
        """What is held at most after each change, or those that change nothing one by one."""

        def held(changes: Sequence[Change]) -> tuple[int, int] | None:
            found = self.estimate(changes, first.world_size) if changes else first
            return None if found is None else (found.rank.upper_bound, found.host.upper_bound)

        return tuple(effective_steps(chosen, held, self.limit.host is not None))

    def _reason(self, found: Estimate) -> str:
        """What takes most at the highest peak, of a rank, or of its host where that is what does not fit."""
        holder, side = "a rank", found.rank
        if self.limit.rank is not None and side.upper_bound <= self.limit.rank:
            holder, side = "the host", found.host
        phase = max(side.bound, key=lambda name: side.bound[name])
        terms = sorted(side.terms, key=lambda term: -term.phases.get(phase, 0))[:3]
        named = ", ".join(f"{term.name} {term.phases.get(phase, 0) / GIB:.2f}" for term in terms)
        return f"in {phase} {holder} holds at most {side.bound[phase] / GIB:.2f} GiB: {named}"


# Smaller micro batches, more steps: in the config, and in the arguments that fill it or must equal it.

ZENFLOW = "zero_optimization.zenflow"
ARGUMENTS = {MICRO: "per_device_train_batch_size", STEPS: "gradient_accumulation_steps"}


class BatchFiller(NamedTuple):
    """Who reads the config, and which keys of the batch it leaves to the arguments."""

    consumer: str = "deepspeed"
    left_to_arguments: frozenset[str] = frozenset()
    extra_values: Mapping[str, Json] = {}
    """What else to write: the batch, where that of the config does not go with the one asked about."""


def filler_of(document: Document, options: Options, run: Run) -> BatchFiller:
    """As the config and the values to write first leave it."""
    located = locate(document)
    data = read_input_config(located, options.job_of(located)).document.value()
    values = {**(data if isinstance(data, dict) else {}), **(options.set or {})}
    reader = parted(run.consumer)[0]
    left = frozenset(key for key in ARGUMENTS if reader in HUGGING_FACE and values.get(key) == "auto")
    batch = values.get(TRAIN)
    other = isinstance(batch, (int, float)) and batch != run.train_batch_size
    return BatchFiller(reader, left, {TRAIN: run.train_batch_size} if other else {})


def smaller_batches(values: Mapping[str, Json], zenflow: bool, filler: BatchFiller) -> Iterator[Change]:
    """Ever smaller micro batches, and more steps for them; `zenflow`: its intervals count steps."""
    counts = (STEPS, f"{ZENFLOW}.update_interval") if zenflow else (STEPS,)
    micro, steps = count(values, MICRO), max(1, count(values, counts[-1]))
    every = max(1, count(values, f"{ZENFLOW}.select_interval") // steps)
    by_steps = zenflow and values.get(f"{ZENFLOW}.select_strategy") == "step"
    while micro > 1:
        part = next(divisor for divisor in range(2, micro + 1) if micro % divisor == 0)
        micro, steps = micro // part, steps * part
        more = {f"{ZENFLOW}.select_interval": steps * every} if by_steps else {}
        yield _batch_change({MICRO: micro, **dict.fromkeys(counts, steps), **more}, filler)


def count(values: Mapping[str, Json], key: str) -> int:
    """The whole number that a key has; 0 where it has none."""
    value = values.get(key)
    return int(value) if isinstance(value, (int, float)) else 0


def _batch_change(values: Mapping[str, int], filler: BatchFiller) -> Change:
    """The Trainer refuses what differs from its arguments; Accelerate takes what is written."""
    compared = filler.consumer == "transformers"
    arguments = {
        ARGUMENTS[key]: value
        for key, value in values.items()
        if key in filler.left_to_arguments or (compared and key in ARGUMENTS)
    }
    whole = {**values, **filler.extra_values}
    kept = {key: value for key, value in whole.items() if key not in filler.left_to_arguments}
    told = [set_change(kept).description] if kept else []
    if arguments:
        named = " and ".join(f"`{name}` to {value}" for name, value in arguments.items())
        told.append(f"set {named} in the {'training arguments' if compared else 'script'}")
    return Change(" and ".join(told), whole, arguments=arguments, left_to_arguments=filler.left_to_arguments)


# The text of a config with the changes that make it fit, and what has to be said of it then.


def refuse_launch_file(document: Document) -> None:
    """Refuse a launch file, in which there is no place for the changes.

    Raises:
        ValueError: it is one.
    """
    if locate(document).how != "file":
        raise ValueError(f"{document.name} is a launch file: give the config itself, or leave -o out")


class FittedConfig(NamedTuple):
    """The text with the changes."""

    text: str
    removed_keys: tuple[str, ...] = ()
    """Keys that are taken out besides: with the changes nothing reads them."""
    consumer: str | None = None
    """The reader to name from now on, where the text alone would be taken for another's."""


def fitted_config(document: Document, options: Options, found: Fit, name: str) -> FittedConfig:
    """The config with the values that are written first, and then the changes; `name`: of its new file.

    Raises:
        ValueError: there is no place for them.
    """
    run = estimate_request(document, options).run
    first = _initial_values(document, options, run)
    values = reduce(override, (change.in_config for change, *_ in found.changes), first)
    try:
        before = _edited(document, first)
        after = _edited(document, values)
        out = sorted(_is_unread(after, run) - _is_unread(before, run)) if found.changes else []
        text = (edited(after, map(Remove, out)) if out else after).text
    except EditError as error:
        raise ValueError(f"{document.name} cannot be changed: {error}") from None
    said = asked(None, None, options.job.reader.said if options.job else options.consumer)
    of_old = job_of(document, said).reader.spec
    of_new = job_of(read_text(text, name, document.format), said).reader.spec
    return FittedConfig(text, tuple(map(dotted, out)), None if of_old == of_new else of_old)


def _edited(document: Document, values: Mapping[str, Json]) -> Document:
    operations = [Set(tuple(key.split(".")), value) for key, value in values.items()]
    return edited(document, operations) if operations else document


def _is_unread(document: Document, run: Run) -> set[KeyPath]:
    """Keys that are written to no effect."""
    target = Target((run.release,), run.release, "argument")
    report = check_document(document, target, world_size=run.world_size, consumer=run.consumer)
    fixes = [found.fix.operations for found in report if found.effect == "ignored" and found.fix]
    removed = [operations for operations in fixes if all(isinstance(each, Remove) for each in operations)]
    return {each.path for operations in removed for each in operations if isinstance(each, Remove)}


def _initial_values(document: Document, options: Options, run: Run) -> JsonObject:
    """What is written before the changes: values to write first, and the micro batch that is asked about.

    What the config leaves to training arguments stays `auto`: values there say what these will be.
    """
    data = document.value()
    own = data if isinstance(data, dict) else {}
    values = dict(options.set or {})
    if options.micro_batch is not None:
        batch = {MICRO: run.train_micro_batch_size_per_gpu, STEPS: run.gradient_accumulation_steps}
        batch[TRAIN] = run.train_batch_size
        values |= {key: value for key, value in batch.items() if key == MICRO or key in own}
    left = _filled_keys(run.consumer)
    return {
        key: value for key, value in values.items() if not (key in left and _value_at(own, key) == "auto")
    }


def _filled_keys(spec: str) -> frozenset[str]:
    """Keys that a reader fills from its arguments. It compares none of `zero_optimization` with them."""
    name = parted(spec)[0]
    fills = consumer_of(spec).fills if name in HUGGING_FACE else ()
    return frozenset(fill.key for fill in fills if not fill.key.startswith("zero_optimization."))


def _value_at(data: object, key: str) -> object:
    for part in key.split("."):
        data = data.get(part) if isinstance(data, dict) else None
    return data
