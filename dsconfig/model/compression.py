"""Compression during training with `deepspeed.compression.init_compression`, up to 0.19.6."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from dsconfig.model.key import SCRIPT, EarlierType, Key, SectionReading
from dsconfig.model.section import ABSENT, Fraction, RootKeys, Section

# Keys that the groups of every compression technique share.


class CompressionGroup(Section):
    """Modules that are compressed with the same settings; each technique adds its `params`."""

    modules: Annotated[list[str] | str, Key(since="0.7.0", until="0.19.6")] = "*"
    """Regular expressions for the names of the modules; the default matches all."""
    related_modules: Annotated[list[list[str]] | None, Key(since="0.7.0", until="0.19.6")] = None
    """For each entry of `modules`: the modules that must be pruned with it because they share a dimension."""


class DenseRatio(Section):
    """Params of a group that is pruned."""

    SOURCE = "compression/config.py:get_params"

    dense_ratio: Annotated[Fraction, Key(since="0.7.0", until="0.19.6")]
    """Fraction of weights that are kept; 0.1 removes nine tenths. DeepSpeed rejects the config without it."""


# Quantization of weights and activations during training.

_GRIDS = (("symmetric", "range centered at zero"), ("asymmetric", "range from minimum to maximum"))


class MixedFp16(Section):
    """Mixture of fp16 and quantized weights that gradually shifts to the quantized ones."""

    SOURCE = "compression/config.py:get_weight_quantization_shared_parameters"

    enabled: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = False
    """Blend fp16 and quantized weights instead of switching at once."""
    quantize_change_ratio: Annotated[float, Key(since="0.7.0", until="0.19.6")] = 0.001
    """Fraction by which the share of the quantized weights grows at each step."""


class WeightParameters(Section):
    """Settings for all groups of quantized weights."""

    SOURCE = "compression/config.py:get_weight_quantization_shared_parameters"

    enabled: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = False
    """Quantize weights."""
    quantizer_kernel: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = False
    """Quantize with the CUDA kernel; works only with the fp16 optimizer."""
    schedule_offset: Annotated[int, Key(since="0.7.0", until="0.19.6", unit="steps")] = 0
    """Steps before quantization starts; training without it first loses less accuracy."""
    quantize_groups: Annotated[int, Key(since="0.7.0", until="0.19.6")] = 1
    """Number of groups of a weight matrix that have separate scales; more groups are more exact and cost
    more."""
    quantize_verbose: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = False
    """Log each quantization."""
    quantization_type: Annotated[
        Literal["symmetric", "asymmetric"],
        Key(since="0.7.0", until="0.19.6", wrong_type="rejected", means=_GRIDS),
    ] = "symmetric"
    """Symmetric: the range is centered at zero. Asymmetric: the range spans minimum to maximum."""
    quantize_weight_in_forward: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = False
    """Quantize in the forward pass instead of the optimizer step; required for fp32 training."""
    rounding: Annotated[
        Literal["nearest", "stochastic"],
        Key(
            since="0.7.0",
            until="0.19.6",
            wrong_type="rejected",
            means=(
                ("nearest", "to the nearest value"),
                ("stochastic", "stochastically: unbiased, noisier"),
            ),
        ),
    ] = "nearest"
    """Round to the nearest value, or stochastically, which is unbiased and noisier."""
    fp16_mixed_quantize: Annotated[MixedFp16, Key(since="0.7.0", until="0.19.6")] = Field(
        default_factory=MixedFp16
    )
    """Blend of fp16 and quantized weights."""


class WeightBits(Section):
    """Bit widths of a group of weights."""

    SOURCE = "compression/config.py:get_weight_quantization_different_groups"

    start_bits: Annotated[int, Key(since="0.7.0", until="0.19.6", unit="bits")]
    """Initial number of bits. DeepSpeed rejects the config without it."""
    target_bits: Annotated[int, Key(since="0.7.0", until="0.19.6", unit="bits")]
    """Final number of bits. DeepSpeed rejects the config without it."""
    quantization_period: Annotated[int, Key(since="0.7.0", until="0.19.6", unit="steps")] = 1
    """Steps between two reductions by one bit; a longer period loses less accuracy."""


class WeightGroup(CompressionGroup):
    """Modules whose weights are quantized with the same settings."""

    SOURCE = "compression/config.py:get_weight_quantization_different_groups"

    params: Annotated[WeightBits, Key(since="0.7.0", until="0.19.6")]
    """Start bits, target bits and period."""


class QuantizedWeights(Section):
    """Quantization of weights."""

    SOURCE = "compression/config.py:get_weight_quantization"

    shared_parameters: Annotated[
        WeightParameters,
        Key(
            since="0.7.0",
            until="0.19.6",
            source="compression/config.py:get_weight_quantization_shared_parameters",
        ),
    ] = Field(default_factory=WeightParameters)
    """Settings for all groups."""
    different_groups: Annotated[
        dict[str, WeightGroup], Key(since="0.7.0", until="0.19.6", wrong_type="rejected")
    ]
    """Groups of modules, under names of your choice. Required if the technique is present."""


class ActivationParameters(Section):
    """Settings for all groups of quantized activations."""

    SOURCE = "compression/config.py:get_activation_quantization_shared_parameters"

    enabled: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = False
    """Quantize activations."""
    quantization_type: Annotated[
        Literal["symmetric", "asymmetric"],
        Key(since="0.7.0", until="0.19.6", wrong_type="rejected", means=_GRIDS),
    ] = "symmetric"
    """Symmetric: the range is centered at zero. Asymmetric: the range spans minimum to maximum."""
    range_calibration: Annotated[
        Literal["dynamic", "static"],
        Key(
            since="0.7.0",
            until="0.19.6",
            wrong_type="rejected",
            means=(
                ("dynamic", "determined for each batch"),
                ("static", "recorded during training: faster, less exact"),
            ),
        ),
    ] = "dynamic"
    """Determine the range for each batch, or use one that was recorded during training: faster, less exact.
    """
    schedule_offset: Annotated[int, Key(since="0.7.0", until="0.19.6", unit="steps")] = 1000
    """Steps before quantization starts."""


class ActivationBits(Section):
    """Bit width of a group of activations."""

    SOURCE = "compression/config.py:get_activation_quantization_different_groups"

    bits: Annotated[int, Key(since="0.7.0", until="0.19.6", unit="bits")]
    """Number of bits of an activation. DeepSpeed rejects the config without it."""


class ActivationGroup(CompressionGroup):
    """Modules whose inputs are quantized with the same settings."""

    SOURCE = "compression/config.py:get_activation_quantization_different_groups"

    params: Annotated[ActivationBits, Key(since="0.7.0", until="0.19.6")]
    """Number of bits."""


class QuantizedActivations(Section):
    """Quantization of activations."""

    SOURCE = "compression/config.py:get_activation_quantization"

    shared_parameters: Annotated[
        ActivationParameters,
        Key(
            since="0.7.0",
            until="0.19.6",
            source="compression/config.py:get_activation_quantization_shared_parameters",
        ),
    ] = Field(default_factory=ActivationParameters)
    """Settings for all groups."""
    different_groups: Annotated[
        dict[str, ActivationGroup], Key(since="0.7.0", until="0.19.6", wrong_type="rejected")
    ]
    """Groups of modules, under names of your choice. Required if the technique is present."""


# Pruning of individual weights, rows, attention heads and channels during training.

_OpenFraction: TypeAlias = Annotated[float, Field(gt=0, lt=1)]
_Method: TypeAlias = Annotated[
    Literal["l1", "topk"],
    Key(
        since="0.7.0",
        until="0.19.6",
        wrong_type="rejected",
        means=(("l1", "by magnitude"), ("topk", "by a learned score")),
    ),
]


class _PruningParameters(Section):
    """Settings that all pruning techniques share."""

    enabled: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = False
    """Enable the technique; a group alone has no effect."""
    schedule_offset: Annotated[int, Key(since="0.7.0", until="0.19.6", unit="steps")] = 1000
    """Steps before pruning starts; training without it first loses less accuracy."""


class _PruningGroup(CompressionGroup):
    """Modules that are pruned with the same settings."""

    params: Annotated[DenseRatio, Key(since="0.7.0", until="0.19.6")]
    """Fraction that is kept."""


class SparsePruningParameters(_PruningParameters):
    """Settings for all groups of the pruning of individual weights."""

    SOURCE = "compression/config.py:get_sparse_pruning_shared_parameters"

    method: Annotated[
        Literal["l1", "topk", "snip_momentum"],
        Key(
            since="0.7.0",
            until="0.19.6",
            was=(EarlierType("0.9.2", Literal["l1", "topk"]),),
            wrong_type="rejected",
            means=(
                ("l1", "by magnitude"),
                ("topk", "by a learned score"),
                ("snip_momentum", "by SNIP scores; requires the package `neural_compressor`"),
            ),
        ),
    ] = "l1"
    """Rank weights by magnitude, by a learned score, or by SNIP scores, which require `neural_compressor`."""
    block_pattern: Annotated[str, Key(since="0.9.3", until="0.19.6")] = "4x1"
    """Pruning pattern: blocks (4x1) or N of M (2:4). For snip_momentum."""
    dense_ratio: Annotated[_OpenFraction, Key(since="0.9.3", until="0.19.6")] = 0.1
    """Fraction of weights that are kept. For snip_momentum, and validated only with it."""
    excluded_modules: Annotated[list[str], Key(since="0.9.3", until="0.19.6")] = Field(default=[])
    """Modules that are not pruned. For snip_momentum."""
    schedule_offset_end: Annotated[int, Key(since="0.9.3", until="0.19.6", unit="steps")] = ABSENT
    """Last pruning step, not before `schedule_offset`, which is the default. For snip_momentum."""
    schedule_offset_stride: Annotated[int, Key(since="0.9.3", until="0.19.6", unit="steps")] = 1
    """Steps between two prunings. For snip_momentum."""


class SparsePruningGroup(_PruningGroup):
    """Modules whose individual weights are pruned with the same settings."""

    SOURCE = "compression/config.py:get_sparse_pruning_different_groups"


class SparsePruning(Section):
    """Pruning of individual weights."""

    SOURCE = "compression/config.py:get_sparse_pruning"

    shared_parameters: Annotated[
        SparsePruningParameters,
        Key(
            since="0.7.0", until="0.19.6", source="compression/config.py:get_sparse_pruning_shared_parameters"
        ),
    ] = Field(default_factory=SparsePruningParameters)
    """Settings for all groups."""
    different_groups: Annotated[
        dict[str, SparsePruningGroup], Key(since="0.7.0", until="0.19.6", wrong_type="rejected")
    ]
    """Groups of modules, under names of your choice. Required if the technique is present."""


class RowPruningParameters(_PruningParameters):
    """Settings for all groups of row pruning."""

    SOURCE = "compression/config.py:get_row_pruning_shared_parameters"

    method: _Method = "l1"
    """Rank rows by magnitude, or by a learned score."""


class RowPruningGroup(_PruningGroup):
    """Modules whose rows are pruned with the same settings."""

    SOURCE = "compression/config.py:get_row_pruning_different_groups"


class RowPruning(Section):
    """Pruning of rows."""

    SOURCE = "compression/config.py:get_row_pruning"

    shared_parameters: Annotated[
        RowPruningParameters,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_row_pruning_shared_parameters"),
    ] = Field(default_factory=RowPruningParameters)
    """Settings for all groups."""
    different_groups: Annotated[
        dict[str, RowPruningGroup], Key(since="0.7.0", until="0.19.6", wrong_type="rejected")
    ]
    """Groups of modules, under names of your choice. Required if the technique is present."""


class HeadPruningParameters(_PruningParameters):
    """Settings for all groups of attention head pruning."""

    SOURCE = "compression/config.py:get_head_pruning_shared_parameters"

    method: _Method = "topk"
    """Ranking of heads; only topk, a learned score, is implemented."""
    num_heads: Annotated[int, Key(since="0.7.0", until="0.19.6")] = ABSENT
    """Number of attention heads of a layer. Required if the technique is enabled."""


class HeadPruningGroup(_PruningGroup):
    """Modules whose attention heads are pruned with the same settings."""

    SOURCE = "compression/config.py:get_head_pruning_different_groups"


class HeadPruning(Section):
    """Pruning of attention heads."""

    SOURCE = "compression/config.py:get_head_pruning"

    shared_parameters: Annotated[
        HeadPruningParameters,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_head_pruning_shared_parameters"),
    ] = Field(default_factory=HeadPruningParameters)
    """Settings for all groups."""
    different_groups: Annotated[
        dict[str, HeadPruningGroup], Key(since="0.7.0", until="0.19.6", wrong_type="rejected")
    ]
    """Groups of modules, under names of your choice. Required if the technique is present."""


class ChannelPruningParameters(_PruningParameters):
    """Settings for all groups of channel pruning."""

    SOURCE = "compression/config.py:get_channel_pruning_shared_parameters"

    method: _Method = "l1"
    """Rank channels by magnitude, or by a learned score."""


class ChannelPruningGroup(_PruningGroup):
    """Modules whose channels are pruned with the same settings."""

    SOURCE = "compression/config.py:get_channel_pruning_different_groups"


class ChannelPruning(Section):
    """Pruning of channels."""

    SOURCE = "compression/config.py:get_channel_pruning"

    shared_parameters: Annotated[
        ChannelPruningParameters,
        Key(
            since="0.7.0",
            until="0.19.6",
            source="compression/config.py:get_channel_pruning_shared_parameters",
        ),
    ] = Field(default_factory=ChannelPruningParameters)
    """Settings for all groups."""
    different_groups: Annotated[
        dict[str, ChannelPruningGroup], Key(since="0.7.0", until="0.19.6", wrong_type="rejected")
    ]
    """Groups of modules, under names of your choice. Required if the technique is present."""


# Layer reduction: knowledge distillation with a student initialized from layers of its teacher.


class LayerReduction(Section):
    """Layer reduction, used if `init_compression` receives a teacher model; all keys are then required."""

    SOURCE = "compression/compress.py:student_initialization"
    READS = (SectionReading("hand", since="0.7.0", unknown="kept"),)

    enabled: Annotated[
        bool,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_layer_reduction_enabled"),
    ] = False
    """Copy layers of the teacher into the student."""
    keep_number_layer: Annotated[
        int,
        Key(since="0.7.0", until="0.19.6", unread=True, source="compression/constants.py:KEEP_NUMBER_LAYER"),
    ] = ABSENT
    """Number of layers of the student. Informative only: DeepSpeed uses the length of `teacher_layer`."""
    module_name_prefix: Annotated[str, Key(since="0.7.0", until="0.19.6")] = ABSENT
    """Attribute path of the list of layers, the same in both models."""
    teacher_layer: Annotated[list[int], Key(since="0.7.0", until="0.19.6")] = ABSENT
    """Indices of the teacher's layers that initialize the student's layers, in this order."""
    other_module_name: Annotated[list[str], Key(since="0.7.0", until="0.19.6")] = ABSENT
    """Other modules to copy, such as embeddings and the classifier."""


# Compression during training, driven by `deepspeed.compression.init_compression`; DeepSpeed rejects it from 0.19.7 on.


class CompressionTraining(Section):
    """Compression techniques, each of which can be enabled separately."""

    SOURCE = "compression/config.py:get_compression_config"

    weight_quantization: Annotated[
        QuantizedWeights,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_weight_quantization"),
    ] = Field(default_factory=QuantizedWeights.absent)
    """Weight quantization, from many bits to few."""
    activation_quantization: Annotated[
        QuantizedActivations,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_activation_quantization"),
    ] = Field(default_factory=QuantizedActivations.absent)
    """Quantize activations."""
    sparse_pruning: Annotated[
        SparsePruning,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_sparse_pruning"),
    ] = Field(default_factory=SparsePruning.absent)
    """Set individual weights to zero: the highest compression, but only special kernels become faster."""
    row_pruning: Annotated[
        RowPruning,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_row_pruning"),
    ] = Field(default_factory=RowPruning.absent)
    """Prune rows of weight matrices."""
    head_pruning: Annotated[
        HeadPruning,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_head_pruning"),
    ] = Field(default_factory=HeadPruning.absent)
    """Prune attention heads."""
    channel_pruning: Annotated[
        ChannelPruning,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_channel_pruning"),
    ] = Field(default_factory=ChannelPruning.absent)
    """Prune channels of convolutions."""
    layer_reduction: Annotated[
        LayerReduction,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_layer_reduction_enabled"),
    ] = Field(default_factory=LayerReduction)
    """Initialize a shallow student from layers of a deep teacher."""


class CompressionRootKeys(RootKeys):
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
    """Pruning and quantization during training."""
