"""Who reads a DeepSpeed config: the parser, the keys that are the consumer's own, and what becomes of "auto".

Sources: transformers 5.23 integrations/deepspeed.py, HfTrainerDeepSpeedConfig; accelerate 1.15
utils/dataclasses.py, DeepSpeedPlugin, and accelerator.py, Accelerator._prepare_deepspeed; lightning 2.6
strategies/deepspeed.py, DeepSpeedStrategy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

CONSUMERS = ("deepspeed", "transformers", "accelerate", "lightning")
Stage = Literal["arguments", "plugin", "model", "prepare"]
"""When a key is filled: as the training arguments are made, as the plugin is, once the model is loaded, or
in `Accelerator.prepare`.
"""


@dataclass(frozen=True, slots=True)
class Fill:
    """What one "auto" becomes. Where `must_match`, a written value that differs from it is an error."""

    key: str
    origin: str
    stage: Stage
    must_match: bool = False


@dataclass(frozen=True, slots=True)
class Consumer:
    """One consumer. `defaults` are the training arguments that nobody gives."""

    name: str
    parser: Literal["hjson", "json"]
    own_keys: tuple[str, ...] = ()
    """Keys at the top level that the consumer reads or writes, and DeepSpeed does not."""
    fills: tuple[Fill, ...] = ()
    mismatch_raises: str | None = None
    """When the error about mismatches comes; None: never."""
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def origin(self, key: str) -> str | None:
        """From what the consumer fills the key; None where it does not."""
        return next((fill.origin for fill in self.fills if fill.key == key), None)


_ZERO = "zero_optimization"
_BUCKETS = (
    (f"{_ZERO}.reduce_bucket_size", "hidden size²"),
    (f"{_ZERO}.stage3_prefetch_bucket_size", "0.9 × hidden size²"),
    (f"{_ZERO}.stage3_param_persistence_threshold", "10 × hidden size"),
)
_PLUGIN = (
    Fill(f"{_ZERO}.stage", "zero_stage", "plugin"),
    Fill(f"{_ZERO}.offload_optimizer.device", "offload_optimizer_device", "plugin"),
    Fill(f"{_ZERO}.offload_param.device", "offload_param_device", "plugin"),
    Fill(f"{_ZERO}.offload_optimizer.nvme_path", "offload_optimizer_nvme_path", "plugin"),
    Fill(f"{_ZERO}.offload_param.nvme_path", "offload_param_nvme_path", "plugin"),
    Fill(f"{_ZERO}.stage3_gather_16bit_weights_on_model_save", "zero3_save_16bit_model", "plugin"),
)
"""By the plugin, which the Trainer makes too."""
PLUGIN_DEFAULTS: Mapping[str, Any] = {
    "zero_stage": 2,
    "offload_optimizer_device": "none",
    "offload_param_device": "none",
    "offload_optimizer_nvme_path": "none",
    "offload_param_nvme_path": "none",
    "zero3_save_16bit_model": False,
}

TRANSFORMERS = Consumer(
    "transformers",
    "json",
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
        *_PLUGIN,
        *(Fill(key, origin, "model") for key, origin in _BUCKETS),
        Fill("scheduler.params.total_num_steps", "the number of training steps", "model", True),
        Fill("scheduler.params.warmup_num_steps", "warmup_steps", "model", True),
    ),
    mismatch_raises="as training starts, once the model is loaded",
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
        **PLUGIN_DEFAULTS,
    },
)

ACCELERATE = Consumer(
    "accelerate",
    "json",
    own_keys=("msamp",),
    fills=(
        *_PLUGIN,
        Fill("fp16.enabled", 'mixed_precision is "fp16"', "plugin"),
        Fill("bf16.enabled", 'mixed_precision is "bf16" or "fp8"', "plugin"),
        Fill("train_micro_batch_size_per_gpu", "per_device_train_batch_size, the data loader's", "prepare"),
        Fill("gradient_accumulation_steps", "gradient_accumulation_steps", "prepare"),
        Fill("train_batch_size", "micro batch × accumulation steps × processes", "prepare"),
        Fill("gradient_clipping", "gradient_clipping, else 1.0", "prepare"),
        *(Fill(key, origin, "prepare") for key, origin in _BUCKETS),
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

BY_NAME: Mapping[str, Consumer] = {
    "deepspeed": Consumer("deepspeed", "hjson"),
    "transformers": TRANSFORMERS,
    "accelerate": ACCELERATE,
    "lightning": Consumer("lightning", "json"),
}
