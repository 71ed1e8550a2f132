"""The pass of a model, by its family."""

from __future__ import annotations

from functools import lru_cache

from dsconfig.memory import autoep as experts
from dsconfig.memory import autotp, ulysses
from dsconfig.memory.graph import Sharing, Tape
from dsconfig.memory.models.shape import Shape, Work

ALONE = Sharing()


def record(shape: Shape, work: Work) -> Tape:
    """The modules of a model and the steps of its forward pass.

    Raises:
        NotModelledError: ranks are to share layers of a model for which that is not modelled.
    """
    if work.sequence > 1:
        ulysses.refuse(shape, work)
    if work.experts:
        experts.refuse(shape, work)
    if work.tensor.ranks > 1:
        return shared(shape, work)
    if shape.family == "gpt2":
        from dsconfig.memory.models.gpt2 import build
    elif shape.family == "vit":
        from dsconfig.memory.models.vit import build
    elif shape.family == "bert":
        from dsconfig.memory.models.bert import build
    elif shape.family == "gpt_neox":
        from dsconfig.memory.models.gpt_neox import build
    elif shape.family == "opt":
        from dsconfig.memory.models.opt import build
    elif shape.family == "plain":
        from dsconfig.memory.models.synthetic import build
    else:
        from dsconfig.memory.models.decoder import build
    return build(shape, work)


@lru_cache(maxsize=4)
def weights_of(shape: Shape, width: int, autocast: bool, tensor: Sharing = ALONE, experts: int = 0) -> Tape:
    """The modules and their parameters alone, without a pass."""
    return record(shape, Work(1, 1, width, autocast, tensor=tensor, experts=experts, computes=False))


def shared(shape: Shape, work: Work) -> Tape:
    """The same where each rank has a part of every linear layer."""
    autotp.refuse(shape, work)
    ranks = work.tensor.ranks
    tape = record(autotp.part_of(shape, work.tensor), work._replace(tensor=Sharing()))
    tape.share(ranks, work.tensor.cuts_head(bool(shape.style.head_norms)))
    tape.exchanged = autotp.exchanges(shape, work)
    return tape
