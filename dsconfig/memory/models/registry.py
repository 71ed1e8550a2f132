"""The pass of a model, by its family."""

from __future__ import annotations

from functools import lru_cache

from dsconfig.memory import autoep as experts
from dsconfig.memory import autotp, ulysses
from dsconfig.memory.graph import Tape, TensorParallel
from dsconfig.memory.models.shape import Architecture, MicroBatch

ALONE = TensorParallel()


def record(shape: Architecture, work: MicroBatch) -> Tape:
    """The modules of a model and the steps of its forward pass.

    Raises:
        NotModelledError: ranks are to share layers of a model for which that is not modelled.
    """
    if work.sp_size > 1:
        ulysses.refuse(shape, work)
    if work.ep_size:
        experts.refuse(shape, work)
    if work.tensor_parallel.size > 1:
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
def weights_of(
    shape: Architecture, itemsize: int, autocast: bool, tensor: TensorParallel = ALONE, experts: int = 0
) -> Tape:
    """The modules and their parameters alone, without a pass."""
    return record(
        shape,
        MicroBatch(1, 1, itemsize, autocast, tensor_parallel=tensor, ep_size=experts, records_pass=False),
    )


def shared(shape: Architecture, work: MicroBatch) -> Tape:
    """The same where each rank has a part of every linear layer."""
    autotp.refuse(shape, work)
    ranks = work.tensor_parallel.size
    tape = record(
        autotp.part_of(shape, work.tensor_parallel), work._replace(tensor_parallel=TensorParallel())
    )
    tape.apply_tensor_parallel(ranks, work.tensor_parallel.shards_lm_head(bool(shape.variant.qk_norm)))
    tape.collectives = autotp.exchanges(shape, work)
    return tape
