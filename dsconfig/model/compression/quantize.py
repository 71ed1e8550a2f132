"""Quantisation of weights and activations while training."""

from typing import Annotated, Literal

from pydantic import Field

from dsconfig.model.compression.groups import Group
from dsconfig.model.key import Key
from dsconfig.model.section import Section

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
