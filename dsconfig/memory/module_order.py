"""The order in which a pass enters and leaves the modules of a model, there and back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from dsconfig.memory.graph import Enter, Leave, Module, Segment, Step


class Visit(NamedTuple):
    """A module is entered, or left."""

    module: Module
    enters: bool
    back: bool = False
    owner: int | None = None
    """The module on the way back for which this is computed again."""


def there(steps: Sequence[Step], owner: int | None = None) -> Iterator[Visit]:
    """Those of a forward pass."""
    for step in steps:
        if isinstance(step, (Enter, Leave)):
            yield Visit(step.module, isinstance(step, Enter), False, owner)
        elif isinstance(step, Segment):
            yield from there(step.steps, owner)


def back(steps: Sequence[Step]) -> Iterator[Visit]:
    """Those of a backward pass, which enters what the way there leaves."""
    for step in reversed(steps):
        if isinstance(step, Leave) and step.needs:
            yield Visit(step.module, True, True)
        elif isinstance(step, Enter) and step.needs and step.module.returns:
            yield Visit(step.module, False, True)
        elif isinstance(step, Segment):
            early, late = step.parts()
            yield from back(late)
            yield from there(early, asking(late))
            yield from back(early)


def asking(late: Sequence[Step]) -> int | None:
    """The last module on the way back that is entered, and not left, before something is missing."""
    found: list[int] = []
    for step in reversed(late):
        if isinstance(step, Leave) and step.needs:
            found.append(step.module.number)
        elif isinstance(step, Enter) and step.module.number in found:
            found.remove(step.module.number)
    return found[-1] if found else None


def visits_of(steps: Sequence[Step], counted: Collection[int] = ()) -> list[Visit]:
    """Those of both ways; `counted`: modules that count a pass twice, and are not left on the way back."""
    found = [*there(steps), *back(steps)]
    return [visit for visit in found if visit.enters or not visit.back or visit.module.number not in counted]


def entered_again(steps: Sequence[Step]) -> Iterator[int]:
    """Numbers of modules that are entered once more as a segment is computed again."""
    for step in steps:
        if isinstance(step, Segment):
            early, _ = step.parts()
            yield from (visit.module.number for visit in there(early) if visit.enters)


def unreturned(visits: Sequence[Visit]) -> list[Module]:
    """What the way back enters and does not leave, since no gradient flows to what it reads."""
    found: dict[Module, None] = {}
    for visit in visits:
        if visit.back and visit.enters:
            found[visit.module] = None
        elif visit.back:
            found.pop(visit.module, None)
    return list(found)
