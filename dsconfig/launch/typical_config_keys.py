"""Root keys that identify a DeepSpeed config, whatever the name of its file."""

from __future__ import annotations

from collections.abc import Collection

UNMISTAKABLE = frozenset((
    "zero_optimization",
    "train_micro_batch_size_per_gpu",
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer",
    "deepspeed_transformer_kernel",
    "wall_clock_breakdown",
))  # fmt: skip
TYPICAL = frozenset((
    "train_batch_size",
    "gradient_accumulation_steps",
    "steps_per_print",
    "gradient_clipping",
    "prescale_gradients",
    "optimizer",
    "scheduler",
    "fp16",
    "bf16",
    "activation_checkpointing",
    "flops_profiler",
    "comms_logger",
    "communication_data_type",
    "sparse_attention",
    "compression_training",
    "data_efficiency",
    "elasticity",
    "autotuning",
))  # fmt: skip
"""Root keys that other programs use too; an object with at least `LEAST_TYPICAL` of them is a DeepSpeed config."""
LEAST_TYPICAL = 3


def are_config_keys(keys: Collection[str], least: int = LEAST_TYPICAL) -> bool:
    """Return whether one of the keys occurs only in DeepSpeed configs, or at least `least` keys are typical of them."""
    return not UNMISTAKABLE.isdisjoint(keys) or len(TYPICAL.intersection(keys)) >= least
