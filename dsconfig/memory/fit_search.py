"""Find the smallest changes with which a run fits a GPU, preferring those that cost the least speed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dsconfig.memory.config_values import ZERO, ConfigValues
from dsconfig.memory.estimates import NO_LIMIT, Estimate, MemoryLimit, estimate
from dsconfig.memory.models.record_pass_by_family import record_forward_pass
from dsconfig.memory.setup_from_config import micro_batch_of, setup_of
from dsconfig.memory.verdict import EXCEEDS, FITS, NotModelledError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.memory.memory_limits import RequestedLimits
    from dsconfig.memory.models.architecture import Architecture
    from dsconfig.memory.setup_from_config import TrainingJob
    from dsconfig.memory.verdict import UnmodeledSetting, Verdict


# Changes in the config, the script or the environment, and the order in which they are shown.

NOWHERE: Mapping[str, Json] = {}
UsageOf = Callable[[Sequence["ConfigChange"]], "tuple[int, int] | None"]
"""Function from changes to the upper bounds of a rank and its host, or to None if they cannot be combined."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of config values, the script or the environment.

    `arguments` are training arguments, which set those of the `values` that the config leaves to them
    (`left_to_arguments`).
    """

    description: str
    values: Mapping[str, Json]
    checkpointing: bool = False
    zero_init: bool = False
    expandable_segments: bool = False
    """Whether the environment sets `expandable_segments`, which affects only cached blocks."""
    arguments: Mapping[str, Json] = field(default_factory=dict)
    left_to_arguments: frozenset[str] = frozenset()

    @property
    def values_for_config(self) -> JsonObject:
        """Return the values that the user must set in the config itself."""
        return {key: value for key, value in self.values.items() if key not in self.left_to_arguments}

    def to_dict(self, bound: int, host: int) -> JsonObject:
        """Return the change as JSON, with the resulting upper bounds, in bytes, of a rank and its host."""
        return {
            "told": self.description,
            "set": self.values_for_config,
            "arguments": dict(self.arguments),
            "checkpointing": self.checkpointing,
            "zero_init": self.zero_init,
            "expandable_segments": self.expandable_segments,
            "bound": bound,
            "host_bound": host,
        }


class AppliedChange(NamedTuple):
    """A change, and the upper bounds, in bytes, of a rank and its host after it and all earlier changes."""

    change: ConfigChange
    bound: int
    host: int


def merge_values(values: Mapping[str, Json], more: Mapping[str, Json]) -> dict[str, Json]:
    """Merge config values; a section in `more` replaces all keys of that section in `values`."""
    anew = tuple(f"{key}." for key in more)
    kept = {key: value for key, value in values.items() if key not in more and not key.startswith(anew)}
    return {**kept, **more}


def change_values(config: ConfigValues, changes: Sequence[ConfigChange]) -> ConfigValues:
    """Apply changes to the values of a config, and return the resulting values."""
    values, explicit_keys = config.values, set(config.explicit_keys)
    for change in changes:
        replaced = tuple(f"{key}." for key in change.values)
        flat = dict(item for key, value in change.values.items() for item in _flat_items(key, value))
        values = {key: value for key, value in values.items() if not key.startswith(replaced)} | flat
        explicit_keys = {key for key in explicit_keys if not key.startswith(replaced)} | flat.keys()
    return ConfigValues(values, explicit_keys)


def _flat_items(key: str, value: Json) -> Iterator[tuple[str, Json]]:
    """Yield the dotted keys in a section with their values."""
    if isinstance(value, dict):
        for name, nested in value.items():
            yield from _flat_items(f"{key}.{name}", nested)
    else:
        yield key, value


def change_of_values(values: Mapping[str, Json]) -> ConfigChange:
    """Return the change that sets these config values."""
    description = " and ".join(f"set `{key}` to {json.dumps(value)}" for key, value in values.items())
    return ConfigChange(description, values)


def merge_changes(changes: Sequence[ConfigChange]) -> ConfigChange:
    """Merge several changes into one, listing repeated keys once."""
    if len(changes) == 1:
        return changes[0]
    values: dict[str, Json] = {}
    for change in changes:
        values = merge_values(values, change.values)
    only_sets_values = all(change == change_of_values(change.values) for change in changes)
    return ConfigChange(
        change_of_values(values).description
        if only_sets_values
        else " and ".join(change.description for change in changes),
        values,
        any(change.checkpointing for change in changes),
        any(change.zero_init for change in changes),
        any(change.expandable_segments for change in changes),
        {key: value for change in changes for key, value in change.arguments.items()},
        frozenset[str]().union(*(change.left_to_arguments for change in changes)),
    )


def changes_with_effect(
    chosen: Sequence[ConfigChange], usage_of: UsageOf, includes_host: bool
) -> Iterator[AppliedChange]:
    """Yield the changes that affect memory, each with the memory usage after it.

    A change that has no effect alone is combined with the next change in the same sections, or tried again at the end.
    Changes that never have an effect form a group, which is left out if it has none either.
    """
    applied, waiting = list[ConfigChange](), list[ConfigChange]()
    previous = usage_of(())

    def effect(changes: Sequence[ConfigChange]) -> tuple[int, int] | None:
        """Return the memory usage after these changes, or None if they have no effect."""
        usage = usage_of([*applied, *changes])
        same = (
            usage is None
            or previous is None
            or (usage if includes_host else usage[:1]) == (previous if includes_host else previous[:1])
        )
        return None if same else usage

    for change in chosen:
        related = [other for other in waiting if _changed_sections(other) & _changed_sections(change)]
        waiting = [other for other in waiting if other not in related]
        if change.expandable_segments and previous is not None:  # not in the upper bounds
            yield AppliedChange(change, *previous)
            applied.append(change)
        elif usage := effect([*related, change]):
            yield AppliedChange(merge_changes([*related, change]), *usage)
            applied, previous = [*applied, *related, change], usage
        else:
            waiting += [*related, change]
    while candidate := next(((change, usage) for change in waiting if (usage := effect([change]))), None):
        change, previous = candidate
        yield AppliedChange(change, *previous)
        applied.append(change)
        waiting.remove(change)
    if waiting and (usage := effect(waiting)):
        yield AppliedChange(merge_changes(waiting), *usage)


def _changed_sections(change: ConfigChange) -> set[str]:
    """Return the config sections in which a change sets keys."""
    return {".".join(key.split(".")[:2]) for key in change.values}


# The search.

MICRO, STEPS = "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
ZENFLOW = f"{ZERO}zenflow"
SMALL_BUCKET, FEW_LIVE, SMALL_GROUP = 50_000_000, 100_000_000, 100_000_000
MOST_RANKS, GIB, KILO = 4096, 1 << 30, 1024
LIVE_KEYS = (f"{ZERO}stage3_max_live_parameters", f"{ZERO}stage3_max_reuse_distance")
NVME = "/local_nvme"
"""Path from DeepSpeed's documentation, which is used if the config has none."""


