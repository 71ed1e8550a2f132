"""What a config is resolved for: a release, a consumer, a number of ranks and how they share the model."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import NamedTuple

from dsconfig import releases
from dsconfig.consumers.filling.record import Message
from dsconfig.consumers.versions import EXPECTED, is_known
from dsconfig.releases import NUMBERS, Target

WORLD_SIZE = "WORLD_SIZE"


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


class Launched(NamedTuple):
    """The world size of a launch file, and what says so, in words."""

    ranks: int
    source: str


@dataclass(frozen=True, slots=True)
class Runtime:
    """The circumstances of one run, and messages about how they were found out."""

    release: str
    consumer: str
    ranks: int
    parallel: Parallel
    messages: tuple[Message, ...] = ()

    @property
    def number(self) -> int:
        """The release as a number, see `releases.NUMBERS`."""
        return NUMBERS[self.release]


def runtime(
    consumer: str | None,
    degrees: tuple[int, int, int, int],
    world_size: int | None,
    target: str | Target | None,
    launched: Launched | None = None,
) -> Runtime:
    """The circumstances that the arguments of `resolve` lead to; `degrees` are tp, pp, sp and ep.

    `launched` is the world size of a launch file, where nothing else says one.

    Raises:
        UnknownReleaseError: the target names no release.
        ValueError: an argument is impossible.
    """
    consumer = "deepspeed" if consumer is None else consumer
    if not is_known(consumer):
        raise ValueError(f"unknown consumer {consumer!r}: expected {EXPECTED}")
    parallel = Parallel(*degrees)
    messages: list[Message] = []
    ranks, release = _ranks(world_size, launched, messages), _release(target, messages)
    return Runtime(release, consumer, ranks, parallel, tuple(messages))


def _ranks(world_size: int | None, launched: Launched | None, messages: list[Message]) -> int:
    if world_size is not None:
        if type(world_size) is not int or world_size < 1:
            raise ValueError(f"world size {world_size!r}: expected an integer of at least 1")
        return world_size
    text = os.environ.get(WORLD_SIZE)
    if text is None and launched is not None:
        messages.append(Message("note", f"world size {launched.ranks} is {launched.source}"))
        return launched.ranks
    if text is None:
        raise ValueError(f"no world size: give one, or set {WORLD_SIZE} in the environment")
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise ValueError(f"the environment's {WORLD_SIZE} is {text!r}: expected an integer of at least 1")
    messages.append(Message("environment", f"world size {text} is the environment's {WORLD_SIZE}"))
    return int(text)


def _release(target: str | Target | None, messages: list[Message]) -> str:
    chosen = target if isinstance(target, Target) else releases.resolve(target)
    if chosen.note:
        messages.append(Message("note", chosen.note))
    if len(chosen.releases) > 1:
        text = f"of the releases {chosen.text} the newest, {chosen.releases[-1]}, is resolved for"
        messages.append(Message("note", text))
    return chosen.releases[-1]
