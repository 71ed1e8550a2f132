"""Arguments of `memory` other than the config, and defaults for what a run does not determine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.check.build_job import MappingSource, build_job, job_from_arguments
from dsconfig.core.batch_triplet import MICRO, SEQUENCE, STEPS, TRAIN
from dsconfig.memory import TRAINERS, NotModelledError
from dsconfig.resolve.errors import ResolveError, UnfilledError, UnknownWorldSizeError
from dsconfig.resolve.resolved_run import ResolvedRun
from dsconfig.resolve.training_features import LOSSES

if TYPE_CHECKING:
    from dsconfig.core.batch_triplet import Parallelism
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.core.releases import ReleaseTarget
    from dsconfig.document import Document
    from dsconfig.job.job import Job
    from dsconfig.launch.located_config import LocatedConfig
    from dsconfig.memory import Architecture, MicroBatch
    from dsconfig.resolve.model_source import ModelSource

ATTENTION = ("sdpa", "flash", "eager")
MOST_IMBALANCE = 4096
LONGEST = 1 << 40
"""Upper limit of a sequence length and of a micro batch."""


class MemoryOptions(NamedTuple):
    """All arguments of `memory` except the config."""

    model: ModelSource | None = None
    world_size: int | None = None
    target: str | ReleaseTarget | None = None
    consumer: str | None = None
    sequence_length: int | None = None
    micro_batch: int | None = None
    attention: str | None = None
    checkpointing: bool | None = None
    lora: str | Mapping[str, Json] | None = None
    optimizer: str | None = None
    zero_init: bool | None = None
    gpus_per_node: int | None = None
    set: Mapping[str, Json] | None = None
    training_args: MappingSource = None
    sp: int | None = None
    imbalance: float | None = None
    launch: str | os.PathLike[str] | None = None
    job: Job | None = None
    """The job, if it has already been built; None: built from target, world size and consumer."""
    gpu_limit: int | None = None
    """Memory of a GPU minus the headroom, in bytes."""
    parameters: int | None = None
    """Number of parameters, for a model whose layers are not supported."""
    loss: str | None = None
    quantize: str | None = None
    trainer: str | None = None
    frozen_models: tuple[ModelSource, ...] = ()
    vllm: float | None = None
    image_tokens: int | None = None
    train_vision: bool | None = None
    packing: bool | None = None
    expandable_segments: bool | None = None
    gpu_bytes: int | None = None
    """Memory of the GPU in bytes, of which vLLM reserves a fraction."""

    def build_job_of_config(self, located: LocatedConfig) -> Job:
        """Return the job of a config with these options, building it if necessary."""
        asked_job = job_from_arguments(self.target, self.world_size, self.consumer, launch=self.launch)
        return self.job or build_job(located, asked_job)

    def validate(self) -> None:
        """Raise ValueError for invalid values."""
        if self.attention not in (None, *ATTENTION):
            raise ValueError(f"attention {self.attention!r}: expected one of {', '.join(ATTENTION)}")
        if self.loss not in (None, *LOSSES):
            raise ValueError(f"loss {self.loss!r}: expected one of {', '.join(LOSSES)}")
        if self.trainer not in (None, *TRAINERS):
            raise ValueError(f"trainer {self.trainer!r}: expected one of {', '.join(TRAINERS)}")
        if self.vllm is not None and not 0 <= self.vllm < 1:
            raise ValueError(f"vllm {self.vllm!r}: expected a fraction from 0 to below 1")
        if self.imbalance is not None and not 1 <= self.imbalance <= MOST_IMBALANCE:
            raise ValueError(f"imbalance {self.imbalance!r}: expected a number from 1 to {MOST_IMBALANCE}")
        if self.image_tokens is not None and (type(self.image_tokens) is not int or self.image_tokens < 0):
            raise ValueError(f"image_tokens {str(self.image_tokens)[:20]!r}: expected a whole number")
        for name in ("sequence_length", "micro_batch", "gpus_per_node", "sp"):
            value = getattr(self, name)
            if type(value) is int and value > LONGEST:
                raise ValueError(f"{name} {str(value)[:20]}: expected at most {LONGEST}")
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"{name} {str(value)[:20]!r}: expected a whole number above 0")


# Missing training arguments: those that decide memory are required, others get defaults.

PRECISIONS = ("fp16", "bf16")


class RunWithAssumptions(NamedTuple):
    """A resolved run and the assumptions made about its batch."""

    run: ResolvedRun
    assumed: tuple[str, ...] = ()


def resolve_with_defaults(
    resolve: Callable[[Mapping[str, Json] | None], ResolvedRun], arguments: Mapping[str, Json] | None
) -> RunWithAssumptions:
    """Resolve a config with the given training arguments, and with defaults for those that do not affect memory.

    Raises:
        UnfilledError: the micro batch or the precision is unknown; the message asks only for these.
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
        args = {name: config[key] for key, name in BATCH_ARGUMENTS.items() if type(config.get(key)) is int}
        args |= {name: True for name in PRECISIONS if _enabled_value(config, name) is True}
        args.setdefault(BATCH_ARGUMENTS[STEPS], 1)
        default = f"`{STEPS}` is 1, the default of the training arguments"
        return RunWithAssumptions(
            resolve({**args, **(arguments or {})}), (default,) * (config.get(STEPS) == "auto")
        )


