"""Params of the optimizers with compressed communication, up to 0.19.6."""

from typing import Annotated

from dsconfig.model.key import Key
from dsconfig.model.optimizer.params import Moments, OptimizerParams


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
