"""Batch of a config: data-parallel size, batch triplet, elastic batch, and a formula for unknown ranks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.check.check import check_document
from dsconfig.consumers import ELASTIC
from dsconfig.consumers.autofill import Message
from dsconfig.consumers.consumer import consumer_of
from dsconfig.core.batch_triplet import (
    ABSENT,
    KEYS,
    SEQUENCE,
    SEQUENCE_SINCE,
    Degree,
    Impossible,
    Parallelism,
    Triplet,
    UnevenError,
    batch_formula,
    data_parallel_size,
    derive,
    nearest_multiples,
)
from dsconfig.core.diagnostic import Diagnostic, Effect
from dsconfig.core.releases import Target
from dsconfig.document import read_dict
from dsconfig.job.detect_consumer import Given
from dsconfig.resolve.errors import ResolveError, UnknownWorldSizeError
from dsconfig.resolve.input_config import InputConfig, read_input_config
from dsconfig.resolve.raw_config import RawConfig, fill_raw_config, read_raw_config
from dsconfig.resolve.run import LaunchWorldSize, Parallel, Runtime
from elastic import constants as c

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.job.job import Job
    from dsconfig.launch.located_config import LocatedConfig
    from elastic.deepspeed.semantics import Semantics
    from elastic.planning.plan import Plan


# The batch of a config that is filled: on how many data-parallel ranks, and what is written for it.


@dataclass(frozen=True, slots=True)
class Batch:
    """The triplet, the data-parallel ranks that share it, and the config that the release runs with."""

    triplet: Triplet
    size: int | float
    config: JsonObject
    messages: tuple[Message, ...]
    elastic: bool


def derive_batch(written: RawConfig, runtime: Runtime) -> Batch:
    """The batch that the release derives; the config of `written` is changed on the way.

    Raises:
        ResolveError: there is none.
    """
    config = written.config
    share = divide_ranks(config, runtime, from_file=written.from_file)
    size = share.size
    planned = runtime.consumer == ELASTIC
    elastic = planned or (has_elasticity(config) and runtime.number >= FIRST_ELASTIC)
    if not elastic:
        triplet, messages = _derive_plain_batch(config, share, runtime)
    elif runtime.number <= LAST_ELASTIC and not planned:
        # The block stays: the release reads it, and refuses batch keys next to it.
        found, messages = solve_elastic(config, runtime.release, size)
        triplet = _ints_for_whole_floats(found)
    else:
        config, size, messages = apply_elastic_plan(config, size, runtime)
        triplet = Triplet(*(config[key] for key in KEYS))
    said = _match_sequence_key(config, runtime, from_file=written.from_file)
    return Batch(triplet, size, config, (*share.messages, *messages, *said), elastic)


def _derive_plain_batch(
    config: JsonObject, share: RankDivision, runtime: Runtime
) -> tuple[Triplet, list[Message]]:
    """The triplet of a config without elasticity, written into it."""
    messages = []
    if "elasticity" in config and runtime.number > LAST_ELASTIC:
        del config["elasticity"]
        text = "the `elasticity` block, which is off and which this release refuses, is left out"
        messages.append(Message("removed", text, "elasticity"))
    train, micro, steps = (config.get(key) for key in KEYS)
    found = derive(train, micro, steps, share.size)
    if isinstance(found, Impossible):
        raise rejected_batch(config, share.size, runtime, by_key=share.by_key)
    triplet = _ints_for_whole_floats(found)
    if isinstance(derive(*triplet.values(), share.size), Impossible):
        triplet = found  # beyond 2**53 the sum may hold in floats alone, which is how DeepSpeed works it out
    config.update(zip(KEYS, triplet.values(), strict=True))
    return triplet, messages


def _ints_for_whole_floats(found: Triplet) -> Triplet:
    """Whole floats as ints: 8 ranks / 2 are 4.0 to DeepSpeed."""
    values = [
        int(value) if isinstance(value, float) and value.is_integer() else value for value in found.values()
    ]
    return Triplet(*values)


def _match_sequence_key(config: JsonObject, runtime: Runtime, *, from_file: bool) -> list[Message]:
    """Make the config, as a dict, divide the ranks as they were divided here."""
    shared = runtime.requested.sp or 1
    if runtime.number < SEQUENCE_SINCE:
        return []
    alone = len(runtime.parallelism.dividing) == 1
    if shared > 1 and alone and SEQUENCE not in config:
        config[SEQUENCE] = shared
        return [Message("written", f"`{SEQUENCE}` {shared} is written in", SEQUENCE)]
    if from_file and SEQUENCE in config and shared == 1:
        text = (
            f"`{SEQUENCE}` {config.pop(SEQUENCE)!r} is left out: DeepSpeedConfig does not look for it in a "
            "file, and does not divide the ranks by it; ask for sp if it should"
        )
        return [Message("removed", text, SEQUENCE)]
    return []


# How the ranks of a run are divided: the data-parallel size, with the explanation that `resolve` prints.

AUTOTP_SINCE = 16004


@dataclass(frozen=True, slots=True)
class RankDivision:
    """How many data-parallel ranks there are, and how DeepSpeed comes to divide them."""

    size: int | float
    by_key: bool
    """Whether DeepSpeed itself divides by `sequence_parallel_size`, where it is written."""
    messages: tuple[Message, ...] = ()


def divide_ranks(config: Mapping[str, Json], runtime: Runtime, *, from_file: bool) -> RankDivision:
    """The data-parallel ranks among all, as the release counts them.

    Raises:
        ResolveError: the ranks cannot be shared out like that.
    """
    autotp = _autotp(config, runtime)
    messages = [_autotp_note(autotp, runtime.ranks)] if autotp > 1 else []
    parallelism = runtime.parallelism
    if autotp > 1:  # the groups of the config are those that are asked for
        parallelism = Parallelism(tuple(each for each in parallelism.degrees if each.kind != "tensor"))
    if (unknown := parallelism.unknown) is not None:
        raise _unknown_degree(unknown)
    messages += [_counted_note(each, runtime.ranks) for each in parallelism.counted]
    divides = parallelism.divisor(runtime.ranks) > 1
    if divides:
        _check_sequence_key(config, runtime)
        messages += _launched_note(parallelism, runtime)
    size = _size(config, runtime, parallelism, from_file=from_file)
    if not divides:
        messages += _fraction(config, runtime.ranks, size)
    _check_experts(size, runtime.requested.ep or 1)
    size = int(size) if size % 1 == 0 else size
    return RankDivision(size, not divides and not from_file, tuple(messages))


def _size(
    config: Mapping[str, Json], runtime: Runtime, parallelism: Parallelism, *, from_file: bool
) -> int | float:
    written, ranks = config.get(SEQUENCE, ABSENT), runtime.ranks
    try:
        return data_parallel_size(ranks, parallelism, written, runtime.number, from_file=from_file)
    except UnevenError as error:
        raise _uneven(error, parallelism) from None
    except (TypeError, ZeroDivisionError):
        raise rejected_batch(config, ranks, runtime, by_key=True) from None


def _uneven(error: UnevenError, parallelism: Parallelism) -> ResolveError:
    ranks, divisor = error.ranks, error.divisor
    size, left = divmod(ranks, divisor)
    near = nearest_multiples(ranks, divisor)
    written = [each.source for each in parallelism.dividing if not each.is_asked]
    return ResolveError(
        f"{ranks} ranks cannot be shared out in groups of {divisor} ({parallelism} parallel): "
        f"{ranks} = {size} × {divisor} + {left}",
        (f"nearest world sizes: {' or '.join(map(str, near))}", *written),
    )


def _unknown_degree(degree: Degree) -> ResolveError:
    """The error of a degree of which only the program's own code shows what it does to the batch."""
    flag = {"tensor": "`tp`", "pipeline": "`pp`"}.get(degree.kind, "`sp`")
    flags = "`tp` or `pp`" if degree.kind == "model" else flag
    return ResolveError(
        f"the data-parallel size is not known: {degree}",
        (f"give {flags}: how many ranks share one sample (1: DeepSpeed counts every rank)",),
    )