@dataclass(frozen=True, slots=True)
class FittingChanges:
    """The changes that a search found, with the usage after each; empty if the run fits already.

    `ranks` is a world size that fits if no changes do, or None. `chosen` lists the changes one by one; `changes`
    combines those that have no effect alone.
    """

    fits: bool
    changes: tuple[AppliedChange, ...] = ()
    ranks: int | None = None
    reason: str = ""
    chosen: tuple[ConfigChange, ...] = ()
    unmodelled: tuple[UnmodeledSetting, ...] = ()

    verdict: Verdict = EXCEEDS
    """Verdict of `dsconfig memory` after these changes."""
    estimate: Estimate | None = None
    """Estimate after these changes, or None."""

    def to_dict(self) -> JsonObject:
        """Return the result as a JSON object."""
        changes: list[Json] = [change.to_dict(bound, host) for change, bound, host in self.changes]
        return {
            "fits": self.fits,
            "verdict": self.verdict,
            "changes": changes,
            "world_size": self.ranks,
            "why": self.reason or None,
            "not_modelled": [each.to_dict() for each in self.unmodelled],
        }


class ChangedRun(Protocol):
    """A training run with some changes applied."""

    def answer(self, room: MemoryLimit = NO_LIMIT) -> Estimate:
        """Estimate the memory; raise `LimitExceededError` as soon as the estimate exceeds `room`."""

    def known_defects(self) -> frozenset[str]:
        """Return the defects of the release that make the run crash or train wrong weights."""


