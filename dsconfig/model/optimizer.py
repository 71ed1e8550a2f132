"""The optimizer that DeepSpeed builds, and the params of each type."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, SerializeAsAny

from dsconfig.model.key import ANYTHING, AcceptingClasses, Key, SectionReading
from dsconfig.model.section import (
    DERIVED,
    Auto,
    FreeForm,
    NonNegativeFloat,
    Pair,
    RootKeys,
    Section,
    TypeCheckedByDeepSpeed,
)

# Params that all types of optimizers share.

Rate: TypeAlias = Annotated[float | Auto, Key(since="0.1.0", fills=("transformers", "accelerate"))]
Decay: TypeAlias = Annotated[
    # Only PyTorch's own classes reject a negative value.
    Annotated[NonNegativeFloat, TypeCheckedByDeepSpeed(("float", None, None, None, None))] | Auto,
    Key(since="0.1.0", fills=("transformers", "accelerate")),
]
Betas: TypeAlias = Annotated[Pair | Auto, Key(since="0.1.0", fills=("transformers",), miswritten=("betas",))]
Epsilon: TypeAlias = Annotated[float | Auto, Key(since="0.1.0", fills=("transformers",))]


class OptimizerParams(Section):
    """Params that all optimizer types share."""

    SOURCE = "runtime/config.py:get_optimizer_params"
    READS = (SectionReading("hand", unknown="kept"),)

    lr: Rate = DERIVED
    """Learning rate of all parameters; if absent, the optimizer's default."""
    weight_decay: Decay = DERIVED
    """Weight decay coefficient; if absent, the optimizer's default."""
    max_grad_norm: Annotated[
        float,
        Key(
            since="0.1.0",
            source="runtime/config.py:DeepSpeedConfig._do_warning_check",
            replaced_by="gradient_clipping",
        ),
    ] = 0.0
    """Gradient clipping in the optimizer. The engine rejects it for every optimizer type; use
    `gradient_clipping`."""


class MomentParams(Section):
    """Params of optimizers that keep averages of the gradient and of its square, such as Adam."""

    lr: Rate = 1e-3
    weight_decay: Decay = 0.0
    betas: Betas = Field(default=[0.9, 0.999])
    """Decay rates of the running averages of the gradient and its square."""
    eps: Epsilon = 1e-8
    """Term added to the denominator to avoid division by zero."""


# Params of Adam, AdamW and Adagrad.


class AdamParams(MomentParams, OptimizerParams):
    """Adam: the fused GPU kernel, the CPU kernel with offload, or PyTorch's own."""

    SOURCE = "ops/adam/fused_adam.py:FusedAdam"

    bias_correction: Annotated[bool, Key(since="0.1.0", only=(AcceptingClasses(("gpu", "cpu")),))] = True
    """Correct the bias of running averages that start at zero."""
    amsgrad: Annotated[bool, Key(since="0.1.0")] = False
    """Use the AMSGrad variant; only PyTorch's implementation supports it."""
    adam_w_mode: Annotated[
        bool,
        Key(since="0.3.1", source="runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer"),
    ] = True
    """Decouple weight decay from the gradient (AdamW), even for type Adam; false is L2 regularization. Type
    AdamW ignores false."""
    torch_adam: Annotated[
        bool,
        Key(since="0.3.1", source="runtime/engine.py:DeepSpeedEngine.get_optimizer_configuration"),
    ] = False
    """Use `torch.optim` instead of DeepSpeed's kernels: slower, but all of PyTorch's options work."""
    foreach: Annotated[
        bool | None,
        Key(
            since="0.19.6",
            source="runtime/engine.py:DeepSpeedEngine.get_optimizer_configuration",
            only=(AcceptingClasses(("torch",)),),
        ),
    ] = None
    """With `torch_adam`: force or forbid PyTorch's multi-tensor implementation; null lets PyTorch choose."""
    set_grad_none: Annotated[bool, Key(since="0.3.1", only=(AcceptingClasses(("gpu",)),))] = True
    """Set gradients to None in `zero_grad` instead of zeroing them; the CPU kernel does not have this
    argument."""
    fp32_optimizer_states: Annotated[
        bool,
        # From 0.19.6 on the engine removes it before it builds any of the three classes.
        Key(
            since="0.5.0",
            source="ops/adam/cpu_adam.py:DeepSpeedCPUAdam",
            only=(AcceptingClasses(("cpu",), until="0.19.5"),),
        ),
    ] = True
    """Keep the moments of the CPU kernel in fp32; with half-precision parameters, false halves their memory.
    """
    adamw_mode: Annotated[
        bool, Key(since="0.3.1", source="ops/adam/cpu_adam.py:DeepSpeedCPUAdam", internal=True)
    ] = True
    """The CPU kernel's name for `adam_w_mode`. The engine sets it; use `adam_w_mode` instead."""


