"""Quantization: MoQ during training (superseded by compression), and weight-only for ZeRO-Inference."""

from typing import Annotated, Literal

from pydantic import Field

from dsconfig.model.key import ANY_SHAPE, ANYTHING, Key, NonObjectValues, SectionReading
from dsconfig.model.section import ABSENT, FreeForm, RootKeys, Section, TypeCheckedByDeepSpeed

_MOQ = (("0.4.0", "0.6.7"), ("0.19.3", "0.19.6"))

_GRIDS = (("symmetric", "range centered at zero"), ("asymmetric", "range from minimum to maximum"))


class Eigenvalue(Section):
    """Curvature of each layer by power iteration; layers with small eigenvalues are quantized faster.

    Releases 0.19.3 to 0.19.6 read the section again, but `enabled` then fails with an AssertionError.
    """

    SOURCE = "runtime/config.py:get_eigenvalue_config"

    enabled: Annotated[
        bool,
        Key(since="0.4.0", until="0.19.6", spans=_MOQ, source="runtime/config.py:get_eigenvalue_enabled"),
    ] = False
    """Compute eigenvalues; slow, and rejected by most releases."""
    verbose: Annotated[
        bool,
        Key(since="0.4.0", until="0.19.6", spans=_MOQ, source="runtime/config.py:get_eigenvalue_verbose"),
    ] = False
    """Log every step of the power iteration."""
    max_iter: Annotated[
        int,
        Key(since="0.4.0", until="0.19.6", spans=_MOQ, source="runtime/config.py:get_eigenvalue_max_iter"),
    ] = 100
    """Maximum number of iterations per layer; more are slower and more exact."""
    tol: Annotated[
        float,
        Key(since="0.4.0", until="0.19.6", spans=_MOQ, source="runtime/config.py:get_eigenvalue_tol"),
    ] = 1e-2
    """Relative change at which the iteration stops."""
    stability: Annotated[
        float,
        Key(since="0.4.0", until="0.19.6", spans=_MOQ, source="runtime/config.py:get_eigenvalue_stability"),
    ] = 1e-6
    """Small constant for numerical stability of divisions."""
    gas_boundary_resolution: Annotated[
        int,
        Key(
            since="0.4.0",
            until="0.19.6",
            spans=_MOQ,
            unit="steps",
            source="runtime/config.py:get_eigenvalue_gas_boundary_resolution",
        ),
    ] = 1
    """Optimizer steps between two computations."""
    layer_name: Annotated[
        str,
        Key(since="0.4.0", until="0.19.6", spans=_MOQ, source="runtime/config.py:get_eigenvalue_layer_name"),
    ] = "bert.encoder.layer"
    """Attribute path of the list of layers in the model."""
    layer_num: Annotated[
        int,
        Key(since="0.4.0", until="0.19.6", spans=_MOQ, source="runtime/config.py:get_eigenvalue_layer_num"),
    ] = 0
    """Number of layers in that list."""


class QuantizeBits(Section):
    """Initial and final bit width."""

    SOURCE = "runtime/config.py:get_quantize_training"

    start_bits: Annotated[int, Key(since="0.4.0", until="0.6.7", unit="bits")] = 16
    """Initial number of bits."""
    target_bits: Annotated[int, Key(since="0.4.0", until="0.6.7", unit="bits")]
    """Final number of bits. DeepSpeed rejects the config without it; the default 8 applies only if the whole
    section is absent."""


class QuantizeSchedule(Section):
    """Schedule by which the bit width decreases."""

    SOURCE = "runtime/config.py:get_quantize_training"

    quantize_period: Annotated[int, Key(since="0.4.0", until="0.6.7", unit="steps")]
    """Steps between two reductions by one bit. Required in this section; without the section it is 1000."""
    schedule_offset: Annotated[int, Key(since="0.4.0", until="0.6.7", unit="steps")] = 1000
    """Steps before quantization starts."""


