"""Compression while training with `deepspeed.compression.init_compression`, up to 0.19.6."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from dsconfig.model.annotations import ABSENT, Fraction
from dsconfig.model.key import SCRIPT, Key, Reads, Was
from dsconfig.model.section import RootKeys, Section

# What the groups of every compression technique share.


class Group(Section):
    """Modules that are compressed alike; each technique adds its `params`."""

    modules: Annotated[list[str] | str, Key(since="0.7.0", until="0.19.6")] = "*"
    """Regular expressions for the names of the modules; the default takes all."""
    related_modules: Annotated[list[list[str]] | None, Key(since="0.7.0", until="0.19.6")] = None
    """For each of `modules`, those that must shrink with it because they share a dimension."""


class DenseRatio(Section):
    """Parameters of a pruned group."""

    SOURCE = "compression/config.py:get_params"

    dense_ratio: Annotated[Fraction, Key(since="0.7.0", until="0.19.6")]
    """Share of weights that stay; 0.1 removes nine tenths. The config is refused without it."""


# Quantisation of weights and activations while training.

_GRIDS = (("symmetric", "a grid around zero"), ("asymmetric", "a grid between the extremes"))


class MixedFp16(Section):
    """Blend of fp16 and quantised weights that moves towards the quantised ones."""

    SOURCE = "compression/config.py:get_weight_quantization_shared_parameters"

    enabled: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = False
    """Blend instead of switching at once."""
    quantize_change_ratio: Annotated[float, Key(since="0.7.0", until="0.19.6")] = 0.001
    """Share by which the quantised weights gain at each step."""


class WeightParameters(Section):
    """Settings for all groups of quantised weights."""

    SOURCE = "compression/config.py:get_weight_quantization_shared_parameters"

    enabled: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = False
    """Quantise weights."""
    quantizer_kernel: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = False
    """Quantise with the CUDA kernel; only with the fp16 optimizer."""
    schedule_offset: Annotated[int, Key(since="0.7.0", until="0.19.6", unit="steps")] = 0
    """Steps before quantisation begins; a model that trained first loses less."""
    quantize_groups: Annotated[int, Key(since="0.7.0", until="0.19.6")] = 1
    """Groups of a weight matrix with scales of their own; more are more exact and cost more."""
    quantize_verbose: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = False
    """Log what is quantised."""
    quantization_type: Annotated[
        Literal["symmetric", "asymmetric"],
        Key(since="0.7.0", until="0.19.6", wrong_type="rejected", means=_GRIDS),
    ] = "symmetric"
    """Grid around zero, or between the extremes."""
    quantize_weight_in_forward: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = False
    """Quantise in the forward pass rather than in the optimizer step; fp32 training needs it."""
    rounding: Annotated[
        Literal["nearest", "stochastic"],
        Key(
            since="0.7.0",
            until="0.19.6",
            wrong_type="rejected",
            means=(
                ("nearest", "to the nearest value"),
                ("stochastic", "by chance: unbiased, noisier"),
            ),
        ),
    ] = "nearest"
    """Round to the nearest value, or by chance, which is unbiased and noisier."""
    fp16_mixed_quantize: Annotated[MixedFp16, Key(since="0.7.0", until="0.19.6")] = Field(
        default_factory=MixedFp16
    )
    """Blend of fp16 and quantised weights."""


class WeightBits(Section):
    """Widths of a group of weights."""

    SOURCE = "compression/config.py:get_weight_quantization_different_groups"

    start_bits: Annotated[int, Key(since="0.7.0", until="0.19.6", unit="bits")]
    """Width to start with. The config is refused without it."""
    target_bits: Annotated[int, Key(since="0.7.0", until="0.19.6", unit="bits")]
    """Width to end with. The config is refused without it."""
    quantization_period: Annotated[int, Key(since="0.7.0", until="0.19.6", unit="steps")] = 1
    """Steps until the next bit goes; a slow descent loses less."""


class WeightGroup(Group):
    """Modules whose weights are quantised alike."""

    SOURCE = "compression/config.py:get_weight_quantization_different_groups"

    params: Annotated[WeightBits, Key(since="0.7.0", until="0.19.6")]
    """From how many bits to how many, and how fast."""


class QuantizedWeights(Section):
    """Quantisation of weights."""

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
    """Groups of modules, under names of your choice. Needed whenever the technique is mentioned."""


class ActivationParameters(Section):
    """Settings for all groups of quantised activations."""

    SOURCE = "compression/config.py:get_activation_quantization_shared_parameters"

    enabled: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = False
    """Quantise activations."""
    quantization_type: Annotated[
        Literal["symmetric", "asymmetric"],
        Key(since="0.7.0", until="0.19.6", wrong_type="rejected", means=_GRIDS),
    ] = "symmetric"
    """Grid around zero, or between the extremes."""
    range_calibration: Annotated[
        Literal["dynamic", "static"],
        Key(
            since="0.7.0",
            until="0.19.6",
            wrong_type="rejected",
            means=(
                ("dynamic", "found for each batch"),
                ("static", "found while training, and kept: faster, less exact"),
            ),
        ),
    ] = "dynamic"
    """Find the range for each batch, or keep one that training found: faster, less exact."""
    schedule_offset: Annotated[int, Key(since="0.7.0", until="0.19.6", unit="steps")] = 1000
    """Steps before quantisation begins."""


class ActivationBits(Section):
    """Width of a group of activations."""

    SOURCE = "compression/config.py:get_activation_quantization_different_groups"

    bits: Annotated[int, Key(since="0.7.0", until="0.19.6", unit="bits")]
    """Width of an activation. The config is refused without it."""


class ActivationGroup(Group):
    """Modules whose inputs are quantised alike."""

    SOURCE = "compression/config.py:get_activation_quantization_different_groups"

    params: Annotated[ActivationBits, Key(since="0.7.0", until="0.19.6")]
    """How many bits."""


class QuantizedActivations(Section):
    """Quantisation of activations."""

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
    """Groups of modules, under names of your choice. Needed whenever the technique is mentioned."""


# Pruning of single weights, rows, attention heads and channels while training.

_OpenFraction: TypeAlias = Annotated[float, Field(gt=0, lt=1)]
_Method: TypeAlias = Annotated[
    Literal["l1", "topk"],
    Key(
        since="0.7.0",
        until="0.19.6",
        wrong_type="rejected",
        means=(("l1", "by size"), ("topk", "by a learned score")),
    ),
]


class _Parameters(Section):
    """What the settings of every pruning technique share."""

    enabled: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = False
    """Switch the technique on; a group alone does nothing."""
    schedule_offset: Annotated[int, Key(since="0.7.0", until="0.19.6", unit="steps")] = 1000
    """Steps before pruning begins; a model that trained first loses less."""


class _PrunedGroup(Group):
    """Modules that are pruned alike."""

    params: Annotated[DenseRatio, Key(since="0.7.0", until="0.19.6")]
    """How much stays."""


class SparseParameters(_Parameters):
    """Settings for all groups of single weights."""

    SOURCE = "compression/config.py:get_sparse_pruning_shared_parameters"

    method: Annotated[
        Literal["l1", "topk", "snip_momentum"],
        Key(
            since="0.7.0",
            until="0.19.6",
            was=(Was("0.9.2", Literal["l1", "topk"]),),
            wrong_type="rejected",
            means=(
                ("l1", "by size"),
                ("topk", "by a learned score"),
                ("snip_momentum", "by SNIP scores; needs the package `neural_compressor`"),
            ),
        ),
    ] = "l1"
    """Rank weights by size, by a learned score, or by SNIP scores, which needs `neural_compressor`."""
    block_pattern: Annotated[str, Key(since="0.9.3", until="0.19.6")] = "4x1"
    """Shape of what is pruned together, as blocks (4x1) or N of M (2:4). For snip_momentum."""
    dense_ratio: Annotated[_OpenFraction, Key(since="0.9.3", until="0.19.6")] = 0.1
    """Share of weights that stay. For snip_momentum, and checked only with it."""
    excluded_modules: Annotated[list[str], Key(since="0.9.3", until="0.19.6")] = Field(default=[])
    """Modules to leave alone. For snip_momentum."""
    schedule_offset_end: Annotated[int, Key(since="0.9.3", until="0.19.6", unit="steps")] = ABSENT
    """Last pruning step, not before `schedule_offset`, which is also its default. For snip_momentum."""
    schedule_offset_stride: Annotated[int, Key(since="0.9.3", until="0.19.6", unit="steps")] = 1
    """Steps from one pruning to the next. For snip_momentum."""


class SparseGroup(_PrunedGroup):
    """Modules whose single weights are pruned alike."""

    SOURCE = "compression/config.py:get_sparse_pruning_different_groups"


class SparsePruning(Section):
    """Pruning of single weights."""

    SOURCE = "compression/config.py:get_sparse_pruning"

    shared_parameters: Annotated[
        SparseParameters,
        Key(
            since="0.7.0", until="0.19.6", source="compression/config.py:get_sparse_pruning_shared_parameters"
        ),
    ] = Field(default_factory=SparseParameters)
    """Settings for all groups."""
    different_groups: Annotated[
        dict[str, SparseGroup], Key(since="0.7.0", until="0.19.6", wrong_type="rejected")
    ]
    """Groups of modules, under names of your choice. Needed whenever the technique is mentioned."""


class RowParameters(_Parameters):
    """Settings for all groups of rows."""

    SOURCE = "compression/config.py:get_row_pruning_shared_parameters"

    method: _Method = "l1"
    """Rank rows by size, or by a learned score."""


class RowGroup(_PrunedGroup):
    """Modules whose rows are pruned alike."""

    SOURCE = "compression/config.py:get_row_pruning_different_groups"


class RowPruning(Section):
    """Pruning of rows."""

    SOURCE = "compression/config.py:get_row_pruning"

    shared_parameters: Annotated[
        RowParameters,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_row_pruning_shared_parameters"),
    ] = Field(default_factory=RowParameters)
    """Settings for all groups."""
    different_groups: Annotated[
        dict[str, RowGroup], Key(since="0.7.0", until="0.19.6", wrong_type="rejected")
    ]
    """Groups of modules, under names of your choice. Needed whenever the technique is mentioned."""


class HeadParameters(_Parameters):
    """Settings for all groups of attention heads."""

    SOURCE = "compression/config.py:get_head_pruning_shared_parameters"

    method: _Method = "topk"
    """Ranking of heads; only topk, a learned score, is implemented."""
    num_heads: Annotated[int, Key(since="0.7.0", until="0.19.6")] = ABSENT
    """Attention heads of a layer. Must be given when the technique is on."""


class HeadGroup(_PrunedGroup):
    """Modules whose attention heads are pruned alike."""

    SOURCE = "compression/config.py:get_head_pruning_different_groups"


class HeadPruning(Section):
    """Pruning of attention heads."""

    SOURCE = "compression/config.py:get_head_pruning"

    shared_parameters: Annotated[
        HeadParameters,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_head_pruning_shared_parameters"),
    ] = Field(default_factory=HeadParameters)
    """Settings for all groups."""
    different_groups: Annotated[
        dict[str, HeadGroup], Key(since="0.7.0", until="0.19.6", wrong_type="rejected")
    ]
    """Groups of modules, under names of your choice. Needed whenever the technique is mentioned."""


class ChannelParameters(_Parameters):
    """Settings for all groups of channels."""

    SOURCE = "compression/config.py:get_channel_pruning_shared_parameters"

    method: _Method = "l1"
    """Rank channels by size, or by a learned score."""


class ChannelGroup(_PrunedGroup):
    """Modules whose channels are pruned alike."""

    SOURCE = "compression/config.py:get_channel_pruning_different_groups"


class ChannelPruning(Section):
    """Pruning of channels."""

    SOURCE = "compression/config.py:get_channel_pruning"

    shared_parameters: Annotated[
        ChannelParameters,
        Key(
            since="0.7.0",
            until="0.19.6",
            source="compression/config.py:get_channel_pruning_shared_parameters",
        ),
    ] = Field(default_factory=ChannelParameters)
    """Settings for all groups."""
    different_groups: Annotated[
        dict[str, ChannelGroup], Key(since="0.7.0", until="0.19.6", wrong_type="rejected")
    ]
    """Groups of modules, under names of your choice. Needed whenever the technique is mentioned."""


# Layer reduction: knowledge distillation with a student cut from its teacher.


class LayerReduction(Section):
    """Used when `init_compression` is given a teacher model; the keys are then needed."""

    SOURCE = "compression/compress.py:student_initialization"
    READS = (Reads("hand", since="0.7.0", unknown="kept"),)

    enabled: Annotated[
        bool, Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_layer_reduction_enabled")
    ] = False
    """Copy layers of the teacher into the student."""
    keep_number_layer: Annotated[
        int,
        Key(since="0.7.0", until="0.19.6", unread=True, source="compression/constants.py:KEEP_NUMBER_LAYER"),
    ] = ABSENT
    """Layers of the student; for the reader only, the length of `teacher_layer` counts."""
    module_name_prefix: Annotated[str, Key(since="0.7.0", until="0.19.6")] = ABSENT
    """Attribute path of the list of layers, the same in both models."""
    teacher_layer: Annotated[list[int], Key(since="0.7.0", until="0.19.6")] = ABSENT
    """Layers of the teacher, by index, that become the student's in this order."""
    other_module_name: Annotated[list[str], Key(since="0.7.0", until="0.19.6")] = ABSENT
    """Further modules to copy, such as embeddings and the classifier."""


# Compression while training, driven by `deepspeed.compression.init_compression`; refused from 0.19.7 on.


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
