"""Hybrid engine: training and fast generation with one set of weights, as RLHF needs it."""

from typing import Annotated

from pydantic import Field

from dsconfig.model.annotations import PositiveInt
from dsconfig.model.key import Key, Reads, Was
from dsconfig.model.section import RootKeys, Section


class HybridEngine(Section):
    """Switches a model between training and inference kernels."""

    SOURCE = "runtime/config.py:HybridEngineConfig"
    READS = (Reads("pydantic", since="0.9.0", unknown="rejected", drops_auto=True),)

    enabled: Annotated[bool, Key(since="0.9.0")] = False
    """Build the hybrid engine instead of the plain one."""
    max_out_tokens: Annotated[PositiveInt, Key(since="0.9.0", unit="tokens", was=(Was("0.19.6", int),))] = 512
    """Longest sequence, prompt included, for which inference buffers are made; more takes more memory."""
    inference_tp_size: Annotated[int, Key(since="0.9.0")] = 1
    """Ranks that share the model while it generates; lets larger models fit."""
    release_inference_cache: Annotated[bool, Key(since="0.9.0")] = False
    """Free the inference buffers after each generation: memory for training, time to make them again."""
    pin_parameters: Annotated[bool, Key(since="0.9.0")] = True
    """Keep gathered parameters in place during a generation phase: faster, more memory."""
    tp_gather_partition_size: Annotated[int, Key(since="0.9.0", unit="layers")] = 8
    """Layers gathered at once when switching to inference tensor parallelism; fewer take less memory."""
    enable_cuda_graph: Annotated[bool, Key(since="0.19.6")] = False
    """Replay token generation from CUDA graphs; saves launch time where shapes stay the same."""


class HybridEngineKeys(RootKeys):
    """The root key of the hybrid engine."""

    hybrid_engine: Annotated[
        HybridEngine, Key(since="0.9.0", source="runtime/config.py:get_hybrid_engine_config")
    ] = Field(default_factory=HybridEngine)
    """Training and generating in turns with one set of weights, as RLHF does."""