class QuantizeAlgo(Section):
    """How values are quantized and rounded."""

    SOURCE = "runtime/config.py:get_quantize_training"

    q_type: Annotated[
        Literal["symmetric", "asymmetric"],
        Key(
            since="0.4.0",
            until="0.6.7",
            wrong_type="altered",
            means=_GRIDS,
            miswritten=("quantize_training.quantize_type",),
        ),
    ] = "symmetric"
    """Symmetric: the range is centered at zero. Asymmetric: the range spans minimum to maximum. Any other
    value means symmetric."""
    rounding: Annotated[
        Literal["nearest", "stochastic"],
        Key(
            since="0.4.0",
            until="0.6.7",
            wrong_type="altered",
            means=(
                ("nearest", "to the nearest value"),
                ("stochastic", "stochastically: unbiased, noisier"),
            ),
        ),
    ] = "nearest"
    """Round to the nearest value or stochastically. Any other value means nearest."""


class Fp16MixedQuantize(Section):
    """Mixture of fp16 and quantized weights that gradually shifts to the quantized ones."""

    SOURCE = "runtime/config.py:get_quantize_training"

    enabled: Annotated[bool, Key(since="0.4.0", until="0.6.7")] = False
    """Blend fp16 and quantized weights instead of switching at once."""
    quantize_change_ratio: Annotated[float, Key(since="0.4.0", until="0.6.7")] = 0.001
    """Fraction by which the share of the quantized weights grows at each step."""


class QuantizeTraining(Section):
    """Mixture of Quantization, up to 0.6.7; `compression_training` replaces it since 0.7.0."""

    SOURCE = "runtime/config.py:get_quantize_training"

    enabled: Annotated[
        bool, Key(since="0.4.0", until="0.6.7", source="runtime/config.py:get_quantize_enabled")
    ] = False
    """Quantize weights during training."""
    quantize_verbose: Annotated[bool, Key(since="0.4.0", until="0.6.7")] = False
    """Log every change of the number of bits."""
    quantizer_kernel: Annotated[bool, Key(since="0.4.0", until="0.6.7")] = False
    """Quantize with the CUDA kernel."""
    quantize_groups: Annotated[int, Key(since="0.4.0", until="0.6.7")] = 1
    """Number of groups of a weight matrix that have separate scales; more groups are more exact and cost
    more."""
    quantize_bits: Annotated[QuantizeBits, Key(since="0.4.0", until="0.6.7")]
    """Initial and final number of bits. DeepSpeed rejects the config without it."""
    quantize_schedule: Annotated[QuantizeSchedule, Key(since="0.4.0", until="0.6.7")] = Field(
        default_factory=QuantizeSchedule.absent
    )
    """When the number of bits decreases."""
    quantize_algo: Annotated[
        QuantizeAlgo,
        Key(since="0.4.0", until="0.6.7", miswritten=("quantize_training.quantize-algo",)),
    ] = Field(default_factory=QuantizeAlgo)
    """How values are quantized and rounded."""
    fp16_mixed_quantize: Annotated[Fp16MixedQuantize, Key(since="0.4.0", until="0.6.7")] = Field(
        default_factory=Fp16MixedQuantize
    )
    """Blend of fp16 and quantized weights."""
    eigenvalue: Annotated[
        Eigenvalue,
        Key(
            since="0.4.0",
            until="0.19.6",
            spans=_MOQ,
            source="runtime/config.py:get_eigenvalue_config",
            miswritten=("quantize_training.quantize_eigenvalue",),
            takes=(ANYTHING,),
        ),
    ] = Field(default_factory=Eigenvalue)
    """Curvature that determines the quantization schedule of each layer. Read only if `enabled` is true."""