RunAfter = Callable[[Sequence[ConfigChange], int], ChangedRun]
"""Function from changes and world size to the changed run; raises `NotModelledError` if no such run is possible."""
ChangeBatch = Callable[[Mapping[str, int]], ConfigChange]
"""Function from values of the batch keys to the change that sets these values."""


def fit(
    config: ConfigValues,
    model: Architecture,
    job: TrainingJob,
    limits: RequestedLimits,
    *,
    run_after: RunAfter | None = None,
    change_batch: ChangeBatch = change_of_values,
) -> FittingChanges:
    """Find the smallest changes with which a rank and its host fit their limits, for `dsconfig memory`.

    Args:
        config: effective values of the config.
        model: sizes of the model.
        job: release, world size, and what the training script does.
        limits: memory of a GPU and of a host.
        run_after: function that returns the run after some changes, if they affect more than the config values, such as
            the batch that a consumer fills in, or the rules that report a defect.
        change_batch: function that changes the batch, if training arguments set it.

    Raises:
        NotModelledError: the config or model has no estimate; the message names the setting.
    """
    return FitSearch(config, model, job, limits, run_after=run_after, change_batch=change_batch).fit()


class UnfilledRun(NamedTuple):
    """A run whose config no consumer fills in, so that a change affects only the changed values."""

    config: ConfigValues
    model: Architecture
    job: TrainingJob

    def after(self, changes: Sequence[ConfigChange], world_size: int) -> UnfilledRun:
        """Return the run with these changes applied."""
        values, batch = change_values(self.config, changes), self.job.micro_batch
        micro_before, micro = (integer_value(each.values, MICRO) for each in (self.config, values))
        if micro and micro_before:
            batch = batch._replace(micro_batch_size=batch.micro_batch_size * micro // micro_before)
        if any(change.checkpointing for change in changes):
            batch = batch._replace(gradient_checkpointing=True)
        zero_init = self.job.zero_init or any(change.zero_init for change in changes)
        expands = self.job.expandable_segments or any(change.expandable_segments for change in changes)
        job = self.job._replace(
            world_size=world_size, micro_batch=batch, zero_init=zero_init, expandable_segments=expands
        )
        return self._replace(config=values, job=job)

    def answer(self, room: MemoryLimit = NO_LIMIT) -> Estimate:
        """Estimate the memory; raise `LimitExceededError` as soon as the estimate exceeds `room`."""
        return estimate(self.config, self.model, self.job, room)

    def known_defects(self) -> frozenset[str]:
        """Return an empty set, because only the rules of `check` know the defects of a release."""
        return frozenset()


def _cache_key(chosen: Sequence[ConfigChange], ranks: int) -> tuple[str, ...]:
    return (*(change.description for change in chosen), str(ranks))


class FitSearch:
    """Search for a sufficient set of changes; see `fit`."""

    def __init__(
        self,
        config: ConfigValues,
        model: Architecture,
        job: TrainingJob,
        limits: RequestedLimits,
        *,
        run_after: RunAfter | None = None,
        change_batch: ChangeBatch = change_of_values,
    ) -> None:
        if limits.gpu is not None:
            job = job._replace(gpu_limit=limits.gpu.usable_bytes(limits.margin))
        self.run_after = run_after or UnfilledRun(config, model, job).after
        self.limits = limits
        unchanged = self.run_after((), job.world_size)
        self.defects = unchanged.known_defects()
        self.first = unchanged.answer()
        """Estimate before any change."""
        shard_numel = 0 if limits.host is None else _largest_shard(config, model, job)
        counts_cached = limits.gpu is not None and limits.margin is None and not job.expandable_segments
        self.candidates = (
            *((EXPANDABLE_SEGMENTS,) if counts_cached else ()),
            *candidate_changes(config, job, shard_numel, change_batch),
        )
        """All changes that may help, cheapest first."""
        self.fitting: dict[tuple[str, ...], Estimate] = {}
        """Estimates that fit, keyed by their changes."""

    def estimate(self, chosen: Sequence[ConfigChange], ranks: int) -> Estimate | None:
        """Estimate the run with these changes; return None if the release or the model does not support them."""
        cached = self.fitting.get(_cache_key(chosen, ranks))
        try:
            return cached or self.run_after(chosen, ranks).answer()
        except NotModelledError:
            return None

    def fits(self, chosen: Sequence[ConfigChange], ranks: int) -> bool | None:
        """Return whether rank and host fit with these changes, or None if the changes are not usable."""
        try:
            run = self.run_after(chosen, ranks)
            if run.known_defects() - self.defects:
                return None
            fitting = self.limits.fitting(run.answer)
        except NotModelledError:
            return None
        if fitting is not None:
            self.fitting[_cache_key(chosen, ranks)] = fitting
        return fitting is not None

    def fit(self) -> FittingChanges:
        """Apply changes until the run fits, then drop those that turn out unnecessary."""
        first, ranks = self.first, self.first.world_size
        if self.limits.fits(first):
            return self._result(first, fits=True)
        chosen: list[ConfigChange] = []
        for change in self.candidates:
            fits = self.fits([*chosen, change], ranks)
            if fits is not None:
                chosen.append(change)
            if fits:
                chosen = self._drop_unneeded_changes(chosen, ranks)
                return self._result(self.estimate(chosen, ranks) or first, chosen, fits=True)
        last = self.estimate(chosen, ranks) or first
        failed = replace(self._result(last, chosen), reason=self._describe_largest_terms(last), chosen=())
        while (ranks := ranks * 2) <= MOST_RANKS:
            if self.fits(chosen, ranks):
                return replace(failed, ranks=ranks)
        return failed

    def _result(
        self, last: Estimate, chosen: Sequence[ConfigChange] = (), *, fits: bool = False
    ) -> FittingChanges:
        return FittingChanges(
            fits,
            self._usage_after_each_change(chosen),
            chosen=tuple(chosen),
            unmodelled=self.first.unmodelled,
            verdict=self.limits.verdict(last),
            estimate=last,
        )

    def _drop_unneeded_changes(self, chosen: list[ConfigChange], ranks: int) -> list[ConfigChange]:
        """Drop the unnecessary changes, starting with the most expensive.

        The search repeats, because one change can make another unnecessary.
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

    def _usage_after_each_change(self, chosen: Sequence[ConfigChange]) -> tuple[AppliedChange, ...]:
        """Return each change with the upper bounds after it."""

        def usage_of(changes: Sequence[ConfigChange]) -> tuple[int, int] | None:
            estimate = self.estimate(changes, self.first.world_size) if changes else self.first
            return None if estimate is None else (self.limits.needed(estimate), estimate.host.upper_bound)

        return tuple(changes_with_effect(chosen, usage_of, self.limits.host is not None))

    def _describe_largest_terms(self, estimate: Estimate) -> str:
        """Describe the largest memory terms at the highest peak, for the memory that does not fit."""
        memory_name, side = "a rank", estimate.rank
        if self.limits.verdicts(estimate)[0] in (None, FITS):
            memory_name, side = "the host", estimate.host
        phase = max(side.bound, key=lambda name: side.bound[name])
        terms = sorted(side.terms, key=lambda term: -term.phases.get(phase, 0))[:3]
        named = ", ".join(f"{term.name} {term.phases.get(phase, 0) / GIB:.2f}" for term in terms)
        return f"{memory_name} needs up to {side.bound[phase] / GIB:.2f} GiB in {phase}: {named}"


# Candidate changes, by their cost in speed.


def candidate_changes(
    config: ConfigValues, job: TrainingJob, shard_numel: int = 0, change_batch: ChangeBatch = change_of_values
) -> Iterator[ConfigChange]:
    """Yield candidate changes, starting with those that cost the least speed.

    `shard_numel` is the numel of the largest shard if host memory is limited too, else 0. ZenFlow is removed before a
    change to stage 3, because stage 3 supports it with neither zero.Init nor checkpointing.
    """
    values, zenflow, zero_init = config.values, config.has_zenflow, job.zero_init
    checkpointing = job.micro_batch.gradient_checkpointing
    stage = integer_value(values, f"{ZERO}stage")
    bucket = integer_value(values, f"{ZERO}reduce_bucket_size") > SMALL_BUCKET
    smaller_bucket = change_of_values({f"{ZERO}reduce_bucket_size": SMALL_BUCKET})
    if bucket and stage:
        yield smaller_bucket
    if stage == 3:
        yield from _stage3_changes(values, zero_init)
    yield from smaller_batches(values, zenflow, change_batch)
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
    yield from _offload_changes(config)
    if shard_numel:
        yield from _host_changes(values, shard_numel)


def _zenflow_changes(
    values: Mapping[str, Json], stage: int, checkpointing: bool, in_shards: bool
) -> Iterator[ConfigChange]:
    """Yield changes that offload ZenFlow's states or remove ZenFlow, and changes that stage 3 then allows."""
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
    """Yield changes for stage 3."""
    if not in_shards:
        yield ConfigChange("build the model in shards (zero.Init) in the script", {}, zero_init=True)
    if any(integer_value(values, key) > FEW_LIVE for key in LIVE_KEYS) or LIVE_KEYS[0] not in values:
        yield change_of_values(dict.fromkeys(LIVE_KEYS, FEW_LIVE))


EXPANDABLE_SEGMENTS = ConfigChange(
    "set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` in the environment", {}, expandable_segments=True
)
CHECKPOINTING = ConfigChange("checkpoint activations in the script", {}, checkpointing=True)
SECTIONS = (f"{ZERO}offload_optimizer", f"{ZERO}offload_param")


def _offload_changes(config: ConfigValues) -> Iterator[ConfigChange]:
    """Yield changes that offload first the optimizer, then the parameters."""
    values = config.values
    for section in SECTIONS:
        if values.get(f"{section}.device") in (None, "none"):
            yield change_of_values(
                {f"{section}.device": "cpu"} if config.has_section(section) else {section: {"device": "cpu"}}
            )
        if section == SECTIONS[0] and _is_muon(values):  # stage 3 gathers all matrices of a sub-group
            yield change_of_values({f"{ZERO}sub_group_size": SMALL_GROUP})


def _host_changes(values: Mapping[str, Json], shard_numel: int) -> Iterator[ConfigChange]:
    """Yield changes that disable pinning, which pads buffers, and then use NVMe with buffers of sufficient size."""
    for section in SECTIONS:
        if values.get(f"{section}.pin_memory") is not False:
            yield change_of_values({f"{section}.pin_memory": False})
    for section in SECTIONS:
        if values.get(f"{section}.device") != "nvme":
            buffer = {f"{section}.buffer_size": shard_numel} if section == SECTIONS[1] else {}
            yield change_of_values({f"{section}.device": "nvme", f"{section}.nvme_path": NVME, **buffer})
    if integer_value(values, f"{ZERO}sub_group_size") > SMALL_GROUP or f"{ZERO}sub_group_size" not in values:
        yield change_of_values({f"{ZERO}sub_group_size": SMALL_GROUP})


def smaller_batches(
    values: Mapping[str, Json], zenflow: bool, change_batch: ChangeBatch
) -> Iterator[ConfigChange]:
    """Yield smaller micro batches with more accumulation steps, scaling ZenFlow's intervals if needed."""
    counts = (STEPS, f"{ZENFLOW}.update_interval") if zenflow else (STEPS,)
    micro, steps = integer_value(values, MICRO), max(1, integer_value(values, counts[-1]))
    interval = max(1, integer_value(values, f"{ZENFLOW}.select_interval") // steps)
    by_steps = zenflow and values.get(f"{ZENFLOW}.select_strategy") == "step"
    while micro > 1:
        part = next(divisor for divisor in range(2, micro + 1) if micro % divisor == 0)
        micro, steps = micro // part, steps * part
        more = {f"{ZENFLOW}.select_interval": steps * interval} if by_steps else {}
        yield change_batch({MICRO: micro, **dict.fromkeys(counts, steps), **more})


def integer_value(values: Mapping[str, Json], key: str) -> int:
    """Return the integer value of a key, or 0 if its value is not an integer."""
    value = values.get(key)
    return int(value) if isinstance(value, (int, float)) else 0


def _largest_shard(config: ConfigValues, model: Architecture, job: TrainingJob) -> int:
    """Return the numel of a rank's largest shard, rounded up to a multiple of 1,024."""
    setup = setup_of(config, job)
    tape = record_forward_pass(model, micro_batch_of(setup, job))
    largest = max((weight.numel for weight in tape.weights), default=0)
    return -(-largest // setup.dp_world_size // KILO) * KILO
