"""The config that OpenRLHF makes of its flags; it reads no file.

Source: OpenRLHF 0.11 utils/deepspeed/deepspeed_utils.py, get_train_ds_config; deepspeed.py,
DeepspeedStrategy.get_ds_train_config; the older flags: 0.8 cli/train_sft.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from dsconfig.core.json_types import Json, JsonObject
from dsconfig.launch.training_arguments import plain


def config(flags: Mapping[str, Json]) -> JsonObject:
    """The config of a job; what its shell alone knows is left to DeepSpeed's defaults."""

    def flag(default: Json, *names: str) -> Json:
        return next((plain(flags[name]) for name in names if flags.get(name) is not None), default)

    stage = flag(2, "ds.zero_stage", "zero_stage")
    dtype = flag("bf16", "ds.param_dtype", "param_dtype")
    ring = flag(1, "ds.ring_attn_size", "ring_attn_size")
    tensor = flag(1, "ds.tensor_parallel_size", "ds_tensor_parallel_size")
    zero: JsonObject = {
        "stage": stage,
        "offload_param": {"device": "none"},
        "offload_optimizer": {
            "device": "cpu" if flag(False, "ds.adam_offload", "adam_offload") else "none",
            "pin_memory": True,
        },
        "zero_hpz_partition_size": flag(1, "ds.zpg", "zpg"),
    }
    if flag(False, "ds.overlap_comm", "overlap_comm"):
        zero |= {"overlap_comm": True, "contiguous_gradients": True}
    if stage == 3:
        zero["reduce_scatter"] = True
    made: JsonObject = {
        "zero_optimization": zero,
        "bf16": {"enabled": dtype == "bf16"},
        "fp16": {"enabled": dtype == "fp16"},
        "gradient_clipping": flag(1.0, "max_norm", "adam.max_norm"),
    }
    if tensor != 1:
        made["tensor_parallel"] = {"autotp_size": tensor}
    batch = flag(None, "train.batch_size", "train_batch_size")
    micro = flag(None, "train.micro_batch_size", "micro_train_batch_size")
    if flag(False, "train.dynamic_batch_enable", "use_dynamic_batch"):
        return made | {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1}
    if micro is not None:
        made["train_micro_batch_size_per_gpu"] = micro
    if batch is not None and all(type(each) is int for each in (batch, ring, tensor)):
        made["train_batch_size"] = batch * ring * tensor
    return made
