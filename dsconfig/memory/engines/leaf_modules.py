"""Modules that stage 3 gathers whole, with all that is in them (`leaf_module`)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from dsconfig.memory.graph import Module, Tape, Weight


def leaves_of(tape: Tape, kinds: Sequence[str]) -> tuple[dict[int, tuple[Weight, ...]], dict[int, int]]:
    """Leaves fetch all that is in them, and modules in them nothing: these, with the leaf that each is in."""
    leaves = {module.name: module.number for module in tape.modules if module.kind and module.kind in kinds}
    if not leaves:
        return {}, {}
    weights, inner = below(tape), dict[int, int]()
    for module in tape.modules:
        for name in _around(module):
            if name and name in leaves:
                inner[module.number] = leaves[name]
    return {number: weights[number] for number in leaves.values()}, inner


class Coming:
    """When modules that are entered one after the other need a parameter."""

    def __init__(self, parameters: Iterable[tuple[Weight, ...]]) -> None:
        self.places: dict[Weight, list[int]] = {}
        """Of each parameter, the turns at which it is needed."""
        self.before = [0]
        """Elements of all that is needed before each turn."""
        for turn, weights in enumerate(parameters):
            for weight in weights:
                self.places.setdefault(weight, []).append(turn)
            self.before.append(self.before[-1] + sum(weight.elements for weight in weights))

    def soon(self, weight: Weight, turn: int, reach: int) -> bool:
        """Whether it is needed from this turn on, before so many elements are."""
        places = self.places.get(weight, [])
        place = bisect_left(places, turn)
        return place < len(places) and self.before[places[place]] - self.before[turn] < reach


def below(tape: Tape) -> dict[int, tuple[Weight, ...]]:
    """The parameters of each module, by its number, and of all that are in it."""
    numbers = {module.name: module.number for module in tape.modules}
    found = {module.number: list[Weight]() for module in tape.modules}
    for module in tape.modules:
        if module.weights:
            for number in (module.number, *(numbers[name] for name in _around(module) if name in numbers)):
                found[number] += module.weights
    return {number: tuple(weights) for number, weights in found.items()}


def _around(module: Module) -> Iterator[str]:
    """The names of the modules that it is in, from the whole model on."""
    if module.name:
        yield ""
        yield from list(accumulate(module.name.split("."), "{}.{}".format))[:-1]
