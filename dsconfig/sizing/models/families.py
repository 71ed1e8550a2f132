"""The pass of a model, by its family."""

from __future__ import annotations

from dsconfig.sizing.models.shape import Shape, Work
from dsconfig.sizing.tape import Tape


def record(shape: Shape, work: Work) -> Tape:
    """The modules of a model and the steps of its forward pass."""
    if shape.family == "gpt2":
        from dsconfig.sizing.models.gpt2 import build
    elif shape.family == "vit":
        from dsconfig.sizing.models.vit import build
    elif shape.family == "plain":
        from dsconfig.sizing.models.plain import build
    else:
        from dsconfig.sizing.models.decoder import build
    return build(shape, work)
