"""A stack of two layers with GELU between them and a residual around them."""

from __future__ import annotations

from dsconfig.memory.graph import Tape
from dsconfig.memory.layers import activation, add, linear
from dsconfig.memory.models.shape import Shape, Work


def build(shape: Shape, work: Work) -> Tape:
    """The modules and the pass of a model."""
    tape = work.tape()
    rows, hidden, wide = work.micro * work.length, shape.hidden, shape.wide
    root = tape.module("", returns=False)
    blocks = []
    for index in range(shape.layers):
        trains = index < shape.trained * shape.layers
        whole = tape.module(str(index), returns=index > 0)
        up = tape.module(f"{index}.up", (wide, hidden), wide, returns=index > 0, trains=trains, casts=True)
        down = tape.module(f"{index}.down", (hidden, wide), hidden, trains=trains, casts=True)
        blocks.append((whole, up, down))
    if not work.computes:
        return tape
    tape.extra = rows * hidden * work.width
    x = tape.tensor(0, needs=False)  # the batch: its script holds it
    with tape.inside(root):
        for whole, up, down in blocks:
            with tape.inside(whole, x):
                y = activation(tape, None, linear(tape, up, x, rows, wide))
                x = add(tape, linear(tape, down, y, rows, hidden), x)
    full = x if x.width == 4 else tape.step([x], tape.tensor(rows * hidden, 4))
    square = tape.step([full], tape.tensor(rows * hidden, 4), [full], back=2 * 4 * rows * hidden)
    loss = tape.step([square], tape.tensor(1, 4))
    tape.step([loss], tape.tensor(1, 4), shares=True)
    return tape
