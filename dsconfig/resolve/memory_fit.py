"""Search for what fits a GPU: config changes, the largest micro batch, sequence or model, and each ZeRO stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.check.build_job import job_from_arguments, job_of_document
from dsconfig.check.check import check_document
from dsconfig.core.batch_triplet import MICRO, STEPS, TRAIN
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
from dsconfig.memory import (
    ASSUMED_LENGTH,
    FITS,
    RANK,
    UNKNOWN,
    WORST_FIRST,
    ConfigChange,
    FitSearch,
    NotModelledError,
    Verdict,
    change_of_values,
    merge_values,
)
from dsconfig.resolve.errors import ResolveError, UnfilledError
from dsconfig.resolve.input_config import read_input_config
from dsconfig.resolve.memory import NODE, EstimateRequest, estimate_request
from dsconfig.resolve.memory_options import BATCH_ARGUMENTS, LONGEST, MemoryOptions

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, KeyPath
    from dsconfig.memory import Estimate, FittingChanges, RequestedLimits, UnmodeledSetting
    from dsconfig.resolve.resolved_run import ResolvedRun


# The smallest changes with which a config fits.


def find_fit(document: Document, options: MemoryOptions, limits: RequestedLimits) -> FittingChanges:
    """Find the smallest changes with which rank and host fit their limits, for `dsconfig memory`."""
    return fit_search(document, options, limits).fit()


def fit_search(document: Document, options: MemoryOptions, limits: RequestedLimits) -> FitSearch:
    """Create the search for a config, which applies each change to the document and resolves it again."""
    fitted_config = dict(options.set or {})
    if options.micro_batch is not None:  # takes precedence
        fitted_config.pop(MICRO, None)
    if limits.gpu is not None:
        options = options._replace(gpu_limit=limits.gpu.usable_bytes(limits.margin))
    first = estimate_request(document, options)

    def run_after(changes: Sequence[ConfigChange], ranks: int) -> EstimateRequest:
        if not changes and ranks == first.run.world_size:
            return first
        values = reduce(merge_values, (change.values for change in changes), dict[str, "Json"]())
        # The batch grows with the ranks.
        if ranks != first.run.world_size and "train_batch_size" in first.run.config:
            groups = int(ranks * first.run.data_parallel_size // first.run.world_size)
            triplet = {
                MICRO: first.run.train_micro_batch_size_per_gpu,
                STEPS: first.setup.gradient_accumulation_steps,
                **values,
            }
            values = {**triplet, TRAIN: int(str(triplet[MICRO])) * int(str(triplet[STEPS])) * groups}
        changed = _options_with_changes(options, changes, merge_values(fitted_config, values), ranks)
        try:
            return estimate_request(document, changed)
        except ResolveError as error:
            raise NotModelledError(error.reason) from error

    change_batch = partial(_batch_change, filler=consumer_batch_keys(document, options, first.run))
    return FitSearch(
        first.values, first.arch, first.job, limits, run_after=run_after, change_batch=change_batch
    )


def _options_with_changes(
    options: MemoryOptions, changes: Sequence[ConfigChange], values: Mapping[str, Json], ranks: int
) -> MemoryOptions:
    checks = any(change.checkpointing for change in changes) or options.checkpointing
    shards = any(change.zero_init for change in changes) or options.zero_init
    expands = any(change.expandable_segments for change in changes) or options.expandable_segments
    micro = None if MICRO in values else options.micro_batch
    return options._replace(
        set=values,
        checkpointing=checks,
        zero_init=shards,
        expandable_segments=expands,
        world_size=ranks,
        micro_batch=micro,
    )


# Smaller micro batches, in the config and in training arguments.


class ConsumerBatchKeys(NamedTuple):
    """A consumer, and the batch keys that the config leaves to its training arguments."""

    consumer: str = "deepspeed"
    left_to_arguments: frozenset[str] = frozenset()
    extra_values: Mapping[str, Json] = {}
    """Further values to set: the batch, if it does not match the requested micro batch."""


def consumer_batch_keys(document: Document, options: MemoryOptions, run: ResolvedRun) -> ConsumerBatchKeys:
    """Return the batch keys that the consumer fills in for a config."""
    located = locate_config(document)
    data = read_input_config(located, options.build_job_of_config(located)).document.value()
    values = {**(data if isinstance(data, dict) else {}), **(options.set or {})}
    reader = split_consumer_spec(run.consumer)[0]
    left = frozenset(key for key in BATCH_ARGUMENTS if reader in HUGGING_FACE and values.get(key) == "auto")
    batch = values.get(TRAIN)
    batch_differs = isinstance(batch, (int, float)) and batch != run.train_batch_size
    return ConsumerBatchKeys(reader, left, {TRAIN: run.train_batch_size} if batch_differs else {})


def _batch_change(values: Mapping[str, int], filler: ConsumerBatchKeys) -> ConfigChange:
    """Return a change of the batch in the config and in the training arguments, which must match for the Trainer."""
    is_trainer = filler.consumer == "transformers"
    arguments = {
        BATCH_ARGUMENTS[key]: value
        for key, value in values.items()
        if key in filler.left_to_arguments or (is_trainer and key in BATCH_ARGUMENTS)
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
    """Reject a launch file, because changes can only be written to a config.

    Raises:
        ValueError: the document is a launch file.
    """
    if locate_config(document).relation != "file":
        raise ValueError(f"{document.name} is a launch file: pass the config itself, or omit -o")


class FittedConfig(NamedTuple):
    """The text of a config with the changes that make it fit."""

    text: str
    removed_keys: tuple[str, ...] = ()
    """Keys that are removed because nothing reads them after the changes."""
    consumer: str | None = None
    """Consumer to set explicitly, if auto-detection would choose another one."""


def write_fitted_config(
    document: Document, options: MemoryOptions, fit: FittingChanges, name: str
) -> FittedConfig:
    """Return the config with initial values and changes applied, to be saved as `name`.

    Raises:
        ValueError: the text cannot be edited.
    """
    run = estimate_request(document, options).run
    first = _initial_values(document, options, run)
    values = reduce(merge_values, (change.values_for_config for change, *_ in fit.changes), first)
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


def _unread_keys(document: Document, run: ResolvedRun) -> set[KeyPath]:
    """Return the paths of keys that have no effect in a run."""
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


def _initial_values(document: Document, options: MemoryOptions, run: ResolvedRun) -> JsonObject:
    """Return the values to set before the changes: those in `set`, and the requested micro batch.

    Keys that the config leaves to training arguments stay "auto".
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
    """Return the keys outside `zero_optimization` that the consumer fills from its arguments."""
    name = split_consumer_spec(spec)[0]
    fills = consumer_from_spec(spec).fills if name in HUGGING_FACE else ()
    return frozenset(fill.key for fill in fills if not fill.key.startswith("zero_optimization."))


