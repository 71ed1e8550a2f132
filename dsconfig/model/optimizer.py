"""The optimizer that DeepSpeed builds, and the params that each type of it takes."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, SerializeAsAny

from dsconfig.model.annotations import DERIVED, Auto, Checked, FreeForm, NonNegativeFloat, Pair
from dsconfig.model.key import ANYTHING, Key, Only, Reads
from dsconfig.model.section import RootKeys, Section

# What the params of all types of optimizers share.

Rate: TypeAlias = Annotated[float | Auto, Key(since="0.1.0", fills=("transformers", "accelerate"))]
Decay: TypeAlias = Annotated[
    # PyTorch's own classes alone refuse a negative one.
    Annotated[NonNegativeFloat, Checked(("float", None, None, None, None))] | Auto,
    Key(since="0.1.0", fills=("transformers", "accelerate")),
]
Betas: TypeAlias = Annotated[Pair | Auto, Key(since="0.1.0", fills=("transformers",), miswritten=("betas",))]
Epsilon: TypeAlias = Annotated[float | Auto, Key(since="0.1.0", fills=("transformers",))]


class OptimizerParams(Section):
    """Keyword arguments of an optimizer; this class holds what all types share."""

    SOURCE = "runtime/config.py:get_optimizer_params"
    READS = (Reads("hand", unknown="kept"),)

    lr: Rate = DERIVED
    """Learning rate of all parameters; when absent, the optimizer's own default."""
    weight_decay: Decay = DERIVED
    """How strongly weights are pulled towards zero; when absent, the optimizer's own default."""
    max_grad_norm: Annotated[
        float,
        Key(
            since="0.1.0",
            source="runtime/config.py:DeepSpeedConfig._do_warning_check",
            replaced_by="gradient_clipping",
        ),
    ] = 0.0
    """Clipping by the optimizer itself. The engine refuses it beside any type."""


class Moments(Section):
    """The params of those that average the gradient and its square, as Adam does."""

    lr: Rate = 1e-3
    weight_decay: Decay = 0.0
    betas: Betas = Field(default=[0.9, 0.999])
    """Decay of the running averages of the gradient and of its square."""
    eps: Epsilon = 1e-8
    """Added to the denominator against division by zero."""


# Params of Adam, AdamW and Adagrad.


class AdamParams(Moments, OptimizerParams):
    """Adam: the fused GPU kernel, the CPU kernel under offload, or PyTorch's own."""

    SOURCE = "ops/adam/fused_adam.py:FusedAdam"

    bias_correction: Annotated[bool, Key(since="0.1.0", only=(Only(("gpu", "cpu")),))] = True
    """Make up for the running averages starting at zero."""
    amsgrad: Annotated[bool, Key(since="0.1.0")] = False
    """Keep the largest second moment seen; only PyTorch's own implementation can."""
    adam_w_mode: Annotated[
        bool, Key(since="0.3.1", source="runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer")
    ] = True
    """Take weight decay apart from the gradient, as AdamW does, even for type Adam; false is classic L2.
    Type AdamW ignores false."""
    torch_adam: Annotated[
        bool, Key(since="0.3.1", source="runtime/engine.py:DeepSpeedEngine.get_optimizer_configuration")
    ] = False
    """Take `torch.optim` instead of DeepSpeed's kernels: slower, and every option of PyTorch works."""
    foreach: Annotated[
        bool | None,
        Key(
            since="0.19.6",
            source="runtime/engine.py:DeepSpeedEngine.get_optimizer_configuration",
            only=(Only(("torch",)),),
        ),
    ] = None
    """With `torch_adam`: force or forbid the implementation that handles many tensors at once; null lets
    PyTorch choose."""
    set_grad_none: Annotated[bool, Key(since="0.3.1", only=(Only(("gpu",)),))] = True
    """Drop gradients in `zero_grad` instead of zeroing them; not known to the CPU kernel."""
    fp32_optimizer_states: Annotated[
        bool,
        # From 0.19.6 on the engine takes it out before it builds any of the three.
        Key(
            since="0.5.0",
            source="ops/adam/cpu_adam.py:DeepSpeedCPUAdam",
            only=(Only(("cpu",), until="0.19.5"),),
        ),
    ] = True
    """Keep the CPU kernel's moments in fp32; false halves their memory with half-precision parameters."""
    adamw_mode: Annotated[
        bool, Key(since="0.3.1", source="ops/adam/cpu_adam.py:DeepSpeedCPUAdam", internal=True)
    ] = True
    """The CPU kernel's name for `adam_w_mode`, which the engine fills in; write that one."""


