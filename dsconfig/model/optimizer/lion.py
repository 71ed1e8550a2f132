"""Params of Lion."""

from typing import Annotated

from pydantic import Field

from dsconfig.model.key import Key, Only
from dsconfig.model.optimizer.params import Betas, Decay, OptimizerParams, Rate


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
