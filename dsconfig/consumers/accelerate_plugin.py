"""Accelerate's plugin for DeepSpeed, which the Trainer of Transformers makes too.

Source: accelerate 1.15 utils/dataclasses.py, DeepSpeedPlugin.
"""

from __future__ import annotations

from collections.abc import Mapping

from dsconfig.consumers.consumer import Fill
from dsconfig.core.json_types import Json

_ZERO = "zero_optimization"
BUCKETS = (
    (f"{_ZERO}.reduce_bucket_size", "hidden size²"),
    (f"{_ZERO}.stage3_prefetch_bucket_size", "0.9 × hidden size²"),
    (f"{_ZERO}.stage3_param_persistence_threshold", "10 × hidden size"),
)
PLUGIN = (
    Fill(f"{_ZERO}.stage", "zero_stage", "plugin"),
    Fill(f"{_ZERO}.offload_optimizer.device", "offload_optimizer_device", "plugin"),
    Fill(f"{_ZERO}.offload_param.device", "offload_param_device", "plugin"),
    Fill(f"{_ZERO}.offload_optimizer.nvme_path", "offload_optimizer_nvme_path", "plugin"),
    Fill(f"{_ZERO}.offload_param.nvme_path", "offload_param_nvme_path", "plugin"),
    Fill(f"{_ZERO}.stage3_gather_16bit_weights_on_model_save", "zero3_save_16bit_model", "plugin"),
)
"""Filled by the plugin, which the Trainer makes too."""
PLUGIN_DEFAULTS: Mapping[str, Json] = {
    "zero_stage": 2,
    "offload_optimizer_device": "none",
    "offload_param_device": "none",
    "offload_optimizer_nvme_path": "none",
    "offload_param_nvme_path": "none",
    "zero3_save_16bit_model": False,
}