class AdamWParams(AdamParams):
    """AdamW: Adam whose weight decay does not pass through the gradient."""


class AdagradParams(OptimizerParams):
    """Adagrad: PyTorch's own, or the CPU kernel under offload, whose params differ."""

    SOURCE = "ops/adagrad/cpu_adagrad.py:DeepSpeedCPUAdagrad"

    lr: Rate = 1e-2
    weight_decay: Decay = 0.0
    eps: Epsilon = 1e-10
    """Added to the denominator against division by zero."""
    amsgrad: Annotated[bool, Key(since="0.5.5", only=(Only(("cpu",)),))] = False
    """Only under offload, where it does nothing."""
    fp32_optimizer_states: Annotated[bool, Key(since="0.5.5", only=(Only(("cpu",)),))] = True
    """Only under offload: keep the sum of squares in fp32."""
    lr_decay: Annotated[float, Key(since="0.5.5", source="torch.optim.Adagrad", only=(Only(("gpu",)),))] = 0.0
    """Only without offload: how fast the learning rate falls."""
    initial_accumulator_value: Annotated[
        float, Key(since="0.5.5", source="torch.optim.Adagrad", only=(Only(("gpu",)),))
    ] = 0.0
    """Only without offload: value from which squares are summed up."""


# Params of Lamb.


class LambParams(Moments, OptimizerParams):
    """Lamb: Adam with a step size for each layer, for very large batches; GPU only."""

    SOURCE = "ops/lamb/fused_lamb.py:FusedLamb"

    bias_correction: Annotated[bool, Key(since="0.1.0")] = True
    """Make up for the running averages starting at zero."""
    eps_inside_sqrt: Annotated[bool, Key(since="0.1.0")] = False
    """Add `eps` before the square root is drawn instead of after."""
    max_coeff: Annotated[float, Key(since="0.1.0")] = 10.0
    """Largest factor by which a layer's norm may scale its step."""
    min_coeff: Annotated[float, Key(since="0.1.0")] = 0.01
    """Smallest factor by which a layer's norm may scale its step."""
    amsgrad: Annotated[bool, Key(since="0.1.0")] = False
    """Here only because Adam has it; the kernel refuses true."""


# Params of Lion.


class LionParams(OptimizerParams):
    """Lion: steps by the sign of the momentum; half of Adam's state, and no `eps`."""

    SOURCE = "ops/lion/fused_lion.py:FusedLion"

    lr: Rate = 1e-3
    weight_decay: Decay = 0.0
    betas: Betas = Field(default=[0.9, 0.999])
    """Weight of the momentum in a step, and its decay."""
    set_grad_none: Annotated[bool, Key(since="0.11.0", only=(Only(("gpu",)),))] = True
    """Drop gradients in `zero_grad` instead of zeroing them; not known to the CPU kernel."""
    fp32_optimizer_states: Annotated[
        bool,
        Key(since="0.11.0", source="ops/lion/cpu_lion.py:DeepSpeedCPULion", only=(Only(("cpu",)),)),
    ] = True
    """Only under offload: keep the momentum in fp32."""


# Params of Muon.