def _counted_note(degree: Degree, ranks: int) -> Message:
    return Message(
        "note",
        f"{degree}: DeepSpeed counts all {ranks} ranks in the batch, and each sample "
        f"{degree.size} times; a step takes `train_batch_size` / {degree.size} different samples",
    )


def _launched_note(parallelism: Parallelism, runtime: Runtime) -> list[Message]:
    """Where the degrees stand that a launch file gives."""
    written = [each for each in parallelism.dividing if not each.is_asked]
    if not written:
        return []
    each = " and ".join(str(degree) for degree in written)
    divisor = parallelism.divisor(runtime.ranks)
    return [Message("note", f"{each}: DeepSpeed's batch counts {runtime.ranks} ranks / {divisor}")]


def _autotp(config: Mapping[str, Json], runtime: Runtime) -> int:
    section = config.get("tensor_parallel")
    size = section.get("autotp_size") if isinstance(section, Mapping) else None
    if type(size) is not int or size <= 1 or runtime.number < AUTOTP_SINCE:
        return 1
    asked = runtime.requested.tp
    if asked not in (None, 1, size):
        raise _contradiction("`tensor_parallel.autotp_size`", size, f"tp {asked}")
    return size


def _contradiction(key: str, written: Json, asked: str) -> ResolveError:
    hint = "give the same degree, or only one of the two"
    return ResolveError(f"{key} is {written!r}, but {asked} was asked for", (hint,))


