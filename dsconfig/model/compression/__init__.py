"""Compression while training, driven by `deepspeed.compression.init_compression`; refused from 0.19.7 on."""

from typing import Annotated

from pydantic import Field

from dsconfig.model.compression.layer_reduction import LayerReduction
from dsconfig.model.compression.pruning import ChannelPruning, HeadPruning, RowPruning, SparsePruning
from dsconfig.model.compression.quantize import QuantizedActivations, QuantizedWeights
from dsconfig.model.key import Key
from dsconfig.model.section import RootKeys, Section
from dsconfig.model.section_triggers import SCRIPT


class CompressionTraining(Section):
    """Seven techniques, each absent or on by itself."""

    SOURCE = "compression/config.py:get_compression_config"

    weight_quantization: Annotated[
        QuantizedWeights,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_weight_quantization"),
    ] = Field(default_factory=QuantizedWeights.absent)
    """Quantise weights, from many bits to few."""
    activation_quantization: Annotated[
        QuantizedActivations,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_activation_quantization"),
    ] = Field(default_factory=QuantizedActivations.absent)
    """Quantise activations."""
    sparse_pruning: Annotated[
        SparsePruning,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_sparse_pruning"),
    ] = Field(default_factory=SparsePruning.absent)
    """Set single weights to zero; compresses most, and only special kernels gain speed."""
    row_pruning: Annotated[
        RowPruning,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_row_pruning"),
    ] = Field(default_factory=RowPruning.absent)
    """Remove rows of weight matrices."""
    head_pruning: Annotated[
        HeadPruning,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_head_pruning"),
    ] = Field(default_factory=HeadPruning.absent)
    """Remove attention heads."""
    channel_pruning: Annotated[
        ChannelPruning,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_channel_pruning"),
    ] = Field(default_factory=ChannelPruning.absent)
    """Remove channels of convolutions."""
    layer_reduction: Annotated[
        LayerReduction,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_layer_reduction_enabled"),
    ] = Field(default_factory=LayerReduction)
    """Start a shallow student from layers of a deep teacher."""


class CompressionKeys(RootKeys):
    """The root key of compression."""

    compression_training: Annotated[
        CompressionTraining,
        Key(
            since="0.7.0",
            until="0.19.6",
            refused_from="0.19.7",
            source="compression/config.py:get_compression_config",
            complete=True,
            opened_by=SCRIPT,  # deepspeed.compression.init_compression
        ),
    ] = Field(default_factory=CompressionTraining)
    """Pruning and quantising while training."""
