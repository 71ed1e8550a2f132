"""History of each key: releases that add, remove or deprecate it, or change its type or default."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from dsconfig.core.releases import NUMBERS, RELEASES
from dsconfig.core.wording import describe_type, quote_value
from dsconfig.model.key_table import KeyInfo, find_key
from pages import key_entries


class KeyState(NamedTuple):
    """The properties of a key in one release."""

    read: bool
    accepts: str
    default: str
    rejected: bool
    deprecated: bool


class KeyPeriod(NamedTuple):
    """Consecutive releases with the same state of a key, by their index in `RELEASES`."""

    first: int
    last: int
    state: KeyState


ABSENT = KeyState(False, "", "", False, False)


def _state(info: KeyInfo, release: int) -> KeyState:
    if not info.is_read_in(release):
        return KeyState(False, "", "", release >= info.refused_from, False)
    default = info.default_in(release)
    default_text = quote_value(default) if default is not None else ""
    return KeyState(
        True, describe_type(info.type_in(release)), default_text, False, release >= info.deprecated
    )


@cache
def periods(path: str) -> tuple[KeyPeriod, ...]:
    """The history of a key; if several types of its section have it, of the first one."""
    info = key_entries.entries()[path][0]
    history: list[KeyPeriod] = []
    for index, release in enumerate(RELEASES):
        state = _state(info, NUMBERS[release])
        if not _reachable(path, release) and state.read:
            state = ABSENT
        if history and history[-1].state == state:
            history[-1] = history[-1]._replace(last=index)
        else:
            history.append(KeyPeriod(index, index, state))
    return tuple(history)


def _reachable(path: str, release: str) -> bool:
    """Whether the release reads the section that contains the key, up to the first free name."""
    section = path.partition(".*")[0] if "*" in path else path.rpartition(".")[0]
    return not section or find_key(section, NUMBERS[release])[0] is not None


def changes(path: str, old: int, new: int) -> Iterator[str]:
    """The changes of a key from one release to another, by their index in `RELEASES`."""
    before, after = state_at(path, old), state_at(path, new)
    if before.read and not after.read:
        yield "removed, rejected by name" if after.rejected else "removed"
    elif after.read and not before.read:
        yield "added"
    elif before.read and after.read:
        if before.accepts != after.accepts:
            yield f"accepts {after.accepts}, was {before.accepts}"
        if before.default != after.default:
            yield f"default {after.default or 'none'}, was {before.default or 'none'}"
        if after.deprecated and not before.deprecated:
            yield "deprecated"
    elif after.rejected and not before.rejected:
        yield "rejected by name"


def state_at(path: str, index: int) -> KeyState:
    """The state of a key in a release, by its index in `RELEASES`."""
    return next(each.state for each in periods(path) if each.first <= index <= each.last)