def _autotp_note(size: int, ranks: int) -> Message:
    return Message(
        "note",
        f"`tensor_parallel.autotp_size` {size}: DeepSpeed counts all {ranks} ranks in the batch, and each "
        f"sample {size} times; a step takes `train_batch_size` / {size} different samples",
        "tensor_parallel.autotp_size",
    )


def _check_sequence_key(config: Mapping[str, Json], runtime: Runtime) -> None:
    asked = runtime.requested.sp or 1
    written = config.get(SEQUENCE, asked)
    if asked > 1 and written != asked:
        raise _contradiction(f"`{SEQUENCE}`", written, f"sp {asked}")


def _fraction(config: Mapping[str, Json], ranks: int, size: float) -> list[Message]:
    """What to say where the key does not divide the ranks."""
    if size % 1 == 0:
        return []
    text = (
        f"`{SEQUENCE}` {config[SEQUENCE]} does not divide {ranks} ranks: the data-parallel size is "
        f"{size:g}; DeepSpeed goes on with it"
    )
    return [Message("note", text, SEQUENCE)]


def _check_experts(size: float, experts: int) -> None:
    if experts > 1 and size % experts:
        near = nearest_multiples(size, experts)
        raise ResolveError(
            f"{size:g} data-parallel ranks cannot hold groups of {experts} experts: "
            f"{size:g} = {size // experts:g} × {experts} + {size % experts:g}",
            (f"nearest: {' or '.join(f'{number:g}' for number in near)} data-parallel ranks",),
        )


# The batch of an elastic config: as the release itself derives it, or in its stead from 0.19.8 on.
#
# Source: runtime/config.py, DeepSpeedConfig.__init__ of 0.3.9 to 0.19.7; 0.19.8 refuses the block.

FIRST_ELASTIC, LAST_ELASTIC = 3009, 19007
"""The first and the last release that read the block."""


def has_elasticity(config: Mapping[str, Json]) -> bool:
    """Whether the block is there and enabled, as DeepSpeed asks (elasticity.py, elasticity_enabled)."""
    block = config.get(c.ELASTICITY)
    return isinstance(block, Mapping) and bool(block.get(c.ENABLED, c.ENABLED_DEFAULT))


def solve_elastic(config: JsonObject, release: str, size: float) -> tuple[Triplet, list[Message]]:
    """The triplet that a release with elasticity derives on `size` data-parallel ranks.

    Raises:
        ResolveError: the release refuses the block, the world size, or batch keys next to the block.
    """
    from elastic import as_released as solve
    from elastic import semantics_for

    semantics = semantics_for(release)
    try:
        answer = solve(config, release, size, semantics=semantics)  # type: ignore[arg-type]  # 4.0 ranks too
    except Exception as error:  # whatever a release's code runs into with odd values
        raise ResolveError(f"elasticity: {error}", _nearest_sizes(config, semantics, size)) from None
    messages = _scheduler_messages(config[c.ELASTICITY], semantics)
    _reject_batch_keys(config)
    micro = answer.micro_batch_size
    if not micro:
        raise ResolveError(
            f"elasticity: no micro batch fits batch {answer.batch_size} on {size:g} ranks",
            _nearest_sizes(config, semantics, size),
        )
    steps = answer.batch_size // (micro * size)
    found = derive(answer.batch_size, micro, steps, size)
    if isinstance(found, Impossible):
        raise ResolveError(
            f"elasticity: batch {answer.batch_size} ≠ {micro} × {steps:g} × {size:g} = "
            f"{micro * steps * size:g} (micro batch × accumulation steps × data-parallel ranks)",
            _nearest_sizes(config, semantics, size),
        )
    return found, messages + _override_messages(config, found)