class AdamWParams(AdamParams):
    """AdamW: Adam with decoupled weight decay."""


class AdagradParams(OptimizerParams):
    """Adagrad: PyTorch's own, or the CPU kernel with offload, whose params differ."""

    SOURCE = "ops/adagrad/cpu_adagrad.py:DeepSpeedCPUAdagrad"

    lr: Rate = 1e-2
    weight_decay: Decay = 0.0
    eps: Epsilon = 1e-10
    """Term added to the denominator to avoid division by zero."""
    amsgrad: Annotated[bool, Key(since="0.5.5", only=(AcceptingClasses(("cpu",)),))] = False
    """Only with offload, where it has no effect."""
    fp32_optimizer_states: Annotated[bool, Key(since="0.5.5", only=(AcceptingClasses(("cpu",)),))] = True
    """Only with offload: keep the sum of squares in fp32."""
    lr_decay: Annotated[
        float, Key(since="0.5.5", source="torch.optim.Adagrad", only=(AcceptingClasses(("gpu",)),))
    ] = 0.0
    """Only without offload: decay of the learning rate."""
    initial_accumulator_value: Annotated[
        float, Key(since="0.5.5", source="torch.optim.Adagrad", only=(AcceptingClasses(("gpu",)),))
    ] = 0.0
    """Only without offload: initial value of the sum of squares."""


# Params of Lamb.


class LambParams(MomentParams, OptimizerParams):
    """LAMB: Adam with a step size per layer, for very large batches; GPU only."""

    SOURCE = "ops/lamb/fused_lamb.py:FusedLamb"

    bias_correction: Annotated[bool, Key(since="0.1.0")] = True
    """Correct the bias of running averages that start at zero."""
    eps_inside_sqrt: Annotated[bool, Key(since="0.1.0")] = False
    """Add `eps` inside the square root instead of after it."""
    max_coeff: Annotated[float, Key(since="0.1.0")] = 10.0
    """Maximum of the scaling coefficient of a layer's update."""
    min_coeff: Annotated[float, Key(since="0.1.0")] = 0.01
    """Minimum of the scaling coefficient of a layer's update."""
    amsgrad: Annotated[bool, Key(since="0.1.0")] = False
    """Exists only for compatibility with Adam; the kernel rejects true."""


# Params of Lion.


class LionParams(OptimizerParams):
    """Lion: updates by the sign of the momentum; it needs half the state of Adam, and no `eps`."""

    SOURCE = "ops/lion/fused_lion.py:FusedLion"

    lr: Rate = 1e-3
    weight_decay: Decay = 0.0
    betas: Betas = Field(default=[0.9, 0.999])
    """Weight of the momentum in an update, and decay rate of the momentum."""
    set_grad_none: Annotated[bool, Key(since="0.11.0", only=(AcceptingClasses(("gpu",)),))] = True
    """Set gradients to None in `zero_grad` instead of zeroing them; the CPU kernel does not have this
    argument."""
    fp32_optimizer_states: Annotated[
        bool,
        Key(
            since="0.11.0", source="ops/lion/cpu_lion.py:DeepSpeedCPULion", only=(AcceptingClasses(("cpu",)),)
        ),
    ] = True
    """Only with offload: keep the momentum in fp32."""


# Params of Muon.


