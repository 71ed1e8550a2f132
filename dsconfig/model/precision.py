"""Training precision: fp16 with loss scaling, bf16, Apex, autocast, and data types of buffers."""

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field

from dsconfig.model.key import HALF, EarlierType, Key, NonObjectValues, SectionReading
from dsconfig.model.section import DERIVED, Auto, RootKeys, Section

_HALF, _BRAIN = "IEEE half precision", "bfloat16: the range of fp32 with less precision"
_FULL, _BYTE = "full precision", "8-bit integers"
_MEANS = (
    *((word, _HALF) for word in ("torch.float16", "fp16", "float16", "half")),
    *((word, _FULL) for word in ("torch.float32", "fp32", "float32", "float")),
    *((word, _BYTE) for word in ("torch.int8", "int8")),
    *((word, _BRAIN) for word in ("torch.bfloat16", "bf16", "bfloat16")),
)
DtypeWord: TypeAlias = Literal[
    "torch.float16",
    "fp16",
    "float16",
    "half",
    "torch.float32",
    "fp32",
    "float32",
    "float",
    "torch.int8",
    "int8",
    "torch.bfloat16",
    "bf16",
    "bfloat16",
]
"""Names that DeepSpeed's `DtypeEnum` accepts; it rejects upper case."""

PRECISION_READS = (
    SectionReading("hand", until="0.17.0"),
    SectionReading("pydantic", since="0.17.1", unknown="rejected", drops_auto=True),
)


class Fp16(Section):
    """Mixed precision in fp16 (IEEE half precision), with loss scaling against underflow."""

    SOURCE = "runtime/precision_config.py:DeepSpeedFP16Config"
    READS = PRECISION_READS

    enabled: Annotated[
        bool | Auto,
        Key(
            since="0.1.0",
            fills=("transformers", "accelerate"),
            miswritten=("fp16_enabled", "fp16.enable"),
        ),
    ] = False
    """Train in fp16; excludes `bf16`."""
    auto_cast: Annotated[bool, Key(since="0.7.0")] = False
    """Cast the floating-point inputs of `forward` to fp16."""
    loss_scale: Annotated[
        Annotated[float, Field(ge=0, allow_inf_nan=False)],
        Key(since="0.1.0", was=(EarlierType("0.18.7", float),)),
    ] = 0.0
    """Static loss scale, which keeps small gradients from underflow; 0 selects dynamic loss scaling. From
    0.18.8 on DeepSpeed rejects booleans."""
    initial_scale_power: Annotated[
        int,
        Key(
            since="0.1.0",
            defaults=(("0.7.7", 32),),
            wrong_type="ignored",
            miswritten=("fp16.initial_loss_scale_power",),
        ),
    ] = 16
    """Dynamic loss scaling starts at 2 to this power. A value that is too high causes skipped steps at the
    beginning."""
    loss_scale_window: Annotated[int, Key(since="0.1.0", unit="steps")] = 1000
    """Steps without overflow after which the dynamic loss scale doubles. From 0.19.3 on it must be positive
    if fp16 uses dynamic loss scaling."""
    hysteresis: Annotated[int, Key(since="0.1.0", unit="overflows")] = 2
    """Overflows that are tolerated before the dynamic loss scale is halved."""
    consecutive_hysteresis: Annotated[bool, Key(since="0.9.3")] = False
    """Reset the `hysteresis` count after each step without overflow, so that only consecutive overflows
    count."""
    min_loss_scale: Annotated[int, Key(since="0.1.0")] = 1
    """Minimum of the dynamic loss scale. From 0.19.3 on it must be positive if fp16 uses dynamic loss
    scaling."""
    fp16_master_weights_and_grads: Annotated[bool, Key(since="0.5.0")] = False
    """Keep master weights and gradients in fp16 too: half the memory, less accuracy. Requires ZeRO and CPU
    Adam."""


class Bf16(Section):
    """Mixed precision in bfloat16, which needs no loss scaling."""

    SOURCE = "runtime/precision_config.py:DeepSpeedBF16Config"
    READS = PRECISION_READS
    NOT_KEYS = (
        "loss_scale",
        "initial_scale_power",
        "loss_scale_window",
        "hysteresis",
        "min_loss_scale",
        "auto_cast",
    )

    enabled: Annotated[
        bool | Auto,
        Key(
            since="0.5.5",
            fills=("transformers", "accelerate"),
            miswritten=("bf16_enabled", "bfloat16_enabled", "bf16.enable"),
        ),
    ] = False
    """Train in bfloat16; excludes `fp16`."""
    immediate_grad_update: Annotated[
        bool, Key(since="0.13.3", defaults=(("0.16.4", False), ("0.17.0", True)))
    ] = False
    """Accumulate each gradient in fp32 as soon as it is computed, instead of after the backward pass; frees
    the bfloat16 copy early."""
    check_grad_overflow: Annotated[
        bool, Key(since="0.17.1", defaults=(("0.19.2", False),), miswritten=("bf16.check_overflow",))
    ] = True
    """Check gradients for inf and NaN before a step, and skip the step if there are any."""
    bf16_master_weights_and_grads: Annotated[
        bool, Key(since="0.18.3", miswritten=("bf16.fp16_master_weights_and_grads",))
    ] = False
    """Keep master weights and gradients in bfloat16 too; for ZeRO stages 1 to 3."""
    bf16_optimizer_states: Annotated[bool, Key(since="0.18.3")] = False
    """Keep the optimizer's moments in bfloat16; only with `bf16_master_weights_and_grads`."""


