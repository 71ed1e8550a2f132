"""Search for the smallest changes of a config and its script that fit a GPU, cheapest in speed first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.check.build_job import job_from_arguments, job_of_document
from dsconfig.check.check import check_document
from dsconfig.core.batch_triplet import MICRO, STEPS, TRAIN
from dsconfig.core.batch_triplet import TRAIN as BATCH
from dsconfig.core.diagnostic import RemoveKey, SetValue, dotted_path
from dsconfig.core.releases import ReleaseTarget
from dsconfig.document import Document, read_text
from dsconfig.document.apply_operations import apply_operations
from dsconfig.document.text_edit import EditError
from dsconfig.job.consumers import HUGGING_FACE
from dsconfig.job.consumers.consumer import consumer_from_spec
from dsconfig.job.consumers.consumer_versions import split_consumer_spec
from dsconfig.launch.config_source import read_config_source
from dsconfig.launch.located_config import locate_config
from dsconfig.memory.estimates import Estimate
from dsconfig.memory.models.record_pass_by_family import record_forward_pass
from dsconfig.memory.verdict import EXCEEDS, FITS, NotModelledError
from dsconfig.resolve.config_changes import (
    AppliedChange,
    ConfigChange,
    change_of_values,
    changes_with_effect,
    merge_values,
)
from dsconfig.resolve.errors import ResolveError
from dsconfig.resolve.input_config import read_input_config
from dsconfig.resolve.memory import EstimateRequest, MemoryOptions, estimate_request

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, KeyPath
    from dsconfig.memory.verdict import UnmodeledSetting, Verdict
    from dsconfig.resolve.memory_limits import RequestedLimits
    from dsconfig.resolve.resolved_run import Run


# The search.

ZERO = "zero_optimization."
SMALL_BUCKET, FEW_LIVE, SMALL_GROUP = 50_000_000, 100_000_000, 100_000_000
MOST_RANKS, GIB, KILO = 4096, 1 << 30, 1024
LIVE_KEYS = (f"{ZERO}stage3_max_live_parameters", f"{ZERO}stage3_max_reuse_distance")
NVME = "/local_nvme"
"""Path that DeepSpeed's documentation uses; applies if the config has none."""


@dataclass(frozen=True, slots=True)
class FittingChanges:
    """The changes of a search with the usage after each; no changes if nothing had to change.

    `ranks`: world size that would fit if no changes do; None if none does. `chosen`: changes one by one;
    `changes` groups those without an effect of their own.
    """

    fits: bool
    changes: tuple[AppliedChange, ...] = ()
    ranks: int | None = None
    reason: str = ""
    chosen: tuple[ConfigChange, ...] = ()
    unmodelled: tuple[UnmodeledSetting, ...] = ()

    verdict: Verdict = EXCEEDS
    """The verdict of `dsconfig memory` after these changes."""
    estimate: Estimate | None = None
    """The estimate after these changes."""

    def to_dict(self) -> JsonObject:
        """The result as JSON."""
        changes: list[Json] = [change.to_dict(bound, host) for change, bound, host in self.changes]
        return {
            "fits": self.fits,
            "verdict": self.verdict,
            "changes": changes,
            "world_size": self.ranks,
            "why": self.reason or None,
            "not_modelled": [each.to_dict() for each in self.unmodelled],
        }


RequestFor = Callable[[Sequence[ConfigChange], int], EstimateRequest]
"""Function from changes and world size to the estimate request."""


def find_fit(document: Document, options: MemoryOptions, limits: RequestedLimits) -> FittingChanges:
    """Find the smallest changes with which rank and host fit, by the verdict of `dsconfig memory`."""
    search, first, changes = start_search(document, options, limits)
    return replace(search.fit(first, changes), unmodelled=first.unmodelled)


