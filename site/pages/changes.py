"""What a release changes: keys that come, go or take something else, and defaults."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from dsconfig.core.releases import NUMBERS, RELEASES
from dsconfig.core.wording import expected, quoted
from dsconfig.model.keyinfo import KeyInfo, find
from pages import places


class State(NamedTuple):
    """What is true of a key in one release."""

    read: bool
    takes: str
    default: str
    refused: bool
    deprecated: bool


class Stretch(NamedTuple):
    """Releases in a row, by their places in the list of all, in which the same is true of a key."""

    first: int
    last: int
    state: State


ABSENT = State(False, "", "", False, False)


def _state(info: KeyInfo, release: int) -> State:
    if not info.read_in(release):
        return State(False, "", "", release >= info.refused_from, False)
    default = info.default_in(release)
    words = quoted(default) if default is not None else ""
    return State(True, expected(info.type_in(release)), words, False, release >= info.deprecated)


@cache
def stretches(path: str) -> tuple[Stretch, ...]:
    """The history of a key, or of the one of its name that most types of its section have."""
    info = places.entries()[path][0]
    found: list[Stretch] = []
    for place, release in enumerate(RELEASES):
        state = _state(info, NUMBERS[release])
        if not _reachable(path, release) and state.read:
            state = ABSENT
        if found and found[-1].state == state:
            found[-1] = found[-1]._replace(last=place)
        else:
            found.append(Stretch(place, place, state))
    return tuple(found)


def _reachable(path: str, release: str) -> bool:
    """Whether the release reads the section that the key stands in, as far as it has no free name."""
    above = path.partition(".*")[0] if "*" in path else path.rpartition(".")[0]
    return not above or find(above, NUMBERS[release])[0] is not None


def between(path: str, old: int, new: int) -> Iterator[str]:
    """What changes for a key from one release to another, by their places."""
    before, after = at(path, old), at(path, new)
    if before.read and not after.read:
        yield "removed, rejected by name" if after.refused else "removed"
    elif after.read and not before.read:
        yield "added"
    elif before.read and after.read:
        if before.takes != after.takes:
            yield f"accepts {after.takes}, was {before.takes}"
        if before.default != after.default:
            yield f"default {after.default or 'none'}, was {before.default or 'none'}"
        if after.deprecated and not before.deprecated:
            yield "deprecated"
    elif after.refused and not before.refused:
        yield "rejected by name"


def at(path: str, place: int) -> State:
    """What is true of a key in the release at a place of the list."""
    return next(each.state for each in stretches(path) if each.first <= place <= each.last)
