"""Optimizers and schedulers."""

from __future__ import annotations

from tests.parity.generators.situations.base import (
    ABSENT,
    BOOL,
    SHAPES,
    STAGES,
    TRUTHY,
    Situation,
)

OPTIMIZER = (
    Situation(
        "optimizer-type",
        {
            "optimizer.type": ("Adam", "adamw", "Nonesuch", "", None, 1, True, ["Adam"], {}, "auto", ABSENT),
            "optimizer.params": ({"lr": 0.1}, {}, None, [], "x", 1, ABSENT),
            "optimizer.legacy_fusion": (True, "x", None, ABSENT),
        },
    ),
    Situation(
        "optimizer-max-grad-norm",
        {
            "optimizer.type": ("Adam", "Lamb", None, "Custom", ABSENT),
            "optimizer.params.max_grad_norm": (1.0, 0, -1, "auto", "1", None, True, [1], {}),
            "fp16.enabled": BOOL,
        },
    ),
    Situation(
        "optimizer-and-scheduler-shapes",
        {"optimizer": (*SHAPES, "Adam"), "scheduler": (*SHAPES, "WarmupLR", ABSENT)},
    ),
    Situation(
        "scheduler",
        {
            "scheduler.type": ("WarmupLR", "Nonesuch", None, 1, [], "auto", ABSENT),
            "scheduler.params": (
                {"warmup_num_steps": 10},
                {},
                None,
                [],
                "x",
                ABSENT,
                {"warmup_num_steps": "auto"},
            ),
        },
    ),
    Situation(
        "untested-optimizer",
        {
            "zero_allow_untested_optimizer": TRUTHY,
            "zero_force_ds_cpu_optimizer": TRUTHY,
            "zero_optimization.stage": STAGES,
        },
    ),
    Situation(
        "vocabulary",
        {
            "vocabulary_size": (
                50304,
                50257,
                0,
                -1,
                "50304",
                "auto",
                None,
                8.5,
                True,
                [],
                [1],
                {},
                {"a": 1},
                "%d",
            ),
            "fp16.enabled": BOOL,
        },
    ),
)