class MuonParams(OptimizerParams):
    """Muon for matrices, Adam for everything else.

    The only type that passes over params it does not know.
    """

    SOURCE = "runtime/zero/muon/original_muon.py:Muon"

    lr: Rate = DERIVED
    """Learning rate of both halves; when absent, 0.02 for Muon and 0.0003 for Adam."""
    muon_lr: Annotated[
        float, Key(since="0.18.3", source="runtime/engine.py:DeepSpeedEngine._muon_half_defaults")
    ] = DERIVED
    """Learning rate of the matrices; when absent, `lr`."""
    adam_lr: Annotated[
        float, Key(since="0.18.3", source="runtime/engine.py:DeepSpeedEngine._muon_half_defaults")
    ] = DERIVED
    """Learning rate of what is left to Adam; when absent, `lr`."""
    weight_decay: Decay = 0.0
    momentum: Annotated[float, Key(since="0.17.6")] = 0.95
    """How much of the past the direction of a step keeps."""
    ns_method: Annotated[
        Literal["gram", "standard"],
        Key(
            since="0.19.0",
            means=(
                ("gram", "with Gram matrices, which is faster"),
                ("standard", "as first published"),
            ),
        ),
    ] = "gram"
    """How the step is made orthogonal: with Gram matrices, which is faster, or as first published."""
    per_head_muon: Annotated[bool, Key(since="0.19.8", source="__init__.py:set_optimizer_flags")] = False
    """Make attention projections orthogonal head by head."""
    betas: Betas = Field(default=[0.9, 0.95])
    """Adam half: decay of the running averages of the gradient and of its square."""
    eps: Epsilon = 1e-10
    """Adam half: added to the denominator."""
    adam_w_mode: Annotated[
        bool, Key(since="0.19.6", source="runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer")
    ] = True
    """Adam half: take weight decay apart from the gradient."""
    torch_adam: Annotated[
        bool, Key(since="0.19.6", source="runtime/engine.py:DeepSpeedEngine.get_optimizer_configuration")
    ] = False
    """Adam half: take `torch.optim` instead of DeepSpeed's kernels."""
    fp32_optimizer_states: Annotated[
        bool, Key(since="0.19.6", source="runtime/engine.py:DeepSpeedEngine.get_optimizer_configuration")
    ] = True
    """Adam half, on the CPU: keep the moments in fp32."""


# Params of the optimizers with compressed communication, up to 0.19.6.


class OneBitParams(Moments, OptimizerParams):
    """What the optimizers with compressed communication share; they refuse ZeRO."""

    SOURCE = "runtime/fp16/onebit/adam.py:OnebitAdam"

    bias_correction: Annotated[bool, Key(since="0.3.0", until="0.19.6")] = True
    """Make up for the running averages starting at zero."""
    eps_inside_sqrt: Annotated[bool, Key(since="0.3.0", until="0.19.6")] = False
    """Add `eps` before the square root is drawn instead of after."""
    amsgrad: Annotated[bool, Key(since="0.3.0", until="0.19.6")] = False
    """Here only because Adam has it; true is refused."""
    cuda_aware: Annotated[bool, Key(since="0.3.0", until="0.19.6")] = False
    """The MPI library can read GPU memory itself."""
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
                ("compressed", "compression by kernels, for other accelerators"),
            ),
        ),
    ] = "nccl"
    """Library that carries the compressed messages."""


class OneBitAdamParams(OneBitParams):
    """1-bit Adam: after a warm-up, only the sign of the momentum is sent."""

    freeze_step: Annotated[int, Key(since="0.3.0", until="0.19.6", unit="steps")] = 100_000
    """Warm-up steps without compression; too few of them spoil convergence."""


class ZeroOneAdamParams(OneBitParams):
    """0/1 Adam: compressed from the start, and ranks that do not talk at every step."""

    SOURCE = "runtime/fp16/onebit/zoadam.py:ZeroOneAdam"

    var_freeze_step: Annotated[int, Key(since="0.6.1", until="0.19.6", unit="steps")] = 100_000
    """Last step at which the variance still changes."""
    var_update_scaler: Annotated[int, Key(since="0.6.1", until="0.19.6", unit="steps")] = 16
    """How fast the interval between updates of the variance grows."""
    local_step_scaler: Annotated[int, Key(since="0.6.1", until="0.19.6", unit="steps")] = 32_678
    """Steps after which the interval between messages grows."""
    local_step_clipper: Annotated[int, Key(since="0.6.1", until="0.19.6", unit="steps")] = 16
    """Longest interval between messages."""


class OneBitLambParams(OneBitAdamParams):
    """1-bit Lamb: after a warm-up, only the sign of the momentum is sent."""

    SOURCE = "runtime/fp16/onebit/lamb.py:OnebitLamb"

    max_coeff: Annotated[float, Key(since="0.3.16", until="0.19.6")] = 10.0
    """Largest factor by which a layer's norm may scale its step."""
    min_coeff: Annotated[float, Key(since="0.3.16", until="0.19.6")] = 0.01
    """Smallest factor by which a layer's norm may scale its step."""
    coeff_beta: Annotated[float, Key(since="0.3.16", until="0.19.6")] = 0.9
    """Decay of the running average of that factor."""
    factor_max: Annotated[float, Key(since="0.3.16", until="0.19.6")] = 4.0
    """Largest correction of the factor after the warm-up."""
    factor_min: Annotated[float, Key(since="0.3.16", until="0.19.6")] = 0.5
    """Smallest correction of the factor after the warm-up."""
    factor_threshold: Annotated[float, Key(since="0.3.16", until="0.19.6")] = 0.1
    """Largest change of the correction from one step to the next."""


