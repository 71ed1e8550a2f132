"""The Trainer of Transformers.

Source: transformers 5.23 integrations/deepspeed.py, HfTrainerDeepSpeedConfig.
"""

from __future__ import annotations

from dsconfig.consumers.accelerate_plugin import BUCKETS, PLUGIN, PLUGIN_DEFAULTS
from dsconfig.consumers.consumer import Consumer, Fill

TRANSFORMERS = Consumer(
    "transformers",
    fills=(
        Fill("train_micro_batch_size_per_gpu", "per_device_train_batch_size", "arguments", True),
        Fill("gradient_accumulation_steps", "gradient_accumulation_steps", "arguments", True),
        Fill(
            "train_batch_size",
            "world size × per_device_train_batch_size × gradient_accumulation_steps",
            "arguments",
            True,
        ),
        Fill("gradient_clipping", "max_grad_norm", "arguments", True),
        Fill("optimizer.params.lr", "learning_rate", "arguments", True),
        Fill("optimizer.params.betas", "[adam_beta1, adam_beta2]", "arguments", True),
        Fill("optimizer.params.eps", "adam_epsilon", "arguments", True),
        Fill("optimizer.params.weight_decay", "weight_decay", "arguments", True),
        Fill("scheduler.params.warmup_min_lr", "0", "arguments"),
        Fill("scheduler.params.warmup_max_lr", "learning_rate", "arguments", True),
        Fill("fp16.enabled", "fp16 or fp16_full_eval", "arguments", True),
        Fill("bf16.enabled", "bf16 or bf16_full_eval", "arguments", True),
        *(each._replace(change="plugin") for each in PLUGIN),
        *(Fill(key, origin, "model") for key, origin in BUCKETS),
        Fill("scheduler.params.total_num_steps", "the number of training steps", "model", True),
        Fill("scheduler.params.warmup_num_steps", "warmup_steps", "model", True),
    ),
    former=(
        Fill("amp.enabled", "fp16_backend", "arguments", True, "!no_amp"),
        Fill("amp.opt_level", "fp16_opt_level", "arguments", True, "!no_amp"),
    ),
    defaults={
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 1,
        "learning_rate": 5e-5,
        "weight_decay": 0.0,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-8,
        "max_grad_norm": 1.0,
        "warmup_steps": 0,
        "warmup_ratio": 0.0,
        "max_steps": -1,
        "fp16": False,
        "bf16": False,
        "fp16_full_eval": False,
        "bf16_full_eval": False,
        "save_on_each_node": False,
        "auto_find_batch_size": False,
        **PLUGIN_DEFAULTS,
    },
)
