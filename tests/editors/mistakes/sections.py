"""Mistakes in other sections."""

from __future__ import annotations

from tests.editors.mistakes.mistake import Mistake, root

SECTIONS = (
    Mistake(
        root(log_level="verbose"),
        "log_level",
        "value",
        'Value is not accepted. Valid values: "debug", "info", "warning", "error", "critical", null.',
        yaml='expected one of "debug", "info", "warning", "error", "critical" or null',
    ),
    Mistake(
        root(elasticity={"enabled": True}),
        "elasticity",
        "key",
        "`elasticity` was removed from DeepSpeed after 0.19.7",
    ),
    Mistake(
        root(sparse_attention={"mode": "fixed"}),
        "sparse_attention",
        "key",
        "`sparse_attention` was removed from DeepSpeed after 0.19.6",
    ),
    Mistake(
        root(tensorboard={"enabled": True, "job": "x"}),
        "tensorboard.job",
        "key",
        "Property job is not allowed.",
    ),
    Mistake(
        root(wandb={"enabled": True, "project": 3}),
        "wandb.project",
        "value",
        'Incorrect type. Expected "string".',
    ),
    Mistake(
        root(flops_profiler={"enabled": True, "profile_step": "5"}),
        "flops_profiler.profile_step",
        "value",
        'Incorrect type. Expected "integer".',
    ),
    Mistake(
        root(checkpoint={"tag_validation": "maybe"}),
        "checkpoint.tag_validation",
        "value",
        'Value is not accepted. Valid values: "WARN", "IGNORE", "FAIL".',
        yaml='expected one of "WARN", "IGNORE" or "FAIL"',
    ),
    Mistake(
        root(comms_logger={"enabled": True, "prof_ops": "all"}),
        "comms_logger.prof_ops",
        "value",
        "expected a list",
    ),
    Mistake(
        root(tensor_parallel={"autotp_size": -1.5}),
        "tensor_parallel.autotp_size",
        "value",
        "expected an integer",
        yaml='Incorrect type. Expected "integer | string".',
    ),
    Mistake(root(compile={"deepcompile": "on"}), "compile.deepcompile", "value", "expected true or false"),
)
