"""Select the module that records a model's forward pass, based on the model family."""

from __future__ import annotations

from functools import lru_cache

from dsconfig.memory.autograd_graph import ForwardTape, TensorParallelSettings
from dsconfig.memory.features import autotp
from dsconfig.memory.models.architecture import Architecture, MicroBatch
from dsconfig.memory.unsupported_settings import reject_model

NO_TENSOR_PARALLEL = TensorParallelSettings()


def record_forward_pass(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Create a model and record its forward pass.

    Raises:
        NotModelledError: the model has no estimate with this kind of parallelism.
    """
    reject_model(arch, batch)
    if batch.tensor_parallel.size > 1:
        return _record_tensor_parallel(arch, batch)
    if arch.family == "gpt2":
        from dsconfig.memory.models.gpt_decoders import build_gpt2 as build
    elif arch.family == "falcon":
        from dsconfig.memory.models.falcon import build
    elif arch.family == "vit":
        from dsconfig.memory.models.encoders import build_vit as build
    elif arch.family == "bert":
        from dsconfig.memory.models.encoders import build_bert as build
    elif arch.family == "gpt_neox":
        from dsconfig.memory.models.gpt_decoders import build_gpt_neox as build
    elif arch.family == "opt":
        from dsconfig.memory.models.gpt_decoders import build_opt as build
    elif arch.family == "plain":
        from dsconfig.memory.models.synthetic_mlp import build
    elif arch.family == "generic":
        from dsconfig.memory.models.generic_transformer import build
    elif arch.family == "sized":
        from dsconfig.memory.models.parameters_only import build
    else:
        from dsconfig.memory.models.decoder import build
    return build(arch, batch)


@lru_cache(maxsize=4)
def weights_of(
    arch: Architecture,
    itemsize: int,
    autocast: bool,
    tensor: TensorParallelSettings = NO_TENSOR_PARALLEL,
    experts: int = 0,
) -> ForwardTape:
    """Create the modules and parameters of a model without recording a pass."""
    return record_forward_pass(
        arch,
        MicroBatch(1, 1, itemsize, autocast, tensor_parallel=tensor, ep_size=experts, records_pass=False),
    )


def _record_tensor_parallel(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Create and record a model whose linear layers are sharded over ranks."""
    ranks = batch.tensor_parallel.size
    tape = record_forward_pass(
        autotp.rank_architecture(arch, batch.tensor_parallel),
        batch._replace(tensor_parallel=TensorParallelSettings()),
    )
    tape.apply_tensor_parallel(ranks, batch.tensor_parallel.shards_lm_head(arch.has_qk_norms))
    tape.collectives = autotp.tensor_parallel_collectives(arch, batch)
    return tape
