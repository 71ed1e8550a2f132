"""Models of which only the parameters are known; a pass uses each weight once and has no activations."""

from __future__ import annotations

from dsconfig.memory.autograd_graph import ForwardTape, Module
from dsconfig.memory.layers import linear
from dsconfig.memory.models.architecture import Architecture, MicroBatch


def build(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Create one module per weight of each block; the pass gathers and differentiates them in order."""
    tape = batch.new_tape()
    root = tape.module("", inputs_require_grad=False)
    blocks: list[tuple[Module, list[Module]]] = []
    for block in arch.weight_blocks:
        for index in range(block.repeats):
            name = f"{block.name}.{index}"
            parent = tape.module(name, inputs_require_grad=bool(blocks))
            children = [
                tape.projection(f"{name}.{child}", rows, columns, inputs_require_grad=bool(blocks))
                if child.endswith("_proj")
                else tape.module(f"{name}.{child}", (rows, columns), inputs_require_grad=bool(blocks))
                for child, rows, columns in block.weights
            ]
            blocks.append((parent, children))
    if not batch.records_pass:
        return tape
    x = tape.tensor(0)
    with tape.record_module(root):
        for parent, children in blocks:
            with tape.record_module(parent, x):
                for child in children:
                    x = linear(tape, child, x, 0, 0)
    tape.op([x], tape.tensor(1, 4), shares_grad=True)
    return tape
