"""Hybrid engine: training and fast generation with one set of weights, for RLHF."""

from typing import Annotated

from pydantic import Field

from dsconfig.model.key import EarlierType, Key, SectionReading
from dsconfig.model.section import PositiveInt, RootKeys, Section


class HybridEngine(Section):
    """Switches a model between training and inference kernels."""

    SOURCE = "runtime/config.py:HybridEngineConfig"
    READS = (SectionReading("pydantic", since="0.9.0", unknown="rejected", drops_auto=True),)

    enabled: Annotated[bool, Key(since="0.9.0")] = False
    """Use the hybrid engine instead of the default engine."""
    max_out_tokens: Annotated[
        PositiveInt, Key(since="0.9.0", unit="tokens", was=(EarlierType("0.19.6", int),))
    ] = 512
    """Maximum sequence length, including the prompt, for which inference buffers are allocated; larger values
    need more memory."""
    inference_tp_size: Annotated[int, Key(since="0.9.0")] = 1
    """Tensor-parallel degree during generation; allows larger models."""
    release_inference_cache: Annotated[bool, Key(since="0.9.0")] = False
    """Free the inference buffers after each generation: more memory for training, but they have to be
    allocated again."""
    pin_parameters: Annotated[bool, Key(since="0.9.0")] = True
    """Keep gathered parameters during a generation phase: faster, more memory."""
    tp_gather_partition_size: Annotated[int, Key(since="0.9.0", unit="layers")] = 8
    """Layers gathered at once for inference tensor parallelism; smaller values need less memory."""
    enable_cuda_graph: Annotated[bool, Key(since="0.19.6")] = False
    """Use CUDA graphs for token generation; saves launch overhead if shapes do not change."""


class HybridEngineRootKeys(RootKeys):
    """The root key of the hybrid engine."""

    hybrid_engine: Annotated[
        HybridEngine, Key(since="0.9.0", source="runtime/config.py:get_hybrid_engine_config")
    ] = Field(default_factory=HybridEngine)
    """Alternates training and generation with one set of weights, for RLHF."""