class MuonParams(OptimizerParams):
    """Muon for matrices, Adam for everything else.

    The only type that ignores unknown params.
    """

    SOURCE = "runtime/zero/muon/original_muon.py:Muon"

    lr: Rate = DERIVED
    """Learning rate of both the Muon and the Adam part; if absent, 0.02 for Muon and 0.0003 for Adam."""
    muon_lr: Annotated[
        float, Key(since="0.18.3", source="runtime/engine.py:DeepSpeedEngine._muon_half_defaults")
    ] = DERIVED
    """Learning rate of the parameters that Muon updates (matrices); if absent, `lr`."""
    adam_lr: Annotated[
        float, Key(since="0.18.3", source="runtime/engine.py:DeepSpeedEngine._muon_half_defaults")
    ] = DERIVED
    """Learning rate of the parameters that Adam updates; if absent, `lr`."""
    weight_decay: Decay = 0.0
    momentum: Annotated[float, Key(since="0.17.6")] = 0.95
    """Momentum coefficient of Muon."""
    ns_method: Annotated[
        Literal["gram", "standard"],
        Key(
            since="0.19.0",
            means=(
                ("gram", "with Gram matrices, which is faster"),
                ("standard", "the published method"),
            ),
        ),
    ] = "gram"
    """Newton-Schulz variant that orthogonalizes the update: with Gram matrices, which is faster, or the
    published one."""
    per_head_muon: Annotated[bool, Key(since="0.19.8", source="__init__.py:set_optimizer_flags")] = False
    """Orthogonalize the update of attention projections separately for each head."""
    betas: Betas = Field(default=[0.9, 0.95])
    """For Adam: decay rates of the running averages of the gradient and its square."""
    eps: Epsilon = 1e-10
    """For Adam: term added to the denominator."""
    adam_w_mode: Annotated[
        bool,
        Key(since="0.19.6", source="runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer"),
    ] = True
    """For Adam: decouple weight decay from the gradient."""
    torch_adam: Annotated[
        bool,
        Key(since="0.19.6", source="runtime/engine.py:DeepSpeedEngine.get_optimizer_configuration"),
    ] = False
    """For Adam: use `torch.optim` instead of DeepSpeed's kernels."""
    fp32_optimizer_states: Annotated[
        bool,
        Key(since="0.19.6", source="runtime/engine.py:DeepSpeedEngine.get_optimizer_configuration"),
    ] = True
    """For Adam on the CPU: keep the moments in fp32."""


# Params of the optimizers with compressed communication, up to 0.19.6.


class OneBitParams(MomentParams, OptimizerParams):
    """Params that the optimizers with compressed communication share; these optimizers do not work with ZeRO."""

    SOURCE = "runtime/fp16/onebit/adam.py:OnebitAdam"

    bias_correction: Annotated[bool, Key(since="0.3.0", until="0.19.6")] = True
    """Correct the bias of running averages that start at zero."""
    eps_inside_sqrt: Annotated[bool, Key(since="0.3.0", until="0.19.6")] = False
    """Add `eps` inside the square root instead of after it."""
    amsgrad: Annotated[bool, Key(since="0.3.0", until="0.19.6")] = False
    """Exists only for compatibility with Adam; the optimizer rejects true."""
    cuda_aware: Annotated[bool, Key(since="0.3.0", until="0.19.6")] = False
    """The MPI library is CUDA-aware: it can access GPU memory."""
    comm_backend_name: Annotated[
        str,
        Key(
            since="0.3.14",
            until="0.19.6",
            known=("nccl", "mpi", "hccl", "compressed"),
            means=(
                ("nccl", "NVIDIA's library"),
                ("mpi", "an MPI library"),
                ("hccl", "Huawei's library"),
                ("compressed", "compression kernels, for other accelerators"),
            ),
        ),
    ] = "nccl"
    """Communication library for the compressed messages."""


class OneBitAdamParams(OneBitParams):
    """1-bit Adam: after a warm-up, only the sign of the momentum is communicated."""

    freeze_step: Annotated[int, Key(since="0.3.0", until="0.19.6", unit="steps")] = 100_000
    """Warm-up steps without compression; too few harm convergence."""


class ZeroOneAdamParams(OneBitParams):
    """0/1 Adam: communication is compressed from the start, and does not take place in every step."""

    SOURCE = "runtime/fp16/onebit/zoadam.py:ZeroOneAdam"

    var_freeze_step: Annotated[int, Key(since="0.6.1", until="0.19.6", unit="steps")] = 100_000
    """Last step at which the variance is updated."""
    var_update_scaler: Annotated[int, Key(since="0.6.1", until="0.19.6", unit="steps")] = 16
    """Growth of the interval between variance updates."""
    local_step_scaler: Annotated[int, Key(since="0.6.1", until="0.19.6", unit="steps")] = 32_678
    """Steps after which the interval between synchronizations grows."""
    local_step_clipper: Annotated[int, Key(since="0.6.1", until="0.19.6", unit="steps")] = 16
    """Maximum interval between synchronizations."""


class OneBitLambParams(OneBitAdamParams):
    """1-bit LAMB: after a warm-up, only the sign of the momentum is communicated."""

    SOURCE = "runtime/fp16/onebit/lamb.py:OnebitLamb"

    max_coeff: Annotated[float, Key(since="0.3.16", until="0.19.6")] = 10.0
    """Maximum of the scaling coefficient of a layer's update."""
    min_coeff: Annotated[float, Key(since="0.3.16", until="0.19.6")] = 0.01
    """Minimum of the scaling coefficient of a layer's update."""
    coeff_beta: Annotated[float, Key(since="0.3.16", until="0.19.6")] = 0.9
    """Decay rate of the running average of the scaling coefficient."""
    factor_max: Annotated[float, Key(since="0.3.16", until="0.19.6")] = 4.0
    """Maximum correction factor of the scaling coefficient after the warm-up."""
    factor_min: Annotated[float, Key(since="0.3.16", until="0.19.6")] = 0.5
    """Minimum correction factor of the scaling coefficient after the warm-up."""
    factor_threshold: Annotated[float, Key(since="0.3.16", until="0.19.6")] = 0.1
    """Maximum change of the correction factor between two steps."""


