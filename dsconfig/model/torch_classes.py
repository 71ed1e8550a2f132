"""The classes of `torch.optim` and `torch.optim.lr_scheduler` that a config can name, with their arguments.

DeepSpeed looks up every type other than its own in these modules, with exact case (runtime/engine.py,
`DeepSpeedEngine._is_supported_optimizer` and `_scheduler_from_config`). The lists are from PyTorch 2.13; `verbose` is
an argument of schedulers in earlier versions.
"""

from __future__ import annotations

from dsconfig.core.json_types import NamedTuple


class TorchClass(NamedTuple):
    """The keyword arguments of a torch class, separated by spaces, without `params` or `optimizer`."""

    optional: str
    required: str = ""

    @property
    def arguments(self) -> frozenset[str]:
        """All arguments, both required and optional."""
        return frozenset((*self.required.split(), *self.optional.split()))


OPTIMIZERS: dict[str, TorchClass] = {
    "ASGD": TorchClass("lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"),
    "Adadelta": TorchClass("lr rho eps weight_decay foreach capturable maximize differentiable"),
    "Adafactor": TorchClass("lr beta2_decay eps d weight_decay foreach maximize"),
    "Adagrad": TorchClass(
        "lr lr_decay weight_decay initial_accumulator_value eps foreach maximize differentiable fused",
    ),
    "Adam": TorchClass(
        "lr betas eps weight_decay amsgrad "
        "foreach maximize capturable differentiable fused decoupled_weight_decay",
    ),
    "AdamW": TorchClass("lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused"),
    "Adamax": TorchClass("lr betas eps weight_decay foreach maximize differentiable capturable"),
    "LBFGS": TorchClass("lr max_iter max_eval tolerance_grad tolerance_change history_size line_search_fn"),
    "Muon": TorchClass("lr weight_decay momentum nesterov ns_coefficients eps ns_steps adjust_lr_fn"),
    "NAdam": TorchClass(
        "lr betas eps weight_decay momentum_decay "
        "decoupled_weight_decay foreach maximize capturable differentiable",
    ),
    "RAdam": TorchClass(
        "lr betas eps weight_decay decoupled_weight_decay foreach maximize capturable differentiable",
    ),
    "RMSprop": TorchClass(
        "lr alpha eps weight_decay momentum centered capturable foreach maximize differentiable",
    ),
    "Rprop": TorchClass("lr etas step_sizes capturable foreach maximize differentiable"),
    "SGD": TorchClass("lr momentum dampening weight_decay nesterov maximize foreach differentiable fused"),
    "SparseAdam": TorchClass("lr betas eps maximize"),
}
"""Concrete optimizers, without the abstract base class and the submodules of `torch.optim`."""

SCHEDULERS: dict[str, TorchClass] = {
    "ChainedScheduler": TorchClass("", "schedulers"),
    "ConstantLR": TorchClass("factor total_iters last_epoch verbose"),
    "CosineAnnealingLR": TorchClass("eta_min last_epoch verbose", "T_max"),
    "CosineAnnealingWarmRestarts": TorchClass("T_mult eta_min last_epoch verbose", "T_0"),
    "CyclicLR": TorchClass(
        "step_size_up step_size_down mode gamma scale_fn "
        "scale_mode cycle_momentum base_momentum max_momentum last_epoch verbose",
        "base_lr max_lr",
    ),
    "ExponentialLR": TorchClass("last_epoch verbose", "gamma"),
    "LambdaLR": TorchClass("last_epoch verbose", "lr_lambda"),
    "LinearLR": TorchClass("start_factor end_factor total_iters last_epoch verbose"),
    "MultiStepLR": TorchClass("gamma last_epoch verbose", "milestones"),
    "MultiplicativeLR": TorchClass("last_epoch verbose", "lr_lambda"),
    "OneCycleLR": TorchClass(
        "total_steps epochs steps_per_epoch pct_start anneal_strategy cycle_momentum "
        "base_momentum max_momentum div_factor final_div_factor three_phase last_epoch verbose",
        "max_lr",
    ),
    "PolynomialLR": TorchClass("total_iters power last_epoch verbose"),
    "ReduceLROnPlateau": TorchClass(
        "mode factor patience threshold threshold_mode cooldown min_lr eps verbose",
    ),
    "SequentialLR": TorchClass("last_epoch verbose", "schedulers milestones"),
    "StepLR": TorchClass("gamma last_epoch verbose", "step_size"),
}
"""Schedulers, including those that no config can build: see `OF_OBJECTS`."""

OF_OBJECTS: dict[str, str] = {
    "ChainedScheduler": "other schedulers",
    "LambdaLR": "functions",
    "MultiplicativeLR": "functions",
    "SequentialLR": "other schedulers",
}
"""Schedulers whose arguments are Python objects, with a description of these objects."""
