"""Bytes that are held, by name, on a rank and on its host, and the most that were held in each phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PLACES = ("rank", "host")


class Peak(NamedTuple):
    """The most that was held at once, and by what."""

    bytes: int
    held: Mapping[str, int]


class Place:
    """One kind of memory: what is held now, and the peak of each phase."""

    __slots__ = ("_top", "held", "peaks", "phase", "total")

    def __init__(self) -> None:
        self.phase, self.total, self._top = "load", 0, 0
        self.held: dict[str, int] = {}
        self.peaks: dict[str, Peak] = {}

    def add(self, name: str, count: int) -> None:
        """Hold more, or less, under this name."""
        if count < 0 and self.total > self._top:
            self.note()
        self.total += count
        self.held[name] = self.held.get(name, 0) + count

    def note(self) -> None:
        """Remember what is held now, if it is the most of the phase."""
        if self.total > self._top:
            self._top = self.total
            held = {name: count for name, count in self.held.items() if count}
            self.peaks[self.phase] = Peak(self.total, held)

    def enter(self, phase: str) -> None:
        """Begin a phase, or go on with one that was left."""
        self.note()
        self.phase = phase
        self._top = self.peaks[phase].bytes if phase in self.peaks else 0
        self.note()


class Ledger:
    """What a process holds on its rank and on its host, and on both taken together."""

    __slots__ = ("both", "host", "rank")

    def __init__(self) -> None:
        self.rank, self.host, self.both = Place(), Place(), Place()

    def take(self, name: str, count: int, *, host: bool = False) -> None:
        """Hold this many bytes more."""
        if count:
            (self.host if host else self.rank).add(name, count)
            self.both.add(name, count)

    def give(self, name: str, count: int, *, host: bool = False) -> None:
        """Hold this many bytes less."""
        self.take(name, -count, host=host)

    def touch(self, name: str, count: int, *, host: bool = False) -> None:
        """Hold bytes for a moment."""
        self.take(name, count, host=host)
        self.give(name, count, host=host)

    def clear(self) -> None:
        """Hold nothing."""
        for place in (self.rank, self.host, self.both):
            place.note()
            place.held.clear()
            place.total = 0

    def enter(self, phase: str) -> None:
        """Begin a phase."""
        for place in (self.rank, self.host, self.both):
            place.enter(phase)