@dataclass(frozen=True, slots=True)
class OptimizerTypeInfo:
    """An optimizer type of DeepSpeed, whose name is case-insensitive."""

    name: str
    params: type[OptimizerParams] | None
    """None: free-form, the arguments of a class outside DeepSpeed."""
    since: str
    gpu: str
    """The class that the engine builds; with `torch_adam` it builds the class of PyTorch instead."""
    cpu: str
    """The class that the engine builds with offload."""
    until: str | None = None
    required: tuple[str, ...] = ()
    notes: str = ""


OPTIMIZERS: tuple[OptimizerTypeInfo, ...] = (
    OptimizerTypeInfo(
        "Adam",
        AdamParams,
        "0.1.0",
        "FusedAdam",
        "DeepSpeedCPUAdam",
        notes="AdamW unless adam_w_mode is false",
    ),
    OptimizerTypeInfo("AdamW", AdamWParams, "0.3.11", "FusedAdam", "DeepSpeedCPUAdam"),
    OptimizerTypeInfo("Adagrad", AdagradParams, "0.5.5", "torch.optim.Adagrad", "DeepSpeedCPUAdagrad"),
    OptimizerTypeInfo(
        "Lamb", LambParams, "0.1.0", "FusedLamb", "FusedLamb", notes="CUDA only; untested with ZeRO"
    ),
    OptimizerTypeInfo("Lion", LionParams, "0.11.0", "FusedLion", "DeepSpeedCPULion"),
    OptimizerTypeInfo(
        "Muon", MuonParams, "0.17.6", "MuonWithAuxAdam", "MuonWithAuxAdam", notes="ignores unknown params"
    ),
    *(
        OptimizerTypeInfo(
            name,
            None,
            "0.10.2",
            f"mup.{name}",
            f"mup.{name}",
            notes="requires the mup package; untested with ZeRO",
        )
        for name in ("MuAdam", "MuAdamW", "MuSGD")
    ),
    OptimizerTypeInfo(
        "OneBitAdam",
        OneBitAdamParams,
        "0.3.0",
        "OnebitAdam",
        "OnebitAdam",
        "0.19.6",
        notes="does not support ZeRO",
    ),
    OptimizerTypeInfo(
        "OneBitLamb",
        OneBitLambParams,
        "0.3.16",
        "OnebitLamb",
        "OnebitLamb",
        "0.19.6",
        notes="does not support ZeRO",
    ),
    OptimizerTypeInfo(
        "ZeroOneAdam",
        ZeroOneAdamParams,
        "0.6.1",
        "ZeroOneAdam",
        "ZeroOneAdam",
        "0.19.6",
        notes="does not support ZeRO",
    ),
)
"""The types of DeepSpeed; it looks up any other name in `torch.optim`, where case matters."""


class Optimizer(Section):
    """The optimizer that the engine builds if `deepspeed.initialize` gets none."""

    SOURCE = "runtime/config.py:get_optimizer_name"

    type: Annotated[
        str | None,
        Key(
            since="0.1.0",
            known=tuple(kind.name for kind in OPTIMIZERS),
            fold_case=True,
            miswritten=("optimizer_name",),
        ),
    ] = None
    """Name of the optimizer: one of DeepSpeed's own (case does not matter) or a class of `torch.optim` (exact
    name). Without `type` the whole section has no effect."""
    params: Annotated[
        SerializeAsAny[OptimizerParams] | FreeForm | None,
        Key(
            since="0.1.0",
            source="runtime/config.py:get_optimizer_params",
            takes=(ANYTHING,),
            opened_by="optimizer.type",
        ),
    ] = None
    """Keyword arguments of the optimizer: the params class of its type, or, for a class of `torch.optim` or
    `mup`, a mapping with the arguments of that class."""
    legacy_fusion: Annotated[
        bool, Key(since="0.1.0", source="runtime/config.py:get_optimizer_legacy_fusion")
    ] = False
    """Flatten parameters in the same way as the first fp16 wrapper."""


class OptimizerRootKeys(RootKeys):
    """The root key of the optimizer."""

    optimizer: Annotated[Optimizer, Key(since="0.1.0", source="runtime/config.py:get_optimizer_name")] = (
        Field(default_factory=Optimizer)
    )
    """The optimizer that DeepSpeed builds, unless the script passes one."""
