"""The smallest changes with which a config fits a GPU, and the config with these changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from dsconfig.launch.located_config import locate_config
from dsconfig.memory import ConfigChange, FitSearch, NotModelledError, change_of_values, merge_values
from dsconfig.resolve.errors import ResolveError
from dsconfig.resolve.input_config import read_input_config
from dsconfig.resolve.memory import EstimateRequest, estimate_request
from dsconfig.resolve.memory_options import MemoryOptions

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, KeyPath
    from dsconfig.memory import FittingChanges, RequestedLimits
    from dsconfig.resolve.resolved_run import ResolvedRun


# The search.


def find_fit(document: Document, options: MemoryOptions, limits: RequestedLimits) -> FittingChanges:
    """Find the smallest changes with which the memory of a rank and host fits, as `dsconfig memory` judges it."""
    return fit_search(document, options, limits).fit()


def fit_search(document: Document, options: MemoryOptions, limits: RequestedLimits) -> FitSearch:
    """Create the search for a config; each change is applied to the document, which is resolved anew."""
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

ARGUMENTS = {MICRO: "per_device_train_batch_size", STEPS: "gradient_accumulation_steps"}


class ConsumerBatchKeys(NamedTuple):
    """A consumer, and the batch keys that the config leaves to the consumer's arguments."""

    consumer: str = "deepspeed"
    left_to_arguments: frozenset[str] = frozenset()
    extra_values: Mapping[str, Json] = {}
    """Further values to set: the batch, if it does not match the requested micro batch."""


def consumer_batch_keys(document: Document, options: MemoryOptions, run: ResolvedRun) -> ConsumerBatchKeys:
    """Return the batch keys that the consumer fills in for a config with these options."""
    located = locate_config(document)
    data = read_input_config(located, options.build_job_of_config(located)).document.value()
    values = {**(data if isinstance(data, dict) else {}), **(options.set or {})}
    reader = split_consumer_spec(run.consumer)[0]
    left = frozenset(key for key in ARGUMENTS if reader in HUGGING_FACE and values.get(key) == "auto")
    batch = values.get(TRAIN)
    batch_differs = isinstance(batch, (int, float)) and batch != run.train_batch_size
    return ConsumerBatchKeys(reader, left, {TRAIN: run.train_batch_size} if batch_differs else {})


def _batch_change(values: Mapping[str, int], filler: ConsumerBatchKeys) -> ConfigChange:
    """Return a change of the batch in the config or its training arguments, whose values must agree for the Trainer."""
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
    """Reject a launch file, because the changes can only be written to a config.

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
    """Return the config with the initial values and the changes; `name` is that of the new file.

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


def _unread_keys(document: Document, run: ResolvedRun) -> set[KeyPath]:
    """Return the paths of keys that have no effect."""
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
    """Return the keys that the consumer fills from its arguments, except those of `zero_optimization`."""
    name = split_consumer_spec(spec)[0]
    fills = consumer_from_spec(spec).fills if name in HUGGING_FACE else ()
    return frozenset(fill.key for fill in fills if not fill.key.startswith("zero_optimization."))


def _value_at(data: object, key: str) -> object:
    for part in key.split("."):
        data = data.get(part) if isinstance(data, dict) else None
    return data
