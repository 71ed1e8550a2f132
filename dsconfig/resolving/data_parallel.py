"""Which of the ranks get samples of their own, under tensor, pipeline, sequence and expert parallelism.

DeepSpeed has three ways to know (runtime/config.py, DeepSpeedConfig.__init__): the script hands over an
`mpu`, or a pipelined model brings one, which divides exactly; from 0.17.0 on the key `sequence_parallel_size`
of a dict, by which the ranks are truly divided; or nobody says, and every rank counts. AutoTP is the third:
its groups are made after the config was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from dsconfig.batch.triplet import ABSENT, world_size
from dsconfig.batch.world_sizes import nearest_multiples
from dsconfig.resolving.run import Message, ResolveError

SEQUENCE = "sequence_parallel_size"
AUTOTP_SINCE = 16004
SEQUENCE_SINCE = 17000


@dataclass(frozen=True, slots=True)
class Parallel:
    """Degrees of parallelism that the script brings: ranks that share one copy of the model, or an expert."""

    tp: int = 1
    pp: int = 1
    sp: int = 1
    ep: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise ValueError(f"{field.name} {value!r}: expected an integer of at least 1")


@dataclass(frozen=True, slots=True)
class Share:
    """How many data-parallel ranks there are, and what there is to say of it."""

    size: int | float
    messages: tuple[Message, ...] = ()


def share_out(
    config: Mapping[str, Any], ranks: int, parallel: Parallel, release: int, *, from_file: bool
) -> Share:
    """The data-parallel ranks among `ranks`, as this release counts them.

    Raises:
        ResolveError: the ranks cannot be shared out like that.
    """
    autotp = _autotp(config, parallel, release)
    messages = [_autotp_note(autotp, ranks)] if autotp > 1 else []
    tensor = 1 if autotp > 1 else parallel.tp
    divisor = tensor * parallel.pp * parallel.sp
    if divisor > 1:
        _check_written(config, parallel)
        size: int | float = _divided(ranks, divisor, _factors(tensor, parallel))
    else:
        size = _by_key(config, ranks, release, from_file=from_file)
        if size != int(size):
            messages.append(
                Message("note", f"{_fraction(config, ranks)}; DeepSpeed goes on with it", SEQUENCE)
            )
    if parallel.ep > 1 and size % parallel.ep:
        near = nearest_multiples(size, parallel.ep)
        raise ResolveError(
            f"{size:g} data-parallel ranks cannot hold groups of {parallel.ep} experts: "
            f"{size:g} = {size // parallel.ep:g} × {parallel.ep} + {size % parallel.ep:g}",
            (f"nearest: {' or '.join(f'{number:g}' for number in near)} data-parallel ranks",),
        )
    return Share(int(size) if size == int(size) else size, tuple(messages))


def _autotp(config: Mapping[str, Any], parallel: Parallel, release: int) -> int:
    section = config.get("tensor_parallel")
    size = section.get("autotp_size") if isinstance(section, Mapping) else None
    if type(size) is not int or size <= 1 or release < AUTOTP_SINCE:
        return 1
    if parallel.tp not in (1, size):
        raise ResolveError(
            f"`tensor_parallel.autotp_size` is {size}, but tp {parallel.tp} was asked for",
            ("give the same degree, or only one of the two",),
        )
    return size


def _autotp_note(size: int, ranks: int) -> Message:
    return Message(
        "note",
        f"`tensor_parallel.autotp_size` {size}: DeepSpeed counts all {ranks} ranks in the batch, and each "
        f"sample {size} times; a step takes `train_batch_size` / {size} different samples",
        "tensor_parallel.autotp_size",
    )


def _check_written(config: Mapping[str, Any], parallel: Parallel) -> None:
    written = config.get(SEQUENCE, parallel.sp)
    if parallel.sp > 1 and written != parallel.sp:
        raise ResolveError(
            f"`{SEQUENCE}` is {written!r}, but sp {parallel.sp} was asked for",
            ("give the same degree, or only one of the two",),
        )


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


def _by_key(config: Mapping[str, Any], ranks: int, release: int, *, from_file: bool) -> int | float:
    try:
        return world_size(ranks, config.get(SEQUENCE, ABSENT), release, from_file=from_file)
    except (TypeError, ZeroDivisionError, OverflowError):
        raise ResolveError(
            f"`{SEQUENCE}` is {config.get(SEQUENCE)!r}, and DeepSpeed divides the {ranks} ranks by it",
            ("give a positive integer that divides the number of ranks",),
        ) from None


def _fraction(config: Mapping[str, Any], ranks: int) -> str:
    size = config[SEQUENCE]
    return f"`{SEQUENCE}` {size} does not divide {ranks} ranks: the data-parallel size is {ranks / size:g}"
