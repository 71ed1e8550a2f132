"""Muon's two halves of a model, and what an update of one of its matrices needs.

`deepspeed/__init__.py:set_optimizer_flags`, `engine._muon_param_groups` and `runtime/zero/muon/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.graph import Weight

GRAM = "gram"
"""The way to orthogonalise, in fp16, that later releases take by default; `standard` takes bf16."""
OTHERS = ("embed", "lm_head")
"""Parts of names whose matrices stay with Adam."""


def is_muon(weight: Weight) -> bool:
    """Whether Muon updates it, by its shape and its name."""
    return len(weight.shape) > 1 and not any(word in weight.name.lower() for word in OTHERS)


def halves(setup: Setup, weights: Sequence[Weight]) -> list[list[Weight]]:
    """The groups of parameters in their order: one, or with Muon its matrices by size and then the rest."""
    if not setup.optimizer.muon:
        return [list(weights)]
    matrices = [weight for weight in weights if is_muon(weight)]
    if not setup.zero_init:  # there every shape is that of an empty tensor
        matrices.sort(key=lambda weight: weight.shape, reverse=True)
    others = [weight for weight in weights if not is_muon(weight)]
    return [half for half in (matrices, others) if half]


def needs(setup: Setup, weight: Weight, width: int) -> int:
    """The peak of `muon_update` for a gradient of this width, in bytes, with the new tensor among them.

    Its eager operations are counted: where torch compiles them they hold less.
    """
    method, half = setup.optimizer.muon, setup.half
    *batch, rows, columns = weight.shape
    if setup.ways.muon_late:
        method = "standard"
    count, short = weight.elements, min(rows, columns)
    kind = half if width == 2 else "fp32"
    products = 2 * prod(batch) * short * short
    whole = 2 * count
    if method == GRAM:
        begin = {"fp16": 10, "bf16": 4}.get(kind or "", 6) * count
    else:
        begin = (2 if kind == "bf16" else 4) * count
    if method == GRAM and rows != columns:
        inside = max(whole + 7 * products, 2 * whole + 4 * products)
    else:
        inside = max(4 * whole + 2 * products, whole + 5 * products)
    computed = "fp16" if method == GRAM else "bf16"
    end = (2 * width if kind == computed else max(2 + width, 2 * width)) * count
    if setup.ways.muon_late:  # in bf16, whatever the gradient is
        return max(begin, inside)
    momentum = max(2 * width, 2 + width) * count
    return max(begin, inside, end, momentum)