def start_search(
    document: Document, options: MemoryOptions, limits: RequestedLimits
) -> tuple[FitSearch, Estimate, list[ConfigChange]]:
    """Create the search, with the estimate before any change, and all candidate changes, cheapest first."""
    fitted_config = dict(options.set or {})
    if options.micro_batch is not None:  # takes precedence
        fitted_config.pop(MICRO, None)
    if limits.gpu is not None:
        options = options._replace(gpu_limit=limits.gpu.usable_bytes(limits.margin))
    first = estimate_request(document, options)

    def request_for(changes: Sequence[ConfigChange], ranks: int) -> EstimateRequest:
        values = reduce(merge_values, (change.values for change in changes), dict[str, "Json"]())
        # The batch grows with the ranks.
        if ranks != first.run.world_size and "train_batch_size" in first.run.config:
            groups = int(ranks * first.run.data_parallel_size // first.run.world_size)
            triplet = {
                MICRO: first.run.train_micro_batch_size_per_gpu,
                STEPS: first.setup.gradient_accumulation_steps,
                **values,
            }
            values = {**triplet, BATCH: int(str(triplet[MICRO])) * int(str(triplet[STEPS])) * groups}
        return estimate_request(
            document, _options_with_changes(options, changes, merge_values(fitted_config, values), ranks)
        )

    checkpointing, zero_init = first.micro_batch.gradient_checkpointing, first.setup.zero_init
    shard_numel = 0 if limits.host is None else _largest_shard(first)
    zenflow, filler = bool(first.setup.zenflow), consumer_batch_keys(document, options, first.run)
    offload_sections = _offload_sections(first.run.config)
    changes = list(
        candidate_changes(
            first.values.values, checkpointing, zero_init, shard_numel, zenflow, filler, offload_sections
        )
    )
    return FitSearch(request_for, limits, known_defects(first)), first.answer(), changes


_DEFECTS = ("DSC880", "DSC881")
"""Rules about settings with which a release crashes, or trains wrongly."""


def known_defects(request: EstimateRequest) -> frozenset[str]:
    """Known defects of the release that the config meets: it crashes, or what it trains is wrong."""
    run = request.run
    target = ReleaseTarget((run.release,), run.release, "argument")
    report = check_document(
        read_config_source(run.config), target, world_size=run.world_size, consumer=run.consumer
    )
    return frozenset(diagnostic.message for diagnostic in report if diagnostic.code in _DEFECTS)


def _options_with_changes(
    options: MemoryOptions, changes: Sequence[ConfigChange], values: Mapping[str, Json], ranks: int
) -> MemoryOptions:
    checks = any(change.checkpointing for change in changes) or options.checkpointing
    shards = any(change.zero_init for change in changes) or options.zero_init
    micro = None if MICRO in values else options.micro_batch
    return options._replace(
        set=values, checkpointing=checks, zero_init=shards, world_size=ranks, micro_batch=micro
    )


def candidate_changes(
    values: Mapping[str, Json],
    checkpointing: bool,
    zero_init: bool,
    shard_numel: int,
    zenflow: bool,
    filler: ConsumerBatchKeys,
    offload_sections: frozenset[str],
) -> Iterator[ConfigChange]:
    """Yield candidate changes by cost in speed; `values`: effective values.

    `shard_numel`: elements of the largest shard if the host's memory is limited too, else 0. `zenflow`:
    whether it is on; it is removed before stage 3, where it supports neither zero.Init nor checkpointing.
    `offload_sections`: offload sections of the config.
    """
    stage = integer_value(values, f"{ZERO}stage")
    bucket = integer_value(values, f"{ZERO}reduce_bucket_size") > SMALL_BUCKET
    smaller_bucket = change_of_values({f"{ZERO}reduce_bucket_size": SMALL_BUCKET})
    if bucket and stage:
        yield smaller_bucket
    if stage == 3:
        yield from _stage3_changes(values, zero_init)
    yield from smaller_batches(values, zenflow, filler)
    if not checkpointing:
        yield CHECKPOINTING
    if zenflow:
        yield from _zenflow_changes(values, stage, checkpointing, zero_init)
    for higher in range(stage + 1, 4):
        muon_values = {f"{ZERO}reduce_scatter": False} if higher == 3 and _is_muon(values) else {}
        yield change_of_values({f"{ZERO}stage": higher, **muon_values})
        if bucket and not stage and higher == 1:
            yield smaller_bucket
        if higher == 3:
            yield from _stage3_changes(values, zero_init)
    yield from _offload_changes(values, offload_sections)
    if shard_numel:
        yield from _host_changes(values, shard_numel)


def _zenflow_changes(
    values: Mapping[str, Json], stage: int, checkpointing: bool, in_shards: bool
) -> Iterator[ConfigChange]:
    """Offload ZenFlow's states, then remove it, with changes that stage 3 then allows."""
    if not values.get(f"{ZENFLOW}.offload"):
        yield change_of_values({f"{ZENFLOW}.offload": True, f"{ZERO}overlap_comm": True})
    yield change_of_values({ZENFLOW: None})
    if stage == 3 and not checkpointing:
        yield CHECKPOINTING
    if stage == 3:
        yield from _stage3_changes(values, in_shards)


def _is_muon(values: Mapping[str, Json]) -> bool:
    return str(values.get("optimizer.type")).lower() == "muon"


def _stage3_changes(values: Mapping[str, Json], in_shards: bool) -> Iterator[ConfigChange]:
    """Changes of stage 3 only."""
    if not in_shards:
        yield ConfigChange("build the model in shards (zero.Init) in the script", {}, zero_init=True)
    if any(integer_value(values, key) > FEW_LIVE for key in LIVE_KEYS) or LIVE_KEYS[0] not in values:
        yield change_of_values(dict.fromkeys(LIVE_KEYS, FEW_LIVE))


CHECKPOINTING = ConfigChange("checkpoint activations in the script", {}, checkpointing=True)
SECTIONS = (f"{ZERO}offload_optimizer", f"{ZERO}offload_param")


def _offload_sections(config: JsonObject) -> frozenset[str]:
    zero = config.get("zero_optimization")
    sections = zero if isinstance(zero, dict) else {}
    return frozenset(
        section for section in SECTIONS if isinstance(sections.get(section.removeprefix(ZERO)), dict)
    )


def _offload_changes(values: Mapping[str, Json], sections: frozenset[str]) -> Iterator[ConfigChange]:
    """Offload the optimizer, then the parameters."""
    for section in SECTIONS:
        if values.get(f"{section}.device") in (None, "none"):
            yield change_of_values(
                {f"{section}.device": "cpu"} if section in sections else {section: {"device": "cpu"}}
            )
        if section == SECTIONS[0] and _is_muon(values):  # stage 3 gathers all matrices of a sub-group
            yield change_of_values({f"{ZERO}sub_group_size": SMALL_GROUP})


def _host_changes(values: Mapping[str, Json], shard_numel: int) -> Iterator[ConfigChange]:
    """Disable pinning, which rounds up; then use NVMe, with buffers that are large enough."""
    for section in SECTIONS:
        if values.get(f"{section}.pin_memory") is not False:
            yield change_of_values({f"{section}.pin_memory": False})
    for section in SECTIONS:
        if values.get(f"{section}.device") != "nvme":
            buffer = {f"{section}.buffer_size": shard_numel} if section == SECTIONS[1] else {}
            yield change_of_values({f"{section}.device": "nvme", f"{section}.nvme_path": NVME, **buffer})
    if integer_value(values, f"{ZERO}sub_group_size") > SMALL_GROUP or f"{ZERO}sub_group_size" not in values:
        yield change_of_values({f"{ZERO}sub_group_size": SMALL_GROUP})


def _largest_shard(request: EstimateRequest) -> int:
    """Elements of a rank's largest shard, rounded up to 1024."""
    tape = record_forward_pass(request.arch, request.micro_batch)
    largest = max((weight.numel for weight in tape.weights), default=0)
    return -(-largest // request.setup.dp_world_size // KILO) * KILO


def _cache_key(chosen: Sequence[ConfigChange], ranks: int) -> tuple[str, ...]:
    return (*(change.description for change in chosen), str(ranks))


class FitSearch:
    """Search for the changes that are enough."""

    def __init__(
        self, asks: RequestFor, limits: RequestedLimits, defects: frozenset[str] = frozenset()
    ) -> None:
        self.request_for, self.limits, self.defects = asks, limits, defects
        """`defects`: known defects of the release that the config meets without any change."""
        self.fitting: dict[tuple[str, ...], Estimate] = {}
        """Estimates that fit, by their changes."""

    def estimate(self, chosen: Sequence[ConfigChange], ranks: int) -> Estimate | None:
        """Estimate after these changes; None if release or model do not support them."""
        cached = self.fitting.get(_cache_key(chosen, ranks))
        try:
            return cached or self.request_for(chosen, ranks).answer()
        except (ResolveError, NotModelledError):
            return None

    def fits(self, chosen: Sequence[ConfigChange], ranks: int) -> bool | None:
        """Whether rank (and host, if limited) fit after these changes; None if they are not supported, or defective."""
        try:
            request = self.request_for(chosen, ranks)
            if known_defects(request) - self.defects:
                return None
            estimate = self.limits.fitting(request)
        except (ResolveError, NotModelledError):
            return None
        if estimate is not None:
            self.fitting[_cache_key(chosen, ranks)] = estimate
        return estimate is not None

    def fit(self, first: Estimate, changes: Sequence[ConfigChange]) -> FittingChanges:
        """Apply changes until one fits, then drop those that are not needed."""
        ranks, limits = first.world_size, self.limits
        if limits.fits(first):
            return FittingChanges(fits=True, verdict=limits.verdict(first), estimate=first)
        chosen: list[ConfigChange] = []
        for change in changes:
            fits = self.fits([*chosen, change], ranks)
            if fits is not None:
                chosen.append(change)
            if fits:
                chosen = self._drop_unneeded_changes(chosen, ranks)
                last = self.estimate(chosen, ranks) or first
                return FittingChanges(
                    True,
                    self._usage_after_each_change(chosen, first),
                    chosen=tuple(chosen),
                    verdict=limits.verdict(last),
                    estimate=last,
                )
        last = self.estimate(chosen, ranks) or first
        failed = FittingChanges(
            False,
            self._usage_after_each_change(chosen, first),
            None,
            self._describe_largest_terms(last),
            verdict=limits.verdict(last),
            estimate=last,
        )
        while (ranks := ranks * 2) <= MOST_RANKS:
            if self.fits(chosen, ranks):
                return replace(failed, ranks=ranks)
        return failed

    def _drop_unneeded_changes(self, chosen: list[ConfigChange], ranks: int) -> list[ConfigChange]:
        """Drop changes that are not needed, costly ones first.

        Repeats, because one change can make another unnecessary.
        """
        needed: list[ConfigChange] = []
        candidates = chosen[:-1]  # the last change is needed
        while len(needed) != len(chosen):
            needed = chosen
            for candidate in reversed(candidates):
                rest = [kept for kept in chosen if kept is not candidate]
                if self.fits(rest, ranks):
                    chosen = rest
            candidates = chosen
        return chosen

    def _usage_after_each_change(
        self, chosen: Sequence[ConfigChange], first: Estimate
    ) -> tuple[AppliedChange, ...]:
        """The upper bounds after each change."""

        def usage_of(changes: Sequence[ConfigChange]) -> tuple[int, int] | None:
            estimate = self.estimate(changes, first.world_size) if changes else first
            return None if estimate is None else (self.limits.needed(estimate), estimate.host.upper_bound)

        return tuple(changes_with_effect(chosen, usage_of, self.limits.host is not None))

    def _describe_largest_terms(self, estimate: Estimate) -> str:
        """The largest terms at the highest peak of the memory that does not fit."""
        memory_name, side = "a rank", estimate.rank
        if self.limits.verdicts(estimate)[0] in (None, FITS):
            memory_name, side = "the host", estimate.host
        phase = max(side.bound, key=lambda name: side.bound[name])
        terms = sorted(side.terms, key=lambda term: -term.phases.get(phase, 0))[:3]
        named = ", ".join(f"{term.name} {term.phases.get(phase, 0) / GIB:.2f}" for term in terms)
        return f"{memory_name} needs up to {side.bound[phase] / GIB:.2f} GiB in {phase}: {named}"


# Smaller micro batches, in the config and in training arguments.

ZENFLOW = "zero_optimization.zenflow"
ARGUMENTS = {MICRO: "per_device_train_batch_size", STEPS: "gradient_accumulation_steps"}


class ConsumerBatchKeys(NamedTuple):
    """The consumer, and the batch keys that the config leaves to its arguments."""

    consumer: str = "deepspeed"
    left_to_arguments: frozenset[str] = frozenset()
    extra_values: Mapping[str, Json] = {}
    """Further values to set: the batch, if it does not match the requested micro batch."""


def consumer_batch_keys(document: Document, options: MemoryOptions, run: Run) -> ConsumerBatchKeys:
    """The filler for a config with these options."""
    located = locate_config(document)
    data = read_input_config(located, options.build_job_of_config(located)).document.value()
    values = {**(data if isinstance(data, dict) else {}), **(options.set or {})}
    reader = split_consumer_spec(run.consumer)[0]
    left = frozenset(key for key in ARGUMENTS if reader in HUGGING_FACE and values.get(key) == "auto")
    batch = values.get(TRAIN)
    batch_differs = isinstance(batch, (int, float)) and batch != run.train_batch_size
    return ConsumerBatchKeys(reader, left, {TRAIN: run.train_batch_size} if batch_differs else {})


def smaller_batches(
    values: Mapping[str, Json], zenflow: bool, filler: ConsumerBatchKeys
) -> Iterator[ConfigChange]:
    """Yield smaller micro batches with more steps; `zenflow`: scale its intervals too."""
    counts = (STEPS, f"{ZENFLOW}.update_interval") if zenflow else (STEPS,)
    micro, steps = integer_value(values, MICRO), max(1, integer_value(values, counts[-1]))
    interval = max(1, integer_value(values, f"{ZENFLOW}.select_interval") // steps)
    by_steps = zenflow and values.get(f"{ZENFLOW}.select_strategy") == "step"
    while micro > 1:
        part = next(divisor for divisor in range(2, micro + 1) if micro % divisor == 0)
        micro, steps = micro // part, steps * part
        more = {f"{ZENFLOW}.select_interval": steps * interval} if by_steps else {}
        yield _batch_change({MICRO: micro, **dict.fromkeys(counts, steps), **more}, filler)


def integer_value(values: Mapping[str, Json], key: str) -> int:
    """Integer value of a key; 0 without one."""
    value = values.get(key)
    return int(value) if isinstance(value, (int, float)) else 0


def _batch_change(values: Mapping[str, int], filler: ConsumerBatchKeys) -> ConfigChange:
    """Change the batch in the config or its arguments; the Trainer rejects differing values."""
    is_trainer = filler.consumer == "transformers"
    arguments = {
        ARGUMENTS[key]: value
        for key, value in values.items()
        if key in filler.left_to_arguments or (is_trainer and key in ARGUMENTS)
    }
    values_to_set = {**values, **filler.extra_values}
    config_values = {
        key: value for key, value in values_to_set.items() if key not in filler.left_to_arguments
    }
    descriptions = [change_of_values(config_values).description] if config_values else []
    if arguments:
        named = " and ".join(f"`{name}` to {value}" for name, value in arguments.items())
        descriptions.append(f"set {named} in the {'training arguments' if is_trainer else 'script'}")
    return ConfigChange(
        " and ".join(descriptions),
        values_to_set,
        arguments=arguments,
        left_to_arguments=filler.left_to_arguments,
    )


# Text of the config with the changes.


def reject_launch_file(document: Document) -> None:
    """Reject a launch file, which cannot hold the changes.

    Raises:
        ValueError: the document is a launch file.
    """
    if locate_config(document).relation != "file":
        raise ValueError(f"{document.name} is a launch file: pass the config itself, or omit -o")


class FittedConfig(NamedTuple):
    """The text of the config with the changes."""

    text: str
    removed_keys: tuple[str, ...] = ()
    """Keys that are removed because nothing reads them any more."""
    consumer: str | None = None
    """Consumer to set explicitly, if auto-detection would choose another one."""


def write_fitted_config(
    document: Document, options: MemoryOptions, fit: FittingChanges, name: str
) -> FittedConfig:
    """The config with the initial values and the changes; `name`: name of the new file.

    Raises:
        ValueError: the text cannot be edited.
    """
    run = estimate_request(document, options).run
    first = _initial_values(document, options, run)
    values = reduce(merge_values, (change.in_config for change, *_ in fit.changes), first)
    try:
        before = _apply_values(document, first)
        after = _apply_values(document, values)
        removed = sorted(_unread_keys(after, run) - _unread_keys(before, run)) if fit.changes else []
        text = (apply_operations(after, map(RemoveKey, removed)) if removed else after).text
    except EditError as error:
        raise ValueError(f"{document.name} cannot be changed: {error}") from None
    asked_job = job_from_arguments(
        None, None, options.job.reader.explicit_consumer_spec if options.job else options.consumer
    )
    old_consumer = job_of_document(document, asked_job).reader.consumer_spec
    new_consumer = job_of_document(read_text(text, name, document.format), asked_job).reader.consumer_spec
    return FittedConfig(
        text, tuple(map(dotted_path, removed)), None if old_consumer == new_consumer else old_consumer
    )


def _apply_values(document: Document, values: Mapping[str, Json]) -> Document:
    operations = [SetValue(tuple(key.split(".")), value) for key, value in values.items()]
    return apply_operations(document, operations) if operations else document


def _unread_keys(document: Document, run: Run) -> set[KeyPath]:
    """Paths of keys without an effect."""
    target = ReleaseTarget((run.release,), run.release, "argument")
    report = check_document(document, target, world_size=run.world_size, consumer=run.consumer)
    fixes = [
        diagnostic.fix.operations
        for diagnostic in report
        if diagnostic.effect == "ignored" and diagnostic.fix
    ]
    removed = [
        operations
        for operations in fixes
        if all(isinstance(operation, RemoveKey) for operation in operations)
    ]
    return {
        operation.path
        for operations in removed
        for operation in operations
        if isinstance(operation, RemoveKey)
    }


def _initial_values(document: Document, options: MemoryOptions, run: Run) -> JsonObject:
    """Values to set before the changes: `set`, and the requested micro batch.

    Keys that the config leaves to training arguments stay `auto`.
    """
    data = document.value()
    config = data if isinstance(data, dict) else {}
    values = dict(options.set or {})
    if options.micro_batch is not None:
        batch = {MICRO: run.train_micro_batch_size_per_gpu, STEPS: run.gradient_accumulation_steps}
        batch[TRAIN] = run.train_batch_size
        values |= {key: value for key, value in batch.items() if key == MICRO or key in config}
    filled = _keys_filled_by_consumer(run.consumer)
    return {
        key: value
        for key, value in values.items()
        if not (key in filled and _value_at(config, key) == "auto")
    }


def _keys_filled_by_consumer(spec: str) -> frozenset[str]:
    """Keys that the consumer fills from its arguments, except those of `zero_optimization`."""
    name = split_consumer_spec(spec)[0]
    fills = consumer_from_spec(spec).fills if name in HUGGING_FACE else ()
    return frozenset(fill.key for fill in fills if not fill.key.startswith("zero_optimization."))


def _value_at(data: object, key: str) -> object:
    for part in key.split("."):
        data = data.get(part) if isinstance(data, dict) else None
    return data
