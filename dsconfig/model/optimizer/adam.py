"""Params of Adam, AdamW and Adagrad."""

from typing import Annotated

from dsconfig.model.key import Key, Only
from dsconfig.model.optimizer.params import Decay, Epsilon, Moments, OptimizerParams, Rate


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
