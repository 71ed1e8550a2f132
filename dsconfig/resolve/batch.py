"""Derive the batch of a config: data-parallel size, triplet, elastic batch, or a formula without a world size."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.check.check import check_document
from dsconfig.core.batch_triplet import (
    ABSENT,
    KEYS,
    SEQUENCE,
    SEQUENCE_SINCE,
    BatchTriplet,
    ImpossibleTriplet,
    ParallelDegree,
    Parallelism,
    UnevenRanksError,
    batch_formula,
    data_parallel_size,
    derive_batch_triplet,
    nearest_multiples,
)
from dsconfig.core.diagnostic import Diagnostic, Effect
from dsconfig.core.releases import ReleaseTarget
from dsconfig.document import read_dict
from dsconfig.job.consumers import ELASTIC
from dsconfig.job.consumers.autofill import AutofillMessage
from dsconfig.job.consumers.consumer import consumer_from_spec
from dsconfig.job.detect_consumer import LaunchArguments
from dsconfig.resolve.errors import ResolveError, UnknownWorldSizeError
from dsconfig.resolve.input_config import InputConfig, read_input_config
from dsconfig.resolve.raw_config import RawConfig, fill_raw_config, read_raw_config
from dsconfig.resolve.resolved_run import LaunchWorldSize, ParallelDegrees, ResolutionTarget
from elastic import constants as c

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.job.job import Job
    from dsconfig.launch.located_config import LocatedConfig
    from elastic.deepspeed.release_behavior import ElasticitySemantics
    from elastic.planning.plan import Plan


# Batch of a config whose "auto" values are resolved.


@dataclass(frozen=True, slots=True)
class DerivedBatch:
    """A batch triplet, its data-parallel size, and the config with which the release runs."""

    triplet: BatchTriplet
    size: int | float
    config: JsonObject
    messages: tuple[AutofillMessage, ...]
    elastic: bool


def derive_batch(raw: RawConfig, runtime: ResolutionTarget) -> DerivedBatch:
    """Derive the batch as the release does, and write it to the config in `raw`.

    Raises:
        ResolveError: the release cannot derive a batch.
    """
    config = raw.config
    division = divide_ranks(config, runtime, from_file=raw.from_file)
    size = division.size
    planned = runtime.consumer == ELASTIC
    elastic = planned or (has_elasticity(config) and runtime.number >= FIRST_ELASTIC)
    if not elastic:
        triplet, messages = _derive_plain_batch(config, division, runtime)
    elif runtime.number <= LAST_ELASTIC and not planned:
        # The block stays: the release reads it, and rejects batch keys next to it.
        elastic_triplet, messages = solve_elastic(config, runtime.release, size)
        triplet = _ints_for_whole_floats(elastic_triplet)
    else:
        config, size, messages = apply_elastic_plan(config, size, runtime)
        triplet = BatchTriplet(*(config[key] for key in KEYS))
    sequence_messages = _match_sequence_key(config, runtime, from_file=raw.from_file)
    return DerivedBatch(triplet, size, config, (*division.messages, *messages, *sequence_messages), elastic)


def _derive_plain_batch(
    config: JsonObject, division: DataParallelRanks, runtime: ResolutionTarget
) -> tuple[BatchTriplet, list[AutofillMessage]]:
    """Derive the batch triplet of a config without elasticity, and write it to the config."""
    messages = []
    if "elasticity" in config and runtime.number > LAST_ELASTIC:
        del config["elasticity"]
        text = "the disabled `elasticity` block is removed, because this release rejects it"
        messages.append(AutofillMessage("removed", text, "elasticity"))
    train, micro, steps = (config.get(key) for key in KEYS)
    derived = derive_batch_triplet(train, micro, steps, division.size)
    if isinstance(derived, ImpossibleTriplet):
        raise rejected_batch_error(config, division.size, runtime, by_key=division.by_key)
    triplet = _ints_for_whole_floats(derived)
    if isinstance(derive_batch_triplet(*triplet.values_in_key_order(), division.size), ImpossibleTriplet):
        triplet = derived  # DeepSpeed computes in floats, which beyond 2**53 can make the product match
    config.update(zip(KEYS, triplet.values_in_key_order(), strict=True))
    return triplet, messages


def _ints_for_whole_floats(triplet: BatchTriplet) -> BatchTriplet:
    """Convert whole floats in the triplet to ints, because DeepSpeed computes 8 ranks / 2 as 4.0."""
    values = [
        int(value) if isinstance(value, float) and value.is_integer() else value
        for value in triplet.values_in_key_order()
    ]
    return BatchTriplet(*values)


def _match_sequence_key(
    config: JsonObject, runtime: ResolutionTarget, *, from_file: bool
) -> list[AutofillMessage]:
    """Set the sequence-parallel size in the resolved config to the one by which the ranks are divided."""
    sp_size = runtime.requested.sp or 1
    if runtime.number < SEQUENCE_SINCE:
        return []
    is_only_degree = len(runtime.parallelism.dividing_degrees) == 1
    if sp_size > 1 and is_only_degree and SEQUENCE not in config:
        config[SEQUENCE] = sp_size
        return [AutofillMessage("written", f"`{SEQUENCE}` {sp_size} is added to the config", SEQUENCE)]
    if from_file and SEQUENCE in config and sp_size == 1:
        text = (
            f"`{SEQUENCE}` {config.pop(SEQUENCE)!r} is removed: DeepSpeedConfig does not read it from a file, "
            "and does not divide the ranks by it; pass `sp` to divide them"
        )
        return [AutofillMessage("removed", text, SEQUENCE)]
    return []


# Data-parallel size, with the notes that `resolve` prints.

AUTOTP_SINCE = 16004


@dataclass(frozen=True, slots=True)
class DataParallelRanks:
    """The number of data-parallel ranks, and how DeepSpeed derives it from the world size."""

    size: int | float
    by_key: bool
    """Whether DeepSpeed itself divides the ranks by `sequence_parallel_size`."""
    messages: tuple[AutofillMessage, ...] = ()


def divide_ranks(
    config: Mapping[str, Json], runtime: ResolutionTarget, *, from_file: bool
) -> DataParallelRanks:
    """Compute the data-parallel size as the release does.

    Raises:
        ResolveError: the world size is not divisible.
    """
    autotp = _autotp_size(config, runtime)
    messages = [_note_autotp(autotp, runtime.ranks)] if autotp > 1 else []
    parallelism = runtime.parallelism
    if autotp > 1:  # the requested tensor parallelism is the config's own
        parallelism = Parallelism(tuple(each for each in parallelism.degrees if each.kind != "tensor"))
    if (unknown := parallelism.unknown_degree) is not None:
        raise _unknown_degree_error(unknown)
    messages += [
        _note_counted_degree(each, runtime.ranks) for each in parallelism.degrees_unknown_to_deepspeed
    ]
    divides = parallelism.ranks_per_sample(runtime.ranks) > 1
    if divides:
        _check_sequence_key(config, runtime)
        messages += _note_launched_degrees(parallelism, runtime)
    size = _divided_world_size(config, runtime, parallelism, from_file=from_file)
    if not divides:
        messages += _note_indivisible_ranks(config, runtime.ranks, size)
    _check_experts(size, runtime.requested.ep or 1)
    size = int(size) if size % 1 == 0 else size
    return DataParallelRanks(size, not divides and not from_file, tuple(messages))


def _divided_world_size(
    config: Mapping[str, Json], runtime: ResolutionTarget, parallelism: Parallelism, *, from_file: bool
) -> int | float:
    sp_size, ranks = config.get(SEQUENCE, ABSENT), runtime.ranks
    try:
        return data_parallel_size(ranks, parallelism, sp_size, runtime.number, from_file=from_file)
    except UnevenRanksError as error:
        raise _uneven_ranks_error(error, parallelism) from None
    except (TypeError, ZeroDivisionError):
        raise rejected_batch_error(config, ranks, runtime, by_key=True) from None


def _uneven_ranks_error(error: UnevenRanksError, parallelism: Parallelism) -> ResolveError:
    ranks, divisor = error.ranks, error.divisor
    size, remainder = divmod(ranks, divisor)
    nearest_sizes = nearest_multiples(ranks, divisor)
    sources = [each.source for each in parallelism.dividing_degrees if not each.is_asked]
    return ResolveError(
        f"{ranks} ranks cannot be divided into groups of {divisor} ({parallelism} parallel): "
        f"{ranks} = {size} × {divisor} + {remainder}",
        (f"nearest world sizes: {' or '.join(map(str, nearest_sizes))}", *sources),
    )


def _unknown_degree_error(degree: ParallelDegree) -> ResolveError:
    """Return the error for a parallel degree whose effect on the batch depends on the program."""
    flag = {"tensor": "`tp`", "pipeline": "`pp`"}.get(degree.kind, "`sp`")
    flags = "`tp` or `pp`" if degree.kind == "model" else flag
    return ResolveError(
        f"the data-parallel size is not known: {degree}",
        (f"give {flags}: how many ranks share one sample (1: DeepSpeed counts every rank)",),
    )


def _note_counted_degree(degree: ParallelDegree, ranks: int) -> AutofillMessage:
    return AutofillMessage(
        "note",
        f"{degree}: DeepSpeed counts all {ranks} ranks in the batch, and each sample "
        f"{degree.size} times; a step takes `train_batch_size` / {degree.size} different samples",
    )


def _note_launched_degrees(parallelism: Parallelism, runtime: ResolutionTarget) -> list[AutofillMessage]:
    """Return a note about the parallel degrees set by a launch file, if any."""
    from_launch_file = [degrees for degrees in parallelism.dividing_degrees if not degrees.is_asked]
    if not from_launch_file:
        return []
    degrees = " and ".join(str(degree) for degree in from_launch_file)
    divisor = parallelism.ranks_per_sample(runtime.ranks)
    return [AutofillMessage("note", f"{degrees}: DeepSpeed's batch counts {runtime.ranks} ranks / {divisor}")]


def _autotp_size(config: Mapping[str, Json], runtime: ResolutionTarget) -> int:
    section = config.get("tensor_parallel")
    size = section.get("autotp_size") if isinstance(section, Mapping) else None
    if type(size) is not int or size <= 1 or runtime.number < AUTOTP_SINCE:
        return 1
    requested = runtime.requested.tp
    if requested not in (None, 1, size):
        raise _contradiction_error("`tensor_parallel.autotp_size`", size, f"tp {requested}")
    return size


def _contradiction_error(key: str, value: Json, requested: str) -> ResolveError:
    hint = "give the same degree, or only one of the two"
    return ResolveError(f"{key} is {value!r}, but {requested} was asked for", (hint,))


def _note_autotp(size: int, ranks: int) -> AutofillMessage:
    return AutofillMessage(
        "note",
        f"`tensor_parallel.autotp_size` {size}: DeepSpeed counts all {ranks} ranks in the batch, and each "
        f"sample {size} times; a step takes `train_batch_size` / {size} different samples",
        "tensor_parallel.autotp_size",
    )


def _check_sequence_key(config: Mapping[str, Json], runtime: ResolutionTarget) -> None:
    requested = runtime.requested.sp or 1
    value = config.get(SEQUENCE, requested)
    if requested > 1 and value != requested:
        raise _contradiction_error(f"`{SEQUENCE}`", value, f"sp {requested}")


def _note_indivisible_ranks(config: Mapping[str, Json], ranks: int, size: float) -> list[AutofillMessage]:
    """Return a note if `sequence_parallel_size` does not divide the number of ranks."""
    if size % 1 == 0:
        return []
    text = (
        f"`{SEQUENCE}` {config[SEQUENCE]} does not divide {ranks} ranks: the data-parallel size is "
        f"{size:g}; DeepSpeed continues with it"
    )
    return [AutofillMessage("note", text, SEQUENCE)]


def _check_experts(size: float, experts: int) -> None:
    if experts > 1 and size % experts:
        nearest_sizes = nearest_multiples(size, experts)
        raise ResolveError(
            f"{size:g} data-parallel ranks cannot be divided into groups of {experts} (ep): "
            f"{size:g} = {size // experts:g} × {experts} + {size % experts:g}",
            (f"nearest: {' or '.join(f'{number:g}' for number in nearest_sizes)} data-parallel ranks",),
        )


# Elastic batch. 0.3.9 to 0.19.7 derive it in runtime/config.py, `DeepSpeedConfig.__init__`; 0.19.8 rejects the
# block, and the plan of `elastic` takes over.

FIRST_ELASTIC, LAST_ELASTIC = 3009, 19007
"""First and last release that read the `elasticity` block."""


def has_elasticity(config: Mapping[str, Json]) -> bool:
    """Return whether the `elasticity` block is enabled (elasticity.py, `elasticity_enabled`)."""
    block = config.get(c.ELASTICITY)
    return isinstance(block, Mapping) and bool(block.get(c.ENABLED, c.ENABLED_DEFAULT))


def solve_elastic(
    config: JsonObject, release: str, size: float
) -> tuple[BatchTriplet, list[AutofillMessage]]:
    """Return the triplet that a release with elasticity derives for `size` data-parallel ranks.

    Raises:
        ResolveError: the release rejects the block, the world size, or batch keys next to the block.
    """
    from elastic import as_released as solve
    from elastic import semantics_for

    semantics = semantics_for(release)
    try:
        solution = solve(config, release, size, semantics=semantics)  # type: ignore[arg-type]  # 4.0 ranks too
    except Exception as error:  # the release's own code can fail in any way
        raise ResolveError(
            f"elasticity: {error}", _nearest_admissible_sizes(config, semantics, size)
        ) from None
    messages = _scheduler_messages(config[c.ELASTICITY], semantics)
    _reject_batch_keys(config)
    micro = solution.micro_batch_size
    if not micro:
        raise ResolveError(
            f"elasticity: no micro batch fits batch {solution.batch_size} on {size:g} ranks",
            _nearest_admissible_sizes(config, semantics, size),
        )
    steps = solution.batch_size // (micro * size)
    triplet = derive_batch_triplet(solution.batch_size, micro, steps, size)
    if isinstance(triplet, ImpossibleTriplet):
        raise ResolveError(
            f"elasticity: batch {solution.batch_size} ≠ {micro} × {steps:g} × {size:g} = "
            f"{micro * steps * size:g} (micro batch × accumulation steps × data-parallel ranks)",
            _nearest_admissible_sizes(config, semantics, size),
        )
    return triplet, messages + _override_messages(config, triplet)


def apply_elastic_plan(
    config: JsonObject, size: float, runtime: ResolutionTarget
) -> tuple[JsonObject, int, list[AutofillMessage]]:
    """Replace the `elasticity` block with its batch triplet, for a release without elasticity.

    The batch is the one that 0.19.7 computes, so that the job continues unchanged. `model_parallel_size` of the block
    applies if tp and pp are not set. `dsconfig elastic run` does the same for any release, but only at world sizes in
    its plan.

    Raises:
        ResolveError: there is no elastic plan, or it does not admit this world size.
    """
    from elastic import ElasticityError, plan
    from elastic.deepspeed.release_behavior import LATEST

    try:
        elastic_plan = plan(config)
        messages = _scheduler_messages(config[c.ELASTICITY], LATEST)
        size = _elastic_data_parallel_size(elastic_plan, runtime, size)
        applied = elastic_plan.apply(config, size, fallback=runtime.consumer != ELASTIC)
    except ElasticityError as error:
        raise ResolveError(f"elasticity: {error}") from None
    triplet = BatchTriplet(*(applied[key] for key in KEYS))
    messages += _override_messages(config, triplet)
    messages += [AutofillMessage("note", note, c.ELASTICITY) for note in elastic_plan.notes]
    if not elastic_plan.admits(size):
        messages.append(_note_fallback_batch(elastic_plan, size, triplet.train_batch_size))
    reason = "`dsconfig elastic run` removes it" if runtime.consumer == ELASTIC else "this release rejects it"
    text = f"the `elasticity` block is replaced by the batch for {size} ranks: {reason}"
    return applied, size, [*messages, AutofillMessage("removed", text, c.ELASTICITY)]


def _elastic_data_parallel_size(elastic_plan: Plan, runtime: ResolutionTarget, size: float) -> int:
    model = elastic_plan.block.model_parallel_size
    requested = runtime.parallelism.degree_of_kind("tensor") * runtime.parallelism.degree_of_kind("pipeline")
    if size != int(size):
        raise ResolveError(f"{size:g} is not a whole number of data-parallel ranks")
    if model in (1, requested):
        return int(size)
    if requested > 1:
        raise ResolveError(
            f"`elasticity.model_parallel_size` is {model}, but tp × pp is {requested}",
            ("give the same degree, or only one of the two",),
        )
    if int(size) % model:
        raise ResolveError(
            f"{runtime.ranks} GPUs hold no whole number of models of `elasticity.model_parallel_size` {model}"
        )
    return int(size) // model


def _note_fallback_batch(elastic_plan: Plan, size: int, batch: int) -> AutofillMessage:
    return AutofillMessage(
        "note",
        f"{elastic_plan.why_not(size)}; version 0.2 takes a batch for this size alone, {batch} in place of "
        f"{elastic_plan.batch_size} samples a step",
        c.ELASTICITY,
    )


def _scheduler_messages(block: Mapping[str, Json], semantics: ElasticitySemantics) -> list[AutofillMessage]:
    """Compare the block with the one in the environment variable that a scheduler sets, if any."""
    if c.DEEPSPEED_ELASTICITY_CONFIG not in os.environ:
        return []
    from elastic import ensure_immutable_elastic_config

    try:
        ensure_immutable_elastic_config(block, semantics=semantics)
    except Exception as error:
        raise ResolveError(f"{c.DEEPSPEED_ELASTICITY_CONFIG}: {error}") from None
    text = f"`{c.ELASTICITY}` equals the section that the scheduler put in {c.DEEPSPEED_ELASTICITY_CONFIG}"
    return [AutofillMessage("environment", text, c.ELASTICITY)]


def _reject_batch_keys(config: Mapping[str, Json]) -> None:
    batch_keys = [key for key in KEYS if key in config]
    if batch_keys and not config[c.ELASTICITY].get(c.IGNORE_NON_ELASTIC_BATCH_INFO):
        raise ResolveError(
            f"`{'`, `'.join(batch_keys)}` and `elasticity` both set the batch",
            (f"remove them, or set `elasticity.{c.IGNORE_NON_ELASTIC_BATCH_INFO}` to have them overridden",),
        )


def _override_messages(config: Mapping[str, Json], triplet: BatchTriplet) -> list[AutofillMessage]:
    return [
        AutofillMessage("overridden", f"elasticity overrides `{key}`: {config[key]!r} becomes {value}", key)
        for key, value in zip(KEYS, triplet.values_in_key_order(), strict=True)
        if key in config
    ]


def _nearest_admissible_sizes(
    config: Mapping[str, Json], semantics: ElasticitySemantics, size: float
) -> tuple[str, ...]:
    """Return the admissible sizes closest to an inadmissible one; empty without a strict plan."""
    from elastic import ElasticityError, plan

    try:
        elastic_plan = plan(config, semantics=semantics)
        why = elastic_plan.why_not(int(size))
    except (ElasticityError, TypeError, ValueError):
        return ()
    return (why,) if why else ()


def elastic_batch_solver(release: str, world_size: int) -> Callable[[JsonObject], dict[str, int]]:
    """Return a function that derives the batch of an `elasticity` block for a release and world size."""

    def solve(config: JsonObject) -> dict[str, int]:
        triplet, _ = solve_elastic(config, release, world_size)
        return {key: int(value) for key, value in zip(KEYS, triplet.values_in_key_order(), strict=True)}

    return solve


# Batch with an unknown world size: a formula in the number of GPUs.


class ConfigWithoutWorldSize(NamedTuple):
    """A config to resolve although the world size is unknown."""

    located: LocatedConfig
    job: Job
    requested: ParallelDegrees
    changes: Mapping[str, Json]
    """Values to set in the config before it is resolved, by dotted path."""


def unknown_world_size_error(
    question: ConfigWithoutWorldSize,
    launch_world_size: LaunchWorldSize | None,
    training_args: Mapping[str, Json] | None,
) -> UnknownWorldSizeError:
    """Return the error for an unknown world size, including a formula for the batch."""
    source = "" if launch_world_size is None else launch_world_size.source
    per_node = launch_world_size.gpus_per_node if launch_world_size else None
    hints = [f"one node has {per_node} ranks, two have {2 * per_node}"] if per_node else []
    try:
        release = question.job.releases.releases[-1]
        input_config = read_input_config(question.located, question.job)
        parallelism = question.requested.over(input_config.facts.parallelism)
        formula = input_batch_formula(
            input_config, release, parallelism, per_node, training_args, question.changes
        )
    except (ResolveError, ValueError):
        formula = None
    return UnknownWorldSizeError(source, formula, hints)


def input_batch_formula(
    input_config: InputConfig,
    release: str,
    parallelism: Parallelism,
    per_node: int | None,
    training_args: Mapping[str, Json] | None,
    changes: Mapping[str, Json],
) -> str | None:
    """Return the batch of a config as a formula in the number of GPUs, or None if there is none.

    Raises:
        ResolveError: the config cannot be read, or its "auto" values cannot be resolved.
        ValueError: a change names no key, or a training argument has the wrong type.
    """
    if parallelism.unknown_degree is not None:
        return None
    if input_config.arguments is None and training_args is None:
        input_config = input_config._replace(
            arguments=LaunchArguments({}, consumer_from_spec(input_config.consumer).training_argument_names)
        )
    raw = read_raw_config(input_config.document, release, input_config.consumer, changes)
    raw.reject_overwritten(input_config.document)
    config = fill_raw_config(input_config, raw, None, training_args, None)[0].config
    if has_elasticity(config) or input_config.consumer == ELASTIC:
        return None  # the solver chooses the batch for each number of ranks
    ranks = f"{per_node} × nodes" if per_node else "GPUs"
    train, micro, steps = (config.get(key) for key in KEYS)
    return batch_formula(train, micro, steps, ranks, parallelism.ranks_per_sample())


# Errors of the batch, in the words of `check`.


def rejected_batch_error(
    config: Mapping[str, Json], size: float, runtime: ResolutionTarget, *, by_key: bool
) -> ResolveError:
    """Return the error for a batch that DeepSpeed cannot derive, with the diagnostics of `check`.

    Args:
        config: the config as DeepSpeed receives it.
        size: the number of data-parallel ranks.
        runtime: the target that the config is resolved for.
        by_key: whether DeepSpeed itself divides the ranks by `sequence_parallel_size`.
    """
    if by_key:
        diagnostics = _rejecting_diagnostics(config, (*KEYS, SEQUENCE), runtime.ranks, runtime.release)
    else:
        diagnostics = _rejecting_diagnostics(config, KEYS, int(size), runtime.release)
    if size == runtime.ranks:
        return ResolveError.of(diagnostics)
    hint = f"{size:g} of the {runtime.ranks} ranks are data-parallel: that is the world size here"
    return ResolveError.of(diagnostics, (hint,))


def _rejecting_diagnostics(
    config: Mapping[str, Json], keys: Iterable[str], ranks: int, release: str
) -> list[Diagnostic]:
    """Return the diagnostics for values of the given keys that DeepSpeed rejects, disregarding all other keys."""
    document = read_dict({key: config[key] for key in keys if key in config})
    report = check_document(document, ReleaseTarget((release,), release, "argument"), world_size=ranks)
    return [diagnostic for diagnostic in report if diagnostic.effect is Effect.REJECTED]
