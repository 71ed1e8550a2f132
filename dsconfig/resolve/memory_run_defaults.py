"""Defaults of a run for a memory estimate: training arguments, micro batch, sequence-parallel ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.core.batch_triplet import MICRO, SEQUENCE, STEPS, TRAIN
from dsconfig.memory import NotModelledError
from dsconfig.resolve.errors import ResolveError, UnfilledError, UnknownWorldSizeError
from dsconfig.resolve.resolved_run import ResolvedRun

if TYPE_CHECKING:
    from dsconfig.core.batch_triplet import Parallelism
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.document import Document
    from dsconfig.memory import Architecture, MicroBatch


# Missing training arguments: those that decide memory are required, others get defaults.

PRECISIONS = ("fp16", "bf16")


class RunWithAssumptions(NamedTuple):
    """A resolved run, and the assumptions about its batch."""

    run: ResolvedRun
    assumed: tuple[str, ...] = ()


def resolve_with_defaults(
    resolve: Callable[[Mapping[str, Json] | None], ResolvedRun], arguments: Mapping[str, Json] | None
) -> RunWithAssumptions:
    """Resolve a config with the given training arguments, or with defaults that do not affect memory.

    Raises:
        UnfilledError: micro batch or precision is not known; the message asks only for these.
    """
    try:
        return RunWithAssumptions(resolve(arguments))
    except UnfilledError as error:
        config = error.config
        missing = _missing_batch_argument(error) + _missing_precision_argument(error)
        if missing:
            are = "is" if len(missing) == 1 else "are"
            reason = f"`{'` and `'.join(missing)}` {are} `auto`, and the training arguments are not known"
            if missing == [MICRO] and not _leaves_batch_auto(config):
                reason = error.reason  # Lightning takes an absent micro batch from the data loader
            raise UnfilledError(
                missing,
                config,
                reason,
                *(_ADVICE[key] for key in missing),
                "or pass the arguments as `training_args`",
            ) from None
        args = {name: config[key] for key, name in _ARGUMENTS.items() if type(config.get(key)) is int}
        args |= {name: True for name in PRECISIONS if _enabled_value(config, name) is True}
        args.setdefault(_ARGUMENTS[STEPS], 1)
        default = f"`{STEPS}` is 1, the default of the training arguments"
        return RunWithAssumptions(
            resolve({**args, **(arguments or {})}), (default,) * (config.get(STEPS) == "auto")
        )


_ARGUMENTS = {MICRO: "per_device_train_batch_size", STEPS: "gradient_accumulation_steps"}
_ADVICE = {
    MICRO: "give `micro_batch`",
    "fp16.enabled": 'give `set={"fp16.enabled": True}`',
    "bf16.enabled": 'give `set={"bf16.enabled": True}`',
}


def _missing_batch_argument(error: UnfilledError) -> list[str]:
    """Return the micro batch key, if it is left to the arguments or the data loader."""
    is_left = MICRO in error.keys or _leaves_batch_auto(error.config)
    return [MICRO] * (is_left and type(error.config.get(MICRO)) is not int)


def _leaves_batch_auto(config: JsonObject) -> bool:
    return "auto" in (config.get(MICRO), config.get(TRAIN))


def _missing_precision_argument(error: UnfilledError) -> list[str]:
    """Return the precision key to ask for, if it is left to the arguments."""
    if any(_enabled_value(error.config, name) is True for name in PRECISIONS):
        return []
    unresolved = [f"{name}.enabled" for name in PRECISIONS if _enabled_value(error.config, name) == "auto"]
    return [key for key in unresolved[-1:] if key in error.keys]


def _enabled_value(config: JsonObject, name: str) -> Json:
    block = config.get(name)
    return block.get("enabled") if isinstance(block, dict) else None


# A requested micro batch that does not match the config's batch.

LONGEST = 1 << 40
"""Upper limit of a sequence length and of a micro batch."""


def samples_per_micro_batch(run: ResolvedRun) -> int:
    """Return the micro batch size of a run.

    Raises:
        ValueError: the size is not a whole number, which DeepSpeed accepts.
    """
    value = run.train_micro_batch_size_per_gpu
    if not isinstance(value, (int, float)) or value != value // 1:
        raise ValueError(f"`{MICRO}` is `{value}`: a micro batch needs a whole number of samples")
    if value > LONGEST:
        raise ValueError(f"`{MICRO}` {str(int(value))[:20]}: expected at most {LONGEST}")
    return int(value)


def resolve_with_micro_batch(
    resolve: Callable[[Mapping[str, Json]], RunWithAssumptions], may_change_batch: bool
) -> RunWithAssumptions:
    """Resolve with the requested micro batch: as it is, with other accumulation steps, or with another batch size.

    `may_change_batch` allows changes of the other batch keys.

    Raises:
        ResolveError: no variant works; the error is that of the unchanged config.
    """
    try:
        return resolve({})
    except (UnfilledError, UnknownWorldSizeError):
        raise
    except ResolveError as error:
        for result in _resolve_with_other_batch(resolve) if may_change_batch else ():
            return result
        raise error from None


def _resolve_with_other_batch(
    resolve: Callable[[Mapping[str, Json]], RunWithAssumptions],
) -> Iterator[RunWithAssumptions]:
    for key in (STEPS, TRAIN):
        try:
            run, assumed = resolve({key: None})
        except ResolveError:
            continue
        batch, steps = run.train_batch_size, run.gradient_accumulation_steps
        if key == STEPS:
            note = f"`{STEPS}` is {steps} with this micro batch, and `{TRAIN}` stays {batch}"
        else:
            note = f"`{TRAIN}` is {batch} with this micro batch"
        yield RunWithAssumptions(run, (*assumed, note))


# Sequence-parallel ranks of the config and of the launch file.


def configured_sp_size(document: Document, changes: Mapping[str, Json]) -> int:
    """Return the number of sequence-parallel ranks that the config sets, by which the batch is divided."""
    data = document.value()
    value = changes.get(SEQUENCE, data.get(SEQUENCE) if isinstance(data, dict) else None)
    return value if type(value) is int and value > 1 else 1


def launched_sp_size(launch_world_size: Parallelism, sp_size: int, requested: int | None) -> int:
    """Return the number of sequence-parallel ranks, including those of the launch file.

    Raises:
        NotModelledError: another kind of parallelism is used.
    """
    for degree in launch_world_size.degrees:
        if degree.kind == "tensor" and degree.divides is False:
            continue  # AutoTP, as the config has it
        if degree.size == 1 or (degree.kind in ("sequence", "context") and requested is not None):
            continue
        if degree.kind != "sequence" or not degree.is_known or not degree.divides:
            raise NotModelledError(f"{degree.kind} parallelism is not supported yet: {degree}")
        sp_size = degree.size or sp_size
    return sp_size


def within_positions(batch: MicroBatch, max_positions: int, gives_length: bool) -> MicroBatch:
    """Return the batch with an assumed sequence length capped at the model's maximum.

    Raises:
        ValueError: the given length exceeds the model's maximum.
    """
    if not max_positions or batch.sequence_length <= max_positions:
        return batch
    if gives_length:
        raise ValueError(
            f"a sequence of {batch.sequence_length} tokens exceeds the model's limit of {max_positions}"
        )
    return batch._replace(sequence_length=max_positions)


def attention_of(arch: Architecture, requested: str | None) -> str:
    """Return the attention implementation: the requested one, or the default of Transformers."""
    supported = arch.variant.attn_implementations
    if requested is not None and requested not in supported:
        raise NotModelledError(
            f"Transformers does not run `{arch.name}` with `{requested}` attention",
            f"use {' or '.join(supported)}",
        )
    return requested or supported[0]
