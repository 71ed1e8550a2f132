"""Accelerate, for scripts of one's own.

Source: accelerate 1.15 utils/dataclasses.py, DeepSpeedPlugin; accelerator.py, Accelerator._prepare_deepspeed.
"""

from __future__ import annotations

from dsconfig.consumers.accelerate_plugin import BUCKETS, PLUGIN, PLUGIN_DEFAULTS
from dsconfig.consumers.consumer import Consumer, Fill

ACCELERATE = Consumer(
    "accelerate",
    own_keys=("msamp",),
    fills=(
        *(each._replace(change="nvme_path") if each.key.endswith("nvme_path") else each for each in PLUGIN),
        Fill("fp16.enabled", 'mixed_precision is "fp16"', "plugin"),
        Fill("bf16.enabled", 'mixed_precision is "bf16" or "fp8"', "plugin"),
        Fill("train_micro_batch_size_per_gpu", "per_device_train_batch_size, the data loader's", "prepare"),
        Fill("gradient_accumulation_steps", "gradient_accumulation_steps", "prepare"),
        Fill("train_batch_size", "micro batch × accumulation steps × processes", "prepare"),
        Fill("gradient_clipping", "gradient_clipping, else 1.0", "prepare"),
        *(Fill(key, origin, "prepare") for key, origin in BUCKETS),
        Fill("optimizer.params.lr", "DummyOptim.lr", "prepare"),
        Fill("optimizer.params.weight_decay", "DummyOptim.weight_decay", "prepare"),
        Fill("scheduler.params.warmup_min_lr", "0", "prepare"),
        Fill("scheduler.params.warmup_max_lr", "DummyOptim.lr", "prepare"),
        Fill("scheduler.params.warmup_num_steps", "DummyScheduler.warmup_num_steps", "prepare"),
        Fill("scheduler.params.total_num_steps", "DummyScheduler.total_num_steps", "prepare"),
    ),
    defaults={
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 1.0,
        "learning_rate": 0.001,
        "weight_decay": 0,
        "warmup_steps": 0,
        "mixed_precision": "no",
        "split_batches": False,
        "max_steps": -1,
        **PLUGIN_DEFAULTS,
    },
)
