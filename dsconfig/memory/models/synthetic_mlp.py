"""The synthetic model used for measurements: blocks of two linear layers with GELU and a residual."""

from __future__ import annotations

from dsconfig.memory.autograd_graph import ForwardTape
from dsconfig.memory.layers import activation, add_residual, linear
from dsconfig.memory.models.architecture import Architecture, MicroBatch


def build(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Create the synthetic modules and, unless only parameters are needed, record the forward pass."""
    tape = batch.new_tape()
    rows, hidden, intermediate_size = (
        batch.micro_batch_size * batch.sequence_length,
        arch.hidden_size,
        arch.intermediate_size,
    )
    root = tape.module("", inputs_require_grad=False)
    blocks = []
    for index in range(arch.num_layers):
        requires_grad = index < arch.trained_fraction * arch.num_layers
        block = tape.module(str(index), inputs_require_grad=index > 0)
        up = tape.module(
            f"{index}.up",
            (intermediate_size, hidden),
            intermediate_size,
            inputs_require_grad=index > 0,
            requires_grad=requires_grad,
            casts=True,
        )
        down = tape.module(
            f"{index}.down", (hidden, intermediate_size), hidden, requires_grad=requires_grad, casts=True
        )
        blocks.append((block, up, down))
    if not batch.records_pass:
        return tape
    tape.input_bytes = rows * hidden * batch.itemsize
    x = tape.tensor(0, requires_grad=False)  # the script holds the batch
    with tape.record_module(root):
        for block, up, down in blocks:
            with tape.record_module(block, x):
                y = activation(tape, None, linear(tape, up, x, rows, intermediate_size))
                x = add_residual(tape, linear(tape, down, y, rows, hidden), x)
    x_fp32 = x if x.itemsize == 4 else tape.op([x], tape.tensor(rows * hidden, 4))
    square = tape.op(
        [x_fp32], tape.tensor(rows * hidden, 4), [x_fp32], backward_temporary=2 * 4 * rows * hidden
    )
    loss = tape.op([square], tape.tensor(1, 4))
    tape.op([loss], tape.tensor(1, 4), shares_grad=True)
    return tape
