"""Quantisation: MoQ while training (superseded by compression), and weight-only for ZeRO-Inference."""

from typing import Annotated, Literal

from pydantic import Field

from dsconfig.model.annotations import ABSENT, Checked, FreeForm
from dsconfig.model.key import ANY_SHAPE, ANYTHING, Key, Reads, Takes
from dsconfig.model.section import RootKeys, Section

_MOQ = (("0.4.0", "0.6.7"), ("0.19.3", "0.19.6"))

_GRIDS = (("symmetric", "a grid around zero"), ("asymmetric", "a grid between the extremes"))


class Eigenvalue(Section):
    """Curvature of each layer by power iteration: layers with small eigenvalues are quantised faster.

    From 0.19.3 to 0.19.6 the section is nominally read again, but switching it on there ends in an assertion.
    """

    SOURCE = "runtime/config.py:get_eigenvalue_config"

    enabled: Annotated[
        bool,
        Key(since="0.4.0", until="0.19.6", spans=_MOQ, source="runtime/config.py:get_eigenvalue_enabled"),
    ] = False
    """Compute eigenvalues; slow, and refused in most releases."""
    verbose: Annotated[
        bool,
        Key(since="0.4.0", until="0.19.6", spans=_MOQ, source="runtime/config.py:get_eigenvalue_verbose"),
    ] = False
    """Log every step of the power iteration."""
    max_iter: Annotated[
        int,
        Key(since="0.4.0", until="0.19.6", spans=_MOQ, source="runtime/config.py:get_eigenvalue_max_iter"),
    ] = 100
    """Most iterations for one layer; more take longer and find the value better."""
    tol: Annotated[
        float,
        Key(since="0.4.0", until="0.19.6", spans=_MOQ, source="runtime/config.py:get_eigenvalue_tol"),
    ] = 1e-2
    """Relative change at which the iteration ends."""
    stability: Annotated[
        float,
        Key(since="0.4.0", until="0.19.6", spans=_MOQ, source="runtime/config.py:get_eigenvalue_stability"),
    ] = 1e-6
    """Small constant that keeps divisions stable."""
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
    """Compute again every so many optimizer steps."""
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
    """From how many bits to how many."""

    SOURCE = "runtime/config.py:get_quantize_training"

    start_bits: Annotated[int, Key(since="0.4.0", until="0.6.7", unit="bits")] = 16
    """Width to start with."""
    target_bits: Annotated[int, Key(since="0.4.0", until="0.6.7", unit="bits")]
    """Width to end with. The config is refused without it; 8 holds only while the whole section is absent."""


class QuantizeSchedule(Section):
    """When the width shrinks."""

    SOURCE = "runtime/config.py:get_quantize_training"

    quantize_period: Annotated[int, Key(since="0.4.0", until="0.6.7", unit="steps")]
    """Steps until the next bit goes. Must be given in this section; without the section it is 1000."""
    schedule_offset: Annotated[int, Key(since="0.4.0", until="0.6.7", unit="steps")] = 1000
    """Steps before quantisation begins."""


class QuantizeAlgo(Section):
    """How values are rounded to the grid."""

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
    """Grid around zero, or between the extremes. Any other word counts as symmetric."""
    rounding: Annotated[
        Literal["nearest", "stochastic"],
        Key(
            since="0.4.0",
            until="0.6.7",
            wrong_type="altered",
            means=(
                ("nearest", "to the nearest value"),
                ("stochastic", "by chance: unbiased, noisier"),
            ),
        ),
    ] = "nearest"
    """Round to the nearest value or by chance. Any other word counts as nearest."""


class Fp16MixedQuantize(Section):
    """Blend of fp16 and quantised weights that moves towards the quantised ones."""

    SOURCE = "runtime/config.py:get_quantize_training"

    enabled: Annotated[bool, Key(since="0.4.0", until="0.6.7")] = False
    """Blend instead of switching at once."""
    quantize_change_ratio: Annotated[float, Key(since="0.4.0", until="0.6.7")] = 0.001
    """Share by which the quantised weights gain at each step."""