def _value_at(data: object, key: str) -> object:
    for part in key.split("."):
        data = data.get(part) if isinstance(data, dict) else None
    return data


# The largest micro batch, sequence or model that fits.

KINDS = ("micro-batch", "sequence", "model")
MOST_LAYERS = 2000


@dataclass(frozen=True, slots=True)
class LargestFit:
    """The largest value that fits, or 0 if none does."""

    kind: str
    value: int
    """The value: a number of samples, tokens, or layers."""
    bound: int | None
    """Bytes that a rank may need with this value."""
    next_bound: int | None
    """Bytes that a rank may need with the next larger value; None if there is no larger value."""
    parameters: int
    verdict: Verdict
    """The verdict of `dsconfig memory` on this value, or on the smallest one if none fits."""
    reason: str = ""
    """The assumption on which the verdict depends, in words."""
    unmodelled: tuple[UnmodeledSetting, ...] = ()

    def to_dict(self) -> JsonObject:
        """Return the result as a JSON object."""
        return {
            "kind": self.kind,
            "value": self.value,
            "bound": self.bound,
            "next_bound": self.next_bound,
            "parameters": self.parameters,
            "verdict": self.verdict,
            "reason": self.reason or None,
            "not_modelled": [each.to_dict() for each in self.unmodelled],
        }


