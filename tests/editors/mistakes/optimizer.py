"""Mistakes in optimizers and schedulers."""

from __future__ import annotations

from tests.editors.mistakes.mistake import Mistake, adamw, root, schedule

_OPTIMIZERS = '"Adam", "AdamW", "Adagrad", "Lamb", "Lion", "Muon", "MuAdam", "MuAdamW", "MuSGD"'
OPTIMIZER_PARAMS, SCHEDULER_PARAMS = "optimizer.params", "scheduler.params"
OPTIMIZER = (
    Mistake(
        root(offload_optimizer={"device": "cpu"}),
        "offload_optimizer",
        "key",
        "Property offload_optimizer is not allowed.",
    ),
    Mistake(adamw(lr="1e-4"), f"{OPTIMIZER_PARAMS}.lr", "value", 'expected a number or "auto"', yaml=""),
    Mistake(adamw(lr=[1e-4]), f"{OPTIMIZER_PARAMS}.lr", "value", 'expected a number or "auto"'),
    Mistake(adamw(betas=0.9), f"{OPTIMIZER_PARAMS}.betas", "value", 'expected a list of numbers or "auto"'),
    Mistake(
        adamw(bias_correction="yes"),
        f"{OPTIMIZER_PARAMS}.bias_correction",
        "value",
        'Incorrect type. Expected "boolean".',
    ),
    Mistake(
        root(optimizer={"type": 3}),
        "optimizer.type",
        "value",
        f"Value is not accepted. Valid values: {_OPTIMIZERS}.",
        yaml="expected a string or null",
    ),
    Mistake(root(optimizer={"params": {"lr": 0.1}}), "optimizer", "key", 'Missing property "type".'),
    Mistake(
        root(optimizer={"type": "Muon", "params": {"ns_method": "exact"}}),
        f"{OPTIMIZER_PARAMS}.ns_method",
        "value",
        'Value is not accepted. Valid values: "gram", "standard".',
    ),
    Mistake(
        schedule("WarmupLR", warmup_num_steps=0),
        f"{SCHEDULER_PARAMS}.warmup_num_steps",
        "value",
        "Value is below the minimum of 1.",
    ),
    Mistake(
        schedule("WarmupDecayLR", warmup_num_steps=10),
        SCHEDULER_PARAMS,
        "key",
        'Missing property "total_num_steps".',
    ),
    Mistake(
        schedule("OneCycle", cycle_min_lr="x", cycle_max_lr=1),
        f"{SCHEDULER_PARAMS}.cycle_min_lr",
        "value",
        "Incorrect type. Expected one of number, array.",
    ),
    Mistake(root(scheduler={"type": "WarmupLR"}), "scheduler", "key", 'Missing property "params".'),
)