def apply_elastic_plan(
    config: JsonObject, size: float, runtime: Runtime
) -> tuple[JsonObject, int, list[Message]]:
    """For a release without elasticity: the config with the triplet in place of the block, and the ranks.

    The batch is that of 0.19.7, so the job goes on as it would have there. `model_parallel_size` of the block
    counts where tp and pp are not given. `dsconfig elastic run` does the same with any release, and keeps to
    the sizes of its plan.

    Raises:
        ResolveError: there is no plan, or it has no row for these ranks.
    """
    from elastic import ElasticityError, plan
    from elastic.deepspeed.semantics import LATEST

    try:
        found = plan(config)
        messages = _scheduler_messages(config[c.ELASTICITY], LATEST)
        size = _data_parallel(found, runtime, size)
        applied = found.apply(config, size, fallback=runtime.consumer != ELASTIC)
    except ElasticityError as error:
        raise ResolveError(f"elasticity: {error}") from None
    triplet = Triplet(*(applied[key] for key in KEYS))
    messages += _override_messages(config, triplet)
    messages += [Message("note", note, c.ELASTICITY) for note in found.notes]
    if not found.admits(size):
        messages.append(_fallback_note(found, size, triplet.train_batch_size))
    by = (
        "which `dsconfig elastic run` takes out"
        if runtime.consumer == ELASTIC
        else "which this release refuses"
    )
    text = f"the `elasticity` block, {by}, is replaced by the batch for {size} ranks"
    return applied, size, [*messages, Message("removed", text, c.ELASTICITY)]


def _data_parallel(found: Plan, runtime: Runtime, size: float) -> int:
    model = found.block.model_parallel_size
    given = runtime.parallelism.of("tensor") * runtime.parallelism.of("pipeline")
    if size != int(size):
        raise ResolveError(f"{size:g} is not a whole number of data-parallel ranks")
    if model in (1, given):
        return int(size)
    if given > 1:
        raise ResolveError(
            f"`elasticity.model_parallel_size` is {model}, but tp × pp is {given}",
            ("give the same degree, or only one of the two",),
        )
    if int(size) % model:
        raise ResolveError(
            f"{runtime.ranks} GPUs hold no whole number of models of `elasticity.model_parallel_size` {model}"
        )
    return int(size) // model


def _fallback_note(found: Plan, size: int, batch: int) -> Message:
    return Message(
        "note",
        f"{found.why_not(size)}; version 0.2 takes a batch for this size alone, {batch} in place of "
        f"{found.batch_size} samples a step",
        c.ELASTICITY,
    )


def _scheduler_messages(block: Mapping[str, Json], semantics: Semantics) -> list[Message]:
    """Compare the block with the one that the scheduler left in the environment, where it left one."""
    if c.DEEPSPEED_ELASTICITY_CONFIG not in os.environ:
        return []
    from elastic import ensure_immutable_elastic_config

    try:
        ensure_immutable_elastic_config(block, semantics=semantics)
    except Exception as error:
        raise ResolveError(f"{c.DEEPSPEED_ELASTICITY_CONFIG}: {error}") from None
    text = f"the block equals the scheduler's in {c.DEEPSPEED_ELASTICITY_CONFIG}"
    return [Message("environment", text, c.ELASTICITY)]


def _reject_batch_keys(config: Mapping[str, Json]) -> None:
    written = [key for key in KEYS if key in config]
    if written and not config[c.ELASTICITY].get(c.IGNORE_NON_ELASTIC_BATCH_INFO):
        raise ResolveError(
            f"`{'`, `'.join(written)}` and `elasticity` both set the batch",
            (f"remove them, or set `elasticity.{c.IGNORE_NON_ELASTIC_BATCH_INFO}` to have them overridden",),
        )


def _override_messages(config: Mapping[str, Json], found: Triplet) -> list[Message]:
    return [
        Message("overridden", f"elasticity overrides `{key}`: {config[key]!r} becomes {value}", key)
        for key, value in zip(KEYS, found.values(), strict=True)
        if key in config
    ]


