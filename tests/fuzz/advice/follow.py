"""Carries out what the help of a finding says, and judges what comes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple

from dsconfig.api.check import check
from dsconfig.check.report import Report
from dsconfig.core.diagnostic import Diagnostic
from dsconfig.core.json_types import KeyPath
from dsconfig.core.releases import NUMBERS
from dsconfig.evaluation.rule_context import Context, EvaluatedDocument
from dsconfig.rules import RULES
from tests.fuzz.advice.places import Scene, at, default, named, place, spec, written
from tests.fuzz.advice.sentences import (
    ALL,
    Beyond,
    Move,
    Put,
    Ranks,
    Remove,
    Rename,
    Step,
    Swap,
    Unread,
    Way,
    ways,
)
from tests.fuzz.advice.values import NOTHING, value


class Attempt(NamedTuple):
    """One way out of a finding that a help names, and where it led."""

    found: Diagnostic
    way: Way
    outcome: str
    """What came of it: the finding `ended`, or did so `in steps`, as the helps of what came were followed;
    the way leads `beyond` the config, or is `blocked` by another finding; all else is a fault.
    """
    data: Any = None
    errors: tuple[str, ...] = ()

    @property
    def fault(self) -> bool:
        """Whether the help has led astray."""
        return self.outcome in ("renewed", "stays", "error", "unread", "impossible")


class ImpossibleError(Exception):
    """A step that cannot be done."""


def attempts(
    data: dict[str, Any],
    target: str,
    world_size: int | None,
    consumer: str,
    taken: Callable[[str, str], bool] = lambda *_: True,
) -> Iterator[Attempt]:
    """Follow each way of each help that a check of the config gives, and that is to be `taken`."""
    report = check(data, target=target, world_size=world_size, consumer=consumer)
    assert report.document is not None
    context = Context(
        EvaluatedDocument(report.document, consumer, world_size), NUMBERS[report.target.releases[-1]]
    )
    for found in report:
        if found.help is None or (found.code in RULES and RULES[found.code].reads != "config"):
            continue
        for way in ways(found.help) if taken(found.code, found.help) else ():
            yield _attempt(Scene(data, found, context), way, report)


def _attempt(scene: Scene, way: Way, before: Report) -> Attempt:
    if any(isinstance(step, Unread) for step in way):
        return Attempt(scene.found, way, "unread")
    if all(isinstance(step, Beyond) for step in way):
        return Attempt(scene.found, way, "beyond")
    data = _done(scene, way)
    if data is None:
        return Attempt(scene.found, way, "blocked" if _blocked(scene, way) else "impossible")
    after = _judged(data, before, way)
    if any((*_spot(each), each.message) == (*_spot(scene.found), scene.found.message) for each in after):
        return Attempt(scene.found, way, "stays", data)
    new = tuple(sorted((_errors(after) - _errors(before)).elements()))
    renewed = any(_spot(each) == _spot(scene.found) for each in after)
    outcome = "renewed" if renewed else "error" if new else "ended"
    if outcome != "ended" and _leads_on(scene.found, after, before, _STEPS):
        outcome = "in steps"
    return Attempt(scene.found, way, outcome, data, new)


def _spot(found: Diagnostic) -> tuple[str, KeyPath]:
    return found.code, found.path


_STEPS = 6
"""Helps of what came in the stead of a finding, followed one after another."""


def _blocked(scene: Scene, way: Way) -> bool:
    """Whether a value on the way to the place is not an object: that is another finding's matter."""
    ways_to = [tuple(step.to.split(".")) for step in way if isinstance(step, Move)]
    before = [at(scene.data, to[:length]) for to in ways_to for length in range(1, len(to))]
    return any(value is not None and not isinstance(value, dict) for value in before)


def _leads_on(found: Diagnostic, now: Report, before: Report, steps: int) -> bool:
    """Whether the helps of what came lead to a config without it, and without the finding."""
    new = _errors(now) - _errors(before)
    came = [each for each in now if each.code in new or _spot(each) == _spot(found)]
    if not came:
        return True
    if not steps or now.document is None:
        return False
    data = now.document.value()
    context = Context(
        EvaluatedDocument(now.document, now.consumer, now.world_size), NUMBERS[now.target.releases[-1]]
    )
    for each in came:
        done = [(_done(Scene(data, each, context), way), way) for way in ways(each.help or "")]
        if any(made is not None for made, _ in done):
            return any(
                _leads_on(found, _judged(made, now, way), before, steps - 1)
                for made, way in done
                if made is not None
            )
    return False


def _judged(data: Any, before: Report, way: Way = ()) -> Report:
    """The config as it was judged before, on the number of GPUs that the way names."""
    world_size = next((step.count for step in way if isinstance(step, Ranks)), before.world_size)
    return check(data, target=before.target, world_size=world_size, consumer=before.consumer)


def _done(scene: Scene, way: Way) -> Any:
    """The config after the steps; None where one cannot be done."""
    data = deepcopy(scene.data)
    if any(isinstance(step, Unread) for step in way) or all(isinstance(step, Beyond) for step in way):
        return None
    try:
        for step in way:
            _do(scene, data, step)
    except ImpossibleError:
        return None
    return data


def _errors(report: Report) -> Counter[str]:
    return Counter(each.code for each in report if each.severity == "error")


def _do(scene: Scene, data: dict[str, Any], step: Step) -> None:
    match step:
        case Remove(names):
            paths = (
                named(scene)
                if names == (ALL,)
                else [place(scene, name, here=True) for name in names or ("",)]
            )
            for path in paths:
                if path is None or not written(scene, path):
                    raise ImpossibleError
                _take(data, path)
        case Put(name, words):
            path = place(scene, name, here=False)
            assert path is not None
            made = value(words, spec(scene, path), default(scene, path))
            if made is NOTHING:
                raise ImpossibleError
            _put(data, path, made)
        case Swap(one, other):
            ends = [place(scene, name, here=True) for name in (one, other)]
            if ends[0] is None or ends[1] is None:
                raise ImpossibleError
            first, second = at(data, ends[0]), at(data, ends[1])
            _put(data, ends[0], second)
            _put(data, ends[1], first)
        case Rename(old, new):
            path = place(scene, old, here=True)
            if path is None:
                raise ImpossibleError
            item = _take(data, path)
            _put(data, (*path[:-1], new), item)
        case Move(to):
            _move(scene, data, to)
        case Ranks() | Beyond() | Unread():
            pass


def _move(scene: Scene, data: dict[str, Any], to: str) -> None:
    """Say it at another place; by the finding's fix, where it knows how the value is said there."""
    path = tuple(to.split("."))
    item = _take(data, scene.found.path)
    if at(data, path) is None:
        _put(data, path, item)


def _take(data: Any, path: KeyPath) -> Any:
    parent = at(data, path[:-1])
    if not path or not isinstance(parent, dict | list):
        raise ImpossibleError
    try:
        return parent.pop(path[-1])
    except (KeyError, IndexError):
        raise ImpossibleError from None


def _put(data: Any, path: KeyPath, item: Any) -> None:
    if not path:
        raise ImpossibleError
    for part in path[:-1]:
        if isinstance(data, dict):
            if data.get(part) is None:
                data[part] = {}
            data = data[part]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            raise ImpossibleError
    try:
        data[path[-1]] = item
    except (TypeError, IndexError):
        raise ImpossibleError from None