class Amp(Section):
    """Mixed precision with NVIDIA Apex; other keys go to `apex.amp.initialize`."""

    SOURCE = "runtime/config.py:get_amp_params"
    READS = (SectionReading("hand", unknown="kept"),)
    model_config = ConfigDict(extra="allow")

    enabled: Annotated[
        bool | Auto,
        Key(
            since="0.3.0",
            until="0.19.7",
            source="runtime/config.py:get_amp_enabled",
            replaced_by="torch_autocast.enabled",
            fills=("transformers",),
        ),
    ]
    """Initialize model and optimizer with Apex. DeepSpeed rejects the section without this key."""
    opt_level: Annotated[
        str,
        Key(
            since="0.3.0",
            until="0.19.7",
            source="apex.amp.initialize",
            known=("O0", "O1", "O2", "O3"),
            fills=("transformers",),
            means=(
                ("O0", "casts nothing"),
                ("O1", "casts safe operations"),
                ("O2", "casts nearly everything, keeps master weights in fp32"),
                ("O3", "casts everything"),
            ),
        ),
    ] = "O1"
    """Apex optimization level: O0 casts nothing, O1 safe operations, O2 nearly everything, O3 everything."""


class TorchAutocast(Section):
    """Run the forward pass under `torch.autocast`, managed by the engine."""

    SOURCE = "runtime/config.py:get_torch_autocast_enabled"

    enabled: Annotated[bool, Key(since="0.17.2", miswritten=("torch_autocast.enable",))] = False
    """Run the forward pass under autocast."""
    dtype: Annotated[
        DtypeWord,
        Key(
            since="0.17.2",
            source="runtime/config.py:get_torch_autocast_dtype",
            wrong_type="rejected",
            means=_MEANS,
        ),
    ] = DERIVED
    """Data type of autocast; if absent, PyTorch's default for the device."""
    lower_precision_safe_modules: Annotated[
        list[str],
        Key(
            since="0.17.2", source="runtime/config.py:get_lower_precision_safe_modules", wrong_type="ignored"
        ),
    ] = DERIVED
    """Full names of module classes whose parameters may be communicated in the autocast data type; if absent,
    linear layers and convolutions."""


class DataTypes(Section):
    """Data types of buffers, accumulated gradients and parameters."""

    SOURCE = "runtime/config.py:DeepSpeedConfig._initialize_params"

    grad_accum_dtype: Annotated[
        DtypeWord | None,
        Key(since="0.7.6", means=_MEANS, miswritten=("gradient_accumulation_dtype",)),
    ] = None
    """Data type in which gradients are accumulated over micro-batches; null follows the model. fp32 loses no
    precision and takes twice the memory."""
    param_dtype: Annotated[DtypeWord | None, Key(since="0.19.2", means=_MEANS)] = None
    """Data type of the parameters. Must agree with `fp16` or `bf16`; null follows them."""
    buffer_dtype: Annotated[DtypeWord | None, Key(since="0.19.2", means=_MEANS, opened_by=HALF)] = None
    """Cast the buffers of the model to this data type; null leaves them unchanged."""
    keep_in_fp32_modules: Annotated[
        list[str] | Auto,
        Key(
            since="0.19.8",
            auto_is_value=True,
            wrong_type="rejected",
            means=(("auto", "the list that a Transformers model defines"),),
        ),
    ] = "auto"
    """Buffers that stay in fp32: a list of name patterns, which may be empty, or "auto" for the list that a
    Transformers model defines."""


class PrecisionRootKeys(RootKeys):
    """Root keys for training precision and data types."""

    fp16: Annotated[Fp16, Key(since="0.1.0", source="runtime/precision_config.py:get_float16_config")] = (
        Field(default_factory=Fp16)
    )
    """Mixed precision in IEEE half precision (fp16), with loss scaling."""
    bf16: Annotated[
        Bf16,
        Key(
            since="0.6.0",
            source="runtime/precision_config.py:get_bfloat16_config",
            takes=(NonObjectValues(("null",), since="0.17.1"),),
        ),
    ] = Field(default_factory=Bf16)
    """Mixed precision in bfloat16, which needs no loss scaling."""
    bfloat16: Annotated[
        Bf16,
        Key(
            since="0.5.5",
            source="runtime/precision_config.py:get_bfloat16_config",
            deprecated="0.6.0",
            replaced_by="bf16",
            rewrite="rename",
            hidden_by="bf16",
        ),
    ] = Field(default_factory=Bf16)
    """Earlier name of `bf16`; read only if `bf16` is absent."""
    amp: Annotated[
        Amp,
        Key(
            since="0.3.0",
            until="0.19.7",
            refused_from="0.19.8",
            source="runtime/config.py:get_amp_enabled",
            replaced_by="torch_autocast",
        ),
    ] = Field(default_factory=Amp.absent)
    """Mixed precision with NVIDIA Apex."""
    torch_autocast: Annotated[
        TorchAutocast, Key(since="0.17.2", source="runtime/config.py:get_torch_autocast_enabled")
    ] = Field(default_factory=TorchAutocast)
    """Mixed precision with PyTorch's autocast."""
    data_types: Annotated[DataTypes, Key(since="0.7.6", source="runtime/config.py:get_data_types_params")] = (
        Field(default_factory=DataTypes)
    )
    """Data types of buffers, accumulated gradients and parameters."""