def _nearest_sizes(config: Mapping[str, Json], semantics: Semantics, size: float) -> tuple[str, ...]:
    """The admissible sizes around one that is not; empty where the block has no strict plan."""
    from elastic import ElasticityError, plan

    try:
        found = plan(config, semantics=semantics)
        why = found.why_not(int(size))
    except (ElasticityError, TypeError, ValueError):
        return ()
    return (why,) if why else ()


def elastic_batch_solver(release: str, world_size: int) -> Callable[[JsonObject], dict[str, int]]:
    """What derives the batch of an `elasticity` block as the release does on so many ranks."""

    def solve(config: JsonObject) -> dict[str, int]:
        triplet, _ = solve_elastic(config, release, world_size)
        return {key: int(value) for key, value in zip(KEYS, triplet.values(), strict=True)}

    return solve


# The batch where nobody knows how many ranks there are: a formula in their number, and what to give.


class UnsizedConfig(NamedTuple):
    """A config of which nobody knows on how many ranks it runs."""

    located: LocatedConfig
    job: Job
    requested: Parallel
    changes: Mapping[str, Json]
    """Values that are set first, by dotted path."""


def unknown_world_size_error(
    question: UnsizedConfig,
    launch_world_size: LaunchWorldSize | None,
    training_args: Mapping[str, Json] | None,
) -> UnknownWorldSizeError:
    """The error with the batch as a formula in the number of GPUs, where there is one."""
    source = "" if launch_world_size is None else launch_world_size.source
    per_node = launch_world_size.gpus_per_node if launch_world_size else None
    hints = [f"one node has {per_node} ranks, two have {2 * per_node}"] if per_node else []
    try:
        release = question.job.releases.releases[-1]
        seen = read_input_config(question.located, question.job)
        parallelism = question.requested.over(seen.facts.parallelism)
        formula = formula_of(seen, release, parallelism, per_node, training_args, question.changes)
    except (ResolveError, ValueError):
        formula = None
    return UnknownWorldSizeError(source, formula, hints)


def formula_of(
    seen: InputConfig,
    release: str,
    parallelism: Parallelism,
    per_node: int | None,
    training_args: Mapping[str, Json] | None,
    changes: Mapping[str, Json],
) -> str | None:
    """The batch of a config as a formula in the number of GPUs; None where there is none.

    Raises:
        ResolveError: the config cannot be read, or filled.
        ValueError: a change names no key, or a training argument is of the wrong kind.
    """
    if parallelism.unknown is not None:
        return None
    if seen.arguments is None and training_args is None:
        seen = seen._replace(arguments=Given({}, consumer_of(seen.consumer).arguments))
    written = read_raw_config(seen.document, release, seen.consumer, changes)
    written.reject_overwritten(seen.document)
    config = fill_raw_config(seen, written, None, training_args, None)[0].config
    if has_elasticity(config) or seen.consumer == ELASTIC:
        return None  # the solver chooses the batch for each number of ranks
    ranks = f"{per_node} × nodes" if per_node else "GPUs"
    train, micro, steps = (config.get(key) for key in KEYS)
    return batch_formula(train, micro, steps, ranks, parallelism.divisor())


# What `check` finds where DeepSpeed derives no batch: one source for the words of each finding.


def rejected_batch(
    config: Mapping[str, Json], size: float, runtime: Runtime, *, by_key: bool
) -> ResolveError:
    """The error that carries what `check` finds of the batch keys on `size` data-parallel ranks.

    Args:
        config: the config as DeepSpeed gets it.
        size: the data-parallel ranks.
        runtime: what it is resolved for.
        by_key: whether DeepSpeed itself divides the ranks, by `sequence_parallel_size`.
    """
    if by_key:
        found = _rejections(config, (*KEYS, SEQUENCE), runtime.ranks, runtime.release)
    else:
        found = _rejections(config, KEYS, int(size), runtime.release)
    if size == runtime.ranks:
        return ResolveError.of(found)
    hint = f"{size:g} of the {runtime.ranks} ranks are data-parallel: that is the world size here"
    return ResolveError.of(found, (hint,))


def _rejections(
    config: Mapping[str, Json], keys: Iterable[str], ranks: int, release: str
) -> list[Diagnostic]:
    """What refuses a config of these keys alone: all else is as DeepSpeed takes it, or another's to find."""
    document = read_dict({key: config[key] for key in keys if key in config})
    report = check_document(document, Target((release,), release, "argument"), world_size=ranks)
    return [found for found in report if found.effect is Effect.REJECTED]
