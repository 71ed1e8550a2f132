"""Masks of attention: what `masking_utils.py` of Transformers makes once for all layers of a kind."""

from __future__ import annotations

from dsconfig.memory.graph import Tape, Tensor
from dsconfig.memory.models.shape import Shape, Work


class Masks:
    """Those of a model: of numbers step by step (`eager`), else only where a window is shorter than all."""

    def __init__(self, tape: Tape, shape: Shape, work: Work) -> None:
        self.tape, self.windowed = tape, frozenset(shape.windowed)
        self.full: Tensor | None = None
        self.sliding: Tensor | None = None
        square = work.length**2
        if work.attention == "eager":
            made = [self._make(work.micro * square, tape.width) for _ in range(shape.style.masks)]
            self.full, self.sliding = made[0], made[-1]
        elif work.attention == "sdpa" and self.windowed and work.length >= shape.window:
            self.sliding = self._make(square, 1)

    def _make(self, count: int, width: int) -> Tensor:
        return self.tape.step([], self.tape.tensor(count, width, needs=False))

    def of(self, layer: int) -> Tensor | None:
        """That of a layer."""
        return self.sliding if layer in self.windowed else self.full

    def drop(self) -> None:
        """The model is through."""
        there = {found: None for found in (self.full, self.sliding) if found is not None}
        if there:
            self.tape.hold(*there)