class GroupQuantization(Section):
    """Asymmetric quantization of a weight in groups. All four keys are required if weights are quantized."""

    SOURCE = "inference/quantization/utils.py:Quantizer"
    READS = (SectionReading("hand", since="0.10.3", unknown="kept"),)

    num_bits: Annotated[
        Literal[4, 8],
        Key(
            since="0.10.3",
            unit="bits",
            means=(
                (4, "half the memory of 8 bits, less exact"),
                (8, "the usual number of bits"),
            ),
        ),
    ] = ABSENT
    """Bits per weight: 4 needs half the memory of 8 and loses more accuracy."""
    group_size: Annotated[int, Key(since="0.10.3", unit="elements")] = ABSENT
    """Elements that share a scale; must divide the size along `group_dim`. Smaller groups are more exact."""
    group_dim: Annotated[int, Key(since="0.10.3")] = ABSENT
    """Dimension that is divided into groups."""
    symmetric: Annotated[
        Literal[False], Key(since="0.10.3", means=((False, "range from minimum to maximum"),))
    ] = ABSENT
    """Only false is supported."""


class WeightQuantization(Section):
    """Weight-only quantization of a model for ZeRO-Inference."""

    SOURCE = "inference/config.py:WeightQuantConfig"
    READS = (SectionReading("pydantic", since="0.10.3", unknown="rejected", drops_auto=True),)

    enabled: Annotated[bool, Key(since="0.10.3", unread=True)] = True
    """Inherited from a shared class, without effect here: quantization is enabled by
    `quantized_initialization` or `post_init_quant`."""
    num_bits: Annotated[
        int,
        Key(
            since="0.10.3",
            unit="bits",
            unread=True,
            source="inference/config.py:BaseQuantConfig.num_bits",
            means=((8, "the usual number of bits"),),
        ),
    ] = 8
    """Inherited from a shared class, without effect here: each group has a `num_bits` of its own."""
    q_type: Annotated[
        Literal["symmetric", "asymmetric"],
        Key(since="0.10.3", unread=True, source="inference/config.py:BaseQuantConfig.q_type", means=_GRIDS),
    ] = "symmetric"
    """Inherited from a shared class, without effect here: only asymmetric quantization is supported."""
    q_groups: Annotated[
        int, Key(since="0.10.3", unread=True, source="inference/config.py:BaseQuantConfig.q_groups")
    ] = 1
    """Inherited from a shared class, without effect here: each group has a `group_size`."""
    quantized_initialization: Annotated[GroupQuantization, Key(since="0.10.3")] = Field(
        default_factory=GroupQuantization
    )
    """Quantize weights while the model is built under `zero.Init`, so that it never exists in full precision.
    """
    post_init_quant: Annotated[
        dict[str, GroupQuantization],
        TypeCheckedByDeepSpeed(("map", ("union", ("section", "GroupQuantization"), ("any",)))),
        Key(since="0.10.3"),
    ] = Field(default={})
    """Quantize an existing model; keys are parts of module names."""


class QuantizationRootKeys(RootKeys):
    """Root keys about quantization."""

    quantize_training: Annotated[
        QuantizeTraining,
        Key(
            since="0.4.0",
            until="0.19.6",
            spans=(("0.4.0", "0.6.7"), ("0.19.3", "0.19.6")),
            refused_from="0.19.7",
            source="runtime/config.py:get_eigenvalue_config",
            replaced_by="compression_training.weight_quantization",
            complete=True,
            takes=(NonObjectValues(ANY_SHAPE, since="0.19.3", until="0.19.6"),),
        ),
    ] = Field(default_factory=QuantizeTraining.absent)
    """Quantization during training (MoQ, Mixture of Quantization)."""
    eigenvalue: Annotated[
        FreeForm | None,
        TypeCheckedByDeepSpeed(("any",)),
        Key(
            since="0.3.1",
            until="0.19.7",
            refused_from="0.19.8",
            unread=True,
            source="runtime/config.py:_reject_removed_config_keys",
        ),
    ] = ABSENT
    """No release reads the key here; the section belongs in `quantize_training`. Some releases reject it by
    name."""
    weight_quantization: Annotated[
        WeightQuantization,
        Key(since="0.10.3", source="runtime/config.py:DeepSpeedConfig._initialize_params"),
    ] = Field(default_factory=WeightQuantization)
    """Weight quantization for ZeRO-Inference."""
