"""A stack of two layers with GELU between them and a residual around them."""

from __future__ import annotations

from dsconfig.memory.graph import Tape
from dsconfig.memory.layers import activation, add, linear
from dsconfig.memory.models.architecture import Architecture, MicroBatch


def build(arch: Architecture, batch: MicroBatch) -> Tape:
    """The modules and the pass of a model."""
    tape = batch.new_tape()
    rows, hidden, wide = (
        batch.micro_batch_size * batch.sequence_length,
        arch.hidden_size,
        arch.intermediate_size,
    )
    root = tape.module("", inputs_require_grad=False)
    blocks = []
    for index in range(arch.num_layers):
        requires_grad = index < arch.trained_fraction * arch.num_layers
        whole = tape.module(str(index), inputs_require_grad=index > 0)
        up = tape.module(
            f"{index}.up",
            (wide, hidden),
            wide,
            inputs_require_grad=index > 0,
            requires_grad=requires_grad,
            casts=True,
        )
        down = tape.module(f"{index}.down", (hidden, wide), hidden, requires_grad=requires_grad, casts=True)
        blocks.append((whole, up, down))
    if not batch.records_pass:
        return tape
    tape.input_bytes = rows * hidden * batch.itemsize
    x = tape.tensor(0, requires_grad=False)  # the batch: its script holds it
    with tape.scope(root):
        for whole, up, down in blocks:
            with tape.scope(whole, x):
                y = activation(tape, None, linear(tape, up, x, rows, wide))
                x = add(tape, linear(tape, down, y, rows, hidden), x)
    full = x if x.itemsize == 4 else tape.op([x], tape.tensor(rows * hidden, 4))
    square = tape.op([full], tape.tensor(rows * hidden, 4), [full], backward_temporary=2 * 4 * rows * hidden)
    loss = tape.op([square], tape.tensor(1, 4))
    tape.op([loss], tape.tensor(1, 4), passes_grad_through=True)
    return tape