def find_largest_fit(
    document: Document, options: MemoryOptions, kind: str, limits: RequestedLimits
) -> LargestFit:
    """Find the largest micro batch, sequence length or number of layers that fits."""
    assert limits.gpu is not None
    options = options._replace(gpu_limit=limits.gpu.usable_bytes(limits.margin))
    request = _request_allowing_missing_value(document, options, kind)
    if kind == "sequence" and request.arch.image_size:
        raise NotModelledError("image models have no sequence length")
    # Must be divisible by the sequence-parallel ranks.
    step = request.micro_batch.sp_size if kind == "sequence" else 1
    limit = {
        "micro-batch": LONGEST,
        "sequence": request.arch.max_position_embeddings or LONGEST,
        "model": MOST_LAYERS,
    }[kind]

    def estimate_of(value: int) -> Estimate:
        return _request_with_value(request, kind, value).answer()

    def fits(value: int) -> bool:
        return limits.fitting(_request_with_value(request, kind, step * value).answer) is not None

    value = step * _bisect_largest(fits, limit // step)
    estimate = estimate_of(value or step)
    verdict = limits.verdict(estimate)
    if verdict == FITS and any(RANK in each.lowers for each in request.unmodelled):
        verdict = UNKNOWN  # a larger value may fit as well
    return LargestFit(
        kind,
        value,
        limits.needed(estimate) if value else None,
        limits.needed(estimate_of(value + step)) if value + step <= limit else None,
        estimate.parameters if value else 0,
        verdict,
        limits.gpu_verdict(estimate).reason,
        request.unmodelled,
    )


def _request_allowing_missing_value(document: Document, options: MemoryOptions, kind: str) -> EstimateRequest:
    """Return the estimate request for a search, which may lack the value that is searched for."""
    try:
        request = estimate_request(document, options)
        if kind == "sequence":
            assumed = tuple(each for each in request.assumed_inputs if each != ASSUMED_LENGTH)
            request = request._replace(assumed_inputs=assumed)
        return request
    except UnfilledError:
        if kind != "micro-batch" or options.micro_batch is not None:
            raise
        return estimate_request(document, options._replace(micro_batch=1))


def _request_with_value(request: EstimateRequest, kind: str, value: int) -> EstimateRequest:
    """Return the request with the micro batch, sequence length or number of layers replaced."""
    if kind == "model":
        return request._replace(arch=request.arch._replace(num_layers=value))
    if kind == "sequence":
        return request.with_micro_batch(request.job.micro_batch._replace(sequence_length=value))
    return request.with_micro_batch(request.job.micro_batch._replace(micro_batch_size=value))


def _bisect_largest(fits: Callable[[int], bool], limit: int) -> int:
    """Return the largest number up to `limit` that fits, found by bisection, or 0 if none fits."""
    low, high = 0, 1
    while high <= limit and fits(high):
        low, high = high, high * 2
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


# The memory of each ZeRO stage and offload, for a model without a config.

ROWS: tuple[tuple[int, str], ...] = (
    *((0, ""), (1, ""), (1, "optimizer"), (2, ""), (2, "optimizer")),
    *((3, ""), (3, "optimizer"), (3, "optimizer, parameters")),
)
"""ZeRO stages, each with the states that are offloaded to the CPU."""


class StageTableCell(NamedTuple):
    """A table cell: an estimate with or without activation checkpointing."""

    checkpointing: bool
    estimate: Estimate | None
    """The estimate; None if there is none."""
    reason: str = ""
    """Why there is no estimate."""

    def verdict(self, limits: RequestedLimits) -> Verdict | None:
        """Return the worse of the verdicts for rank and host, or None without limits."""
        if self.estimate is None:
            return "unknown"
        verdicts = limits.verdicts(self.estimate)
        return next((word for word in WORST_FIRST if word in verdicts), None)


class StageTableRow(NamedTuple):
    """A table row: one ZeRO stage with one kind of offload."""

    stage: int
    offload: str
    cells: tuple[StageTableCell, ...]

    def to_dict(self, limits: RequestedLimits) -> JsonObject:
        """Return the row as JSON, with the expected usage of a rank and of a host in bytes."""
        cells: list[Json] = [
            {
                "checkpointing": cell.checkpointing,
                "gpu": cell.estimate and cell.estimate.device and cell.estimate.device.to_dict(),
                "host": cell.estimate and cell.estimate.host.upper_bound,
                "verdict": cell.verdict(limits),
                "reason": cell.reason or None,
            }
            for cell in self.cells
        ]
        return {"stage": self.stage, "offload": self.offload or None, "variants": cells}


def build_stage_table(options: MemoryOptions) -> tuple[StageTableRow, ...]:
    """Estimate every stage and offload in bf16, with and without activation checkpointing.

    `options` are those of `memory`, with a world size. As with the Trainer, stage 3 builds the model in shards unless
    `zero_init` is false.

    Raises:
        NotModelledError: the model cannot be estimated at all.
        OSError, ValueError: as `memory` does.
    """
    choices = (False, True) if options.checkpointing is None else (options.checkpointing,)
    rows = [
        StageTableRow(
            stage, offload, tuple(_estimate_cell(options, stage, offload, choice) for choice in choices)
        )
        for stage, offload in ROWS
    ]
    cells = [cell for row in rows for cell in row.cells]
    if not any(cell.estimate for cell in cells):
        raise NotModelledError(cells[0].reason)
    if not any(cell.estimate and cell.estimate.has_activations for cell in cells):
        rows = [row._replace(cells=row.cells[:1]) for row in rows]  # checkpointing makes no difference
    return tuple(rows)


def _estimate_cell(options: MemoryOptions, stage: int, offload: str, checkpointing: bool) -> StageTableCell:
    try:
        return StageTableCell(checkpointing, _estimate_stage(options, stage, offload, checkpointing))
    except NotModelledError as error:
        return StageTableCell(checkpointing, None, str(error))


def _estimate_stage(options: MemoryOptions, stage: int, offload: str, checkpointing: bool) -> Estimate:
    config = dict(_stage_config(options, stage, offload))
    zero_init = stage == 3 if options.zero_init is None else options.zero_init
    options = options._replace(
        checkpointing=checkpointing,
        zero_init=zero_init,
        micro_batch=None,
        gpus_per_node=options.gpus_per_node or NODE,
    )
    return estimate_request(read_config_source(config), options).answer()


def _stage_config(options: MemoryOptions, stage: int, offload: str) -> Iterator[tuple[str, Json]]:
    yield "train_micro_batch_size_per_gpu", options.micro_batch or 1
    yield "bf16", {"enabled": True}
    zero: JsonObject = {"stage": stage}
    for key, name in (("offload_optimizer", "optimizer"), ("offload_param", "parameters")):
        if name in offload:
            zero[key] = {"device": "cpu"}
    yield "zero_optimization", zero
