"""How the ranks of a run are divided: the data-parallel size, with the explanation that `resolve` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.consumers.autofill.log import Message
from dsconfig.core.batch_triplet import ABSENT, SEQUENCE, nearest_multiples
from dsconfig.core.data_parallel import Degree, Parallelism, UnevenError, data_parallel_size
from dsconfig.resolve.batch_errors import refused_batch
from dsconfig.resolve.errors import ResolveError
from dsconfig.resolve.run_target import Runtime

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

AUTOTP_SINCE = 16004


@dataclass(frozen=True, slots=True)
class Share:
    """How many data-parallel ranks there are, and how DeepSpeed comes to divide them."""

    size: int | float
    by_key: bool
    """Whether DeepSpeed itself divides by `sequence_parallel_size`, where it is written."""
    messages: tuple[Message, ...] = ()


def share_out(config: Mapping[str, Json], runtime: Runtime, *, from_file: bool) -> Share:
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
        raise _unknown(unknown)
    messages += [_counted_note(each, runtime.ranks) for each in parallelism.counted]
    divides = parallelism.divisor(runtime.ranks) > 1
    if divides:
        _check_written(config, runtime)
        messages += _launched_note(parallelism, runtime)
    size = _size(config, runtime, parallelism, from_file=from_file)
    if not divides:
        messages += _fraction(config, runtime.ranks, size)
    _check_experts(size, runtime.asked.ep or 1)
    size = int(size) if size % 1 == 0 else size
    return Share(size, not divides and not from_file, tuple(messages))


def _size(
    config: Mapping[str, Json], runtime: Runtime, parallelism: Parallelism, *, from_file: bool
) -> int | float:
    written, ranks = config.get(SEQUENCE, ABSENT), runtime.ranks
    try:
        return data_parallel_size(ranks, parallelism, written, runtime.number, from_file=from_file)
    except UnevenError as error:
        raise _uneven(error, parallelism) from None
    except (TypeError, ZeroDivisionError):
        raise refused_batch(config, ranks, runtime, by_key=True) from None


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


def _unknown(degree: Degree) -> ResolveError:
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
    asked = runtime.asked.tp
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


def _check_written(config: Mapping[str, Json], runtime: Runtime) -> None:
    asked = runtime.asked.sp or 1
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
