"""Params of Muon."""

from typing import Annotated, Literal

from pydantic import Field

from dsconfig.model.annotations import DERIVED
from dsconfig.model.key import Key
from dsconfig.model.optimizer.params import Betas, Decay, Epsilon, OptimizerParams, Rate


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