class QuantizeTraining(Section):
    """Mixture of Quantization, up to 0.6.7. From 0.7.0 `compression_training` does this."""

    SOURCE = "runtime/config.py:get_quantize_training"

    enabled: Annotated[
        bool, Key(since="0.4.0", until="0.6.7", source="runtime/config.py:get_quantize_enabled")
    ] = False
    """Quantise weights while training."""
    quantize_verbose: Annotated[bool, Key(since="0.4.0", until="0.6.7")] = False
    """Log every change of width."""
    quantizer_kernel: Annotated[bool, Key(since="0.4.0", until="0.6.7")] = False
    """Quantise with the CUDA kernel."""
    quantize_groups: Annotated[int, Key(since="0.4.0", until="0.6.7")] = 1
    """Groups of a weight matrix with scales of their own; more are more exact and cost more."""
    quantize_bits: Annotated[QuantizeBits, Key(since="0.4.0", until="0.6.7")]
    """Range of widths. The config is refused without it."""
    quantize_schedule: Annotated[QuantizeSchedule, Key(since="0.4.0", until="0.6.7")] = Field(
        default_factory=QuantizeSchedule.absent
    )
    """When the width shrinks."""
    quantize_algo: Annotated[
        QuantizeAlgo, Key(since="0.4.0", until="0.6.7", miswritten=("quantize_training.quantize-algo",))
    ] = Field(default_factory=QuantizeAlgo)
    """How values are rounded to the grid."""
    fp16_mixed_quantize: Annotated[Fp16MixedQuantize, Key(since="0.4.0", until="0.6.7")] = Field(
        default_factory=Fp16MixedQuantize
    )
    """Blend of fp16 and quantised weights."""
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
    """Curvature that sets the pace of each layer. Opened only where `enabled` is true."""


class GroupQuantization(Section):
    """Asymmetric quantisation of a weight in groups. All four keys are needed once weights are quantised."""

    SOURCE = "inference/quantization/utils.py:Quantizer"
    READS = (Reads("hand", since="0.10.3", unknown="kept"),)

    num_bits: Annotated[
        Literal[4, 8],
        Key(
            since="0.10.3",
            unit="bits",
            means=(
                (4, "half the memory of 8, less exact"),
                (8, "the usual width"),
            ),
        ),
    ] = ABSENT
    """Width of a weight: 4 halves the memory of 8 and loses more."""
    group_size: Annotated[int, Key(since="0.10.3", unit="elements")] = ABSENT
    """Elements that share a scale; must divide the size along `group_dim`. Fewer are more exact."""
    group_dim: Annotated[int, Key(since="0.10.3")] = ABSENT
    """Dimension that is cut into groups."""
    symmetric: Annotated[
        Literal[False], Key(since="0.10.3", means=((False, "a grid between the extremes"),))
    ] = ABSENT
    """Only false is supported."""


class WeightQuantization(Section):
    """Weight-only quantisation of a model that is served with ZeRO-Inference."""

    SOURCE = "inference/config.py:WeightQuantConfig"
    READS = (Reads("pydantic", since="0.10.3", unknown="rejected", drops_auto=True),)

    enabled: Annotated[bool, Key(since="0.10.3", unread=True)] = True
    """Inherited from a shared model; what counts is which of the two sections below is filled."""
    num_bits: Annotated[
        int,
        Key(
            since="0.10.3",
            unit="bits",
            unread=True,
            source="inference/config.py:BaseQuantConfig.num_bits",
            means=((8, "the usual width"),),
        ),
    ] = 8
    """Inherited from a shared model; the width of each group section counts."""
    q_type: Annotated[
        Literal["symmetric", "asymmetric"],
        Key(since="0.10.3", unread=True, source="inference/config.py:BaseQuantConfig.q_type", means=_GRIDS),
    ] = "symmetric"
    """Inherited from a shared model, and not read: only asymmetric groups are supported."""
    q_groups: Annotated[
        int, Key(since="0.10.3", unread=True, source="inference/config.py:BaseQuantConfig.q_groups")
    ] = 1
    """Inherited from a shared model, and not read: `group_size` of each section below counts."""
    quantized_initialization: Annotated[GroupQuantization, Key(since="0.10.3")] = Field(
        default_factory=GroupQuantization
    )
    """Quantise weights while the model is built under zero.Init, so that it never stands in full width."""
    post_init_quant: Annotated[
        dict[str, GroupQuantization],
        Checked(("map", ("union", ("section", "GroupQuantization"), ("any",)))),
        Key(since="0.10.3"),
    ] = Field(default={})
    """Quantise a finished model, by part of a module's name."""


class QuantizationKeys(RootKeys):
    """Root keys about quantisation."""

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
            takes=(Takes(ANY_SHAPE, since="0.19.3", until="0.19.6"),),
        ),
    ] = Field(default_factory=QuantizeTraining.absent)
    """Quantising while training (MoQ)."""
    eigenvalue: Annotated[
        FreeForm | None,
        Checked(("any",)),
        Key(
            since="0.3.1",
            until="0.19.7",
            refused_from="0.19.8",
            unread=True,
            source="runtime/config.py:_reject_removed_config_keys",
        ),
    ] = ABSENT
    """Never read here; what counted stood in `quantize_training`. Refused by name all the same."""
    weight_quantization: Annotated[
        WeightQuantization,
        Key(since="0.10.3", source="runtime/config.py:DeepSpeedConfig._initialize_params"),
    ] = Field(default_factory=WeightQuantization)
    """Weights quantised for inference under ZeRO."""