@dataclass(frozen=True, slots=True)
class OptimizerType:
    """A name that DeepSpeed itself knows, in any case of letters."""

    name: str
    params: type[OptimizerParams] | None
    """None: free-form, the arguments of a class outside DeepSpeed."""
    since: str
    gpu: str
    """The class that the engine builds; `torch_adam` has it take PyTorch's instead."""
    cpu: str
    """The class that it builds under offload."""
    until: str | None = None
    required: tuple[str, ...] = ()
    notes: str = ""


OPTIMIZERS: tuple[OptimizerType, ...] = (
    OptimizerType(
        "Adam",
        AdamParams,
        "0.1.0",
        "FusedAdam",
        "DeepSpeedCPUAdam",
        notes="AdamW unless adam_w_mode is false",
    ),
    OptimizerType("AdamW", AdamWParams, "0.3.11", "FusedAdam", "DeepSpeedCPUAdam"),
    OptimizerType("Adagrad", AdagradParams, "0.5.5", "torch.optim.Adagrad", "DeepSpeedCPUAdagrad"),
    OptimizerType(
        "Lamb", LambParams, "0.1.0", "FusedLamb", "FusedLamb", notes="CUDA only; untested with ZeRO"
    ),
    OptimizerType("Lion", LionParams, "0.11.0", "FusedLion", "DeepSpeedCPULion"),
    OptimizerType(
        "Muon", MuonParams, "0.17.6", "MuonWithAuxAdam", "MuonWithAuxAdam", notes="ignores unknown params"
    ),
    *(
        OptimizerType(
            name,
            None,
            "0.10.2",
            f"mup.{name}",
            f"mup.{name}",
            notes="needs the mup package; untested with ZeRO",
        )
        for name in ("MuAdam", "MuAdamW", "MuSGD")
    ),
    OptimizerType(
        "OneBitAdam", OneBitAdamParams, "0.3.0", "OnebitAdam", "OnebitAdam", "0.19.6", notes="refuses ZeRO"
    ),
    OptimizerType(
        "OneBitLamb", OneBitLambParams, "0.3.16", "OnebitLamb", "OnebitLamb", "0.19.6", notes="refuses ZeRO"
    ),
    OptimizerType(
        "ZeroOneAdam",
        ZeroOneAdamParams,
        "0.6.1",
        "ZeroOneAdam",
        "ZeroOneAdam",
        "0.19.6",
        notes="refuses ZeRO",
    ),
)
"""The types that DeepSpeed knows; any other name is looked up in `torch.optim`, letter by letter."""


class Optimizer(Section):
    """The optimizer that the engine builds when `deepspeed.initialize` is given none."""

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
    """Name of the optimizer: one of DeepSpeed's own in any case of letters, or a class of `torch.optim`,
    written exactly so. Without it the whole section has no effect."""
    params: Annotated[
        SerializeAsAny[OptimizerParams] | FreeForm | None,
        Key(
            since="0.1.0",
            source="runtime/config.py:get_optimizer_params",
            takes=(ANYTHING,),
            opened_by="optimizer.type",
        ),
    ] = None
    """Arguments for the optimizer: the params class of its type, or, for a class of `torch.optim` or `mup`,
    a free mapping with that class's own keywords."""
    legacy_fusion: Annotated[
        bool, Key(since="0.1.0", source="runtime/config.py:get_optimizer_legacy_fusion")
    ] = False
    """Flatten parameters the way the first fp16 wrapper did."""


class OptimizerKeys(RootKeys):
    """The root key of the optimizer."""

    optimizer: Annotated[Optimizer, Key(since="0.1.0", source="runtime/config.py:get_optimizer_name")] = (
        Field(default_factory=Optimizer)
    )
    """The optimizer that DeepSpeed builds, unless the script passes one."""
