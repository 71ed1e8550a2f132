"""Which rules there are for a release."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache

from dsconfig.core.releases import NEVER, Interval
from dsconfig.evaluation.context import Root
from dsconfig.evaluation.rule import RULES, Rule, Subject

_ANY_TEXT: tuple[Subject, ...] = ("text", "template")
_READ: dict[Root, tuple[Subject, ...]] = {
    "config": ("config", *_ANY_TEXT),
    "launch file": ("launch file", *_ANY_TEXT),
    "job": ("job", *_ANY_TEXT),
    "script": ("job",),
    "text": _ANY_TEXT,
}


def applicable(release: int, root: Root = "config") -> tuple[tuple[Rule, ...], Interval]:
    """The rules for a release and a kind of root, and the releases that have just these."""
    borders = _borders()
    index = bisect_right(borders, release)
    alike = Interval(borders[index - 1], borders[index] - 1)
    return _applicable(alike.first, root), alike


@cache
def _applicable(release: int, root: Root) -> tuple[Rule, ...]:
    read = _READ[root]
    found = []
    for rule in RULES.values():
        first, last = rule.releases
        if first <= release <= last and rule.reads in read:
            found.append(rule)
    return tuple(found)


@cache
def _borders() -> tuple[int, ...]:
    """First releases from which another set of rules applies, ascending, with an end beyond all."""
    found = {0, NEVER}
    for rule in RULES.values():
        first, last = rule.releases
        found |= {first, last + 1}
    return tuple(sorted(found))
