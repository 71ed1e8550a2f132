"""What the params of all types of optimizers share."""

from typing import Annotated, TypeAlias

from pydantic import Field

from dsconfig.model.annotations import DERIVED, Auto, Checked, NonNegativeFloat, Pair
from dsconfig.model.key import Key, Reads
from dsconfig.model.section import Section

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
