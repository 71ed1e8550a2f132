"""Which of the ranks get samples of their own, under tensor, pipeline, sequence and expert parallelism.

DeepSpeed has three ways to know (runtime/config.py, DeepSpeedConfig.__init__): the script hands over an
`mpu`, or a pipelined model brings one, which divides exactly; from 0.17.0 on the key `sequence_parallel_size`
of a dict, by which the ranks are truly divided; or neither, and every rank counts. AutoTP is the third: its
groups are made after the config was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.batch.triplet import ABSENT, SEQUENCE, world_size
from dsconfig.batch.world_sizes import nearest_multiples
from dsconfig.consumers.filling.record import Message
from dsconfig.resolving.errors import ResolveError
from dsconfig.resolving.refused import refused_batch
from dsconfig.resolving.runtime import Parallel, Runtime

if TYPE_CHECKING:
    from dsconfig.json_types import Json

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
    parallel = runtime.parallel
    autotp = _autotp(config, runtime)
    messages = [_autotp_note(autotp, runtime.ranks)] if autotp > 1 else []
    tensor = 1 if autotp > 1 else parallel.tp
    divisor = tensor * parallel.pp * parallel.sp
    if divisor > 1:
        _check_written(config, parallel)
        size: int | float = _divided(runtime.ranks, divisor, _factors(tensor, parallel))
    else:
        size = _by_key(config, runtime, from_file=from_file)
        messages += _fraction(config, runtime.ranks, size)
    _check_experts(size, parallel.ep)
    size = int(size) if size % 1 == 0 else size
    return Share(size, divisor == 1 and not from_file, tuple(messages))


def _autotp(config: Mapping[str, Json], runtime: Runtime) -> int:
    section = config.get("tensor_parallel")
    size = section.get("autotp_size") if isinstance(section, Mapping) else None
    if type(size) is not int or size <= 1 or runtime.number < AUTOTP_SINCE:
        return 1
    asked = runtime.parallel.tp
    if asked not in (1, size):
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


def _check_written(config: Mapping[str, Json], parallel: Parallel) -> None:
    written = config.get(SEQUENCE, parallel.sp)
    if parallel.sp > 1 and written != parallel.sp:
        raise _contradiction(f"`{SEQUENCE}`", written, f"sp {parallel.sp}")


def _factors(tensor: int, parallel: Parallel) -> str:
    named = (("tensor", tensor), ("pipeline", parallel.pp), ("sequence", parallel.sp))
    return " × ".join(f"{size} {name}" for name, size in named if size > 1)


def _divided(ranks: int, divisor: int, factors: str) -> int:
    size, left = divmod(ranks, divisor)
    if left:
        near = nearest_multiples(ranks, divisor)
        raise ResolveError(
            f"{ranks} ranks cannot be shared out in groups of {divisor} ({factors} parallel): "
            f"{ranks} = {size} × {divisor} + {left}",
            (f"nearest world sizes: {' or '.join(map(str, near))}",),
        )
    return size


def _by_key(config: Mapping[str, Json], runtime: Runtime, *, from_file: bool) -> int | float:
    try:
        return world_size(runtime.ranks, config.get(SEQUENCE, ABSENT), runtime.number, from_file=from_file)
    except (TypeError, ZeroDivisionError):
        raise refused_batch(config, runtime.ranks, runtime, by_key=True) from None


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