BATCH_ARGUMENTS = {MICRO: "per_device_train_batch_size", STEPS: "gradient_accumulation_steps"}
"""Training argument of each key of the batch."""
_ADVICE = {
    MICRO: "give `micro_batch`",
    "fp16.enabled": 'give `set={"fp16.enabled": True}`',
    "bf16.enabled": 'give `set={"bf16.enabled": True}`',
}


def _missing_batch_argument(error: UnfilledError) -> list[str]:
    """Return the micro batch key if the config leaves it to the training arguments or the data loader."""
    is_left = MICRO in error.keys or _leaves_batch_auto(error.config)
    return [MICRO] * (is_left and type(error.config.get(MICRO)) is not int)


def _leaves_batch_auto(config: JsonObject) -> bool:
    return "auto" in (config.get(MICRO), config.get(TRAIN))


def _missing_precision_argument(error: UnfilledError) -> list[str]:
    """Return the precision key that the user must provide if the config leaves it to the arguments."""
    if any(_enabled_value(error.config, name) is True for name in PRECISIONS):
        return []
    unresolved = [f"{name}.enabled" for name in PRECISIONS if _enabled_value(error.config, name) == "auto"]
    return [key for key in unresolved[-1:] if key in error.keys]


def _enabled_value(config: JsonObject, name: str) -> Json:
    block = config.get(name)
    return block.get("enabled") if isinstance(block, dict) else None


# A requested micro batch that does not match the config's batch.


def samples_per_micro_batch(run: ResolvedRun) -> int:
    """Return the micro batch size of a run.

    Raises:
        ValueError: the size is not a whole number; DeepSpeed itself accepts that.
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
    """Resolve with the requested micro batch, changing accumulation steps or batch size if needed.

    `may_change_batch` allows changes of the other batch keys.

    Raises:
        ResolveError: no variant can be resolved; the error is the one for the unchanged config.
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
    """Return the sequence-parallel size in the config, by which the batch is divided."""
    data = document.value()
    value = changes.get(SEQUENCE, data.get(SEQUENCE) if isinstance(data, dict) else None)
    return value if type(value) is int and value > 1 else 1


def launched_sp_size(launch_world_size: Parallelism, sp_size: int, requested: int | None) -> int:
    """Return the sequence-parallel size, including that of the launch file.

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
    """Return the batch with its assumed sequence length limited to the model's maximum.

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
    """Return the requested attention implementation, or the default of Transformers."""
    supported = arch.variant.attn_implementations
    if requested is not None and requested not in supported:
        raise NotModelledError(
            f"Transformers does not run `{arch.name}` with `{requested}` attention",
            f"use {' or '.join(supported)}",
        )
    return requested or supported[0]
