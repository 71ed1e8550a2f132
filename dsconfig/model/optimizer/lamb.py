"""Params of Lamb."""

from typing import Annotated

from dsconfig.model.key import Key
from dsconfig.model.optimizer.params import Moments, OptimizerParams


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
