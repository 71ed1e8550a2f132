"""Bytes that are held, by name, on a rank and on its host, and the most that were held in each phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PLACES = ("rank", "host")
SLACK, SMALL = 32, 1 << 20
"""A bound is above the estimate by a thirty-second and a MiB: the workspaces of operations (measured)."""


def with_slack(count: int) -> int:
    """What an estimate of so many bytes stays below."""
    return count + count // SLACK + SMALL


class ExceededError(Exception):
    """More is held than may be."""


class Peak(NamedTuple):
    """The most that was held at once, and by what."""

    bytes: int
    held: Mapping[str, int]


class Place:
    """One kind of memory: what is held now, and the peak of each phase."""

    __slots__ = ("_top", "held", "most", "peaks", "phase", "total")

    def __init__(self) -> None:
        self.phase, self.total, self._top = "load", 0, 0
        self.most: int | None = None
        """What may be held, where that is all that is asked."""
        self.held: dict[str, int] = {}
        self.peaks: dict[str, Peak] = {}

    def add(self, name: str, count: int) -> None:
        """Hold more, or less, under this name."""
        if count < 0 and self.total > self._top:
            self.note()
        self.total += count
        self.held[name] = self.held.get(name, 0) + count

    def note(self) -> None:
        """Remember what is held now, if it is the most of the phase.

        Raises:
            ExceededError: it is more than may be.
        """
        if self.total > self._top:
            if self.most is not None and self.total > self.most:
                raise ExceededError
            self._top = self.total
            self.peaks[self.phase] = Peak(self.total, self.held.copy())

    def enter(self, phase: str) -> None:
        """Begin a phase, or go on with one that was left."""
        self.note()
        self.phase = phase
        self._top = self.peaks[phase].bytes if phase in self.peaks else 0
        self.note()


class Ledger:
    """What a process holds on its rank and on its host; where the two are one, on both taken together."""

    __slots__ = ("_places", "_together", "both", "host", "rank")

    def __init__(self, *, together: bool = False) -> None:
        self.rank, self.host, self.both = Place(), Place(), Place()
        self._together = together
        self._places = (self.rank, self.host, self.both) if together else (self.rank, self.host)

    def take(self, name: str, count: int, *, host: bool = False) -> None:
        """Hold this many bytes more."""
        if count:
            (self.host if host else self.rank).add(name, count)
            if self._together:
                self.both.add(name, count)

    def give(self, name: str, count: int, *, host: bool = False) -> None:
        """Hold this many bytes less."""
        if count:
            (self.host if host else self.rank).add(name, -count)
            if self._together:
                self.both.add(name, -count)

    def touch(self, name: str, count: int, *, host: bool = False) -> None:
        """Hold bytes for a moment."""
        self.take(name, count, host=host)
        self.give(name, count, host=host)

    def clear(self) -> None:
        """Hold nothing."""
        for place in self._places:
            place.note()
            place.held.clear()
            place.total = 0

    def enter(self, phase: str) -> None:
        """Begin a phase."""
        for place in self._places:
            place.enter(phase)
