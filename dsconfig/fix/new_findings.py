"""What is found after a change of a config that was not found before: whether the change does harm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.core.diagnostic import SEVERITIES, Diagnostic, Effect, Move, Operation, Remove, Rename

if TYPE_CHECKING:
    from dsconfig.check.report import Report
    from dsconfig.core.json_types import KeyPath

_Place: TypeAlias = "tuple[str, KeyPath, int]"


def does_harm(old: Report, new: Report, steps: Iterable[Operation]) -> bool:
    """Whether the operations bring a finding, or spread or worsen one, or leave fewer world sizes."""
    if new.foreign and not old.foreign:  # a text that is no longer a config has no findings, and no use
        return True
    before, after, steps = _found(old), _found(new), list(steps)
    if old.cut:  # what a fix makes room for in the list is not news
        return _errors(after) > _errors(before)
    if _of_text(after) - _of_text(before):
        return True
    if _is_taken(before) and new.sizes is not None and not set(new.sizes).issuperset(old.sizes or _ENDLESS):
        return True
    known: dict[_Place, set[str]] = {}
    ways = _by_place(steps)
    for found in before:
        path = _followed(found.path, ways)
        for rank in range(SEVERITIES.index(found.severity), len(SEVERITIES)):
            known.setdefault((found.code, path, rank), set()).update(_releases(found))
    return any(_releases(found) - known.get(_place(found), set()) for found in after if not _is_text(found))


def _place(found: Diagnostic) -> _Place:
    return found.code, found.path, SEVERITIES.index(found.severity)


def _releases(found: Diagnostic) -> set[str]:
    """Where it is found; one of no release is found in all of them."""
    return set(found.releases or ("",))


_ENDLESS = (0,)
"""Stands for world sizes without end."""


def _is_taken(found: Iterable[Diagnostic]) -> bool:
    return all(each.effect is not Effect.REJECTED for each in found)


def _errors(found: Iterable[Diagnostic]) -> int:
    return sum(each.severity == "error" for each in found)


def _found(report: Report) -> list[Diagnostic]:
    return [*report.diagnostics, *report.suppressed]


def _of_text(found: Iterable[Diagnostic]) -> Counter[str]:
    """How often each rule of the text speaks: one finding stands for all places, wherever the first is."""
    return Counter(each.code for each in found if _is_text(each))


def _is_text(found: Diagnostic) -> bool:
    return found.code.startswith("DSC0")


_Ways: TypeAlias = "dict[KeyPath, list[tuple[int, Operation]]]"
"""The operations that move something, with their numbers, by the place at or below which it stood."""


def _by_place(steps: Iterable[Operation]) -> _Ways:
    ways: _Ways = {}
    for number, step in enumerate(steps):
        if isinstance(step, Rename | Move):
            ways.setdefault(step.path, []).append((number, step))
        elif isinstance(step, Remove) and step.path and isinstance(step.path[-1], int):
            ways.setdefault(step.path[:-1], []).append((number, step))
    return ways


def _followed(path: KeyPath, ways: _Ways) -> KeyPath:
    """Where the key at a path stands after the operations."""
    done = -1
    while ways:
        places = (path[:length] for length in range(len(path) + 1))
        ahead = [way for place in places for way in ways.get(place, ()) if way[0] > done]
        if not ahead:
            break
        done, step = min(ahead, key=lambda way: way[0])
        match step:
            case Rename(moved, name):
                path = (*moved[:-1], name, *path[len(moved) :])
            case Move(moved, to):
                path = (*to, *path[len(moved) :])
            case Remove(gone):
                path = _closed_up(path, gone)
    return path


def _closed_up(path: KeyPath, gone: KeyPath) -> KeyPath:
    """The path in a list of which another element was taken out."""
    at = len(gone) - 1
    if at < 0 or len(path) <= at or path[:at] != gone[:at]:
        return path
    index, taken = path[at], gone[at]
    if isinstance(index, int) and isinstance(taken, int) and index > taken:
        return (*path[:at], index - 1, *path[at + 1 :])
    return path
