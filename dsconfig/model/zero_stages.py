"""Which ZeRO stages read a key of `zero_optimization`.

Source: deepspeed runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer, which hands each optimizer its own keys.
"""

from __future__ import annotations

_PARTITIONED = (3,)
_GRADIENTS = (1, 2)
READ_BY: dict[str, tuple[int, ...]] = {
    "sub_group_size": _PARTITIONED,
    "stage3_prefetch_bucket_size": _PARTITIONED,
    "stage3_param_persistence_threshold": _PARTITIONED,
    "stage3_model_persistence_threshold": _PARTITIONED,
    "stage3_max_live_parameters": _PARTITIONED,
    "stage3_max_reuse_distance": _PARTITIONED,
    "stage3_gather_16bit_weights_on_model_save": _PARTITIONED,
    "stage3_gather_fp16_weights_on_model_save": _PARTITIONED,
    "stage3_module_granularity_threshold": _PARTITIONED,
    "stage3_use_all_reduce_for_fetch_params": _PARTITIONED,
    "stage3_allgather_sequential": _PARTITIONED,
    "zero_hpz_partition_size": _PARTITIONED,
    "zero_quantized_weights": _PARTITIONED,
    "zero_quantized_nontrainable_weights": _PARTITIONED,
    "zero_quantized_gradients": _PARTITIONED,
    "memory_efficient_linear": _PARTITIONED,
    "leaf_module": _PARTITIONED,
    "override_module_apply": _PARTITIONED,
    "enable_sanity_checks": _PARTITIONED,
    "log_trace_cache_warnings": _PARTITIONED,
    "save_muon_momentum_buffer_in_memory": _PARTITIONED,
    "round_robin_gradients": _GRADIENTS,
    "allgather_bucket_size": _GRADIENTS,
    "use_multi_rank_bucket_allreduce": _GRADIENTS,
    "ignore_unused_parameters": _GRADIENTS,
    "parameter_alignment": _GRADIENTS,
    "reduce_bucket_size": (1, 2, 3),
    "reduce_scatter": (1, 2, 3),
    "contiguous_gradients": (1, 2, 3),
    "overlap_comm": (1, 2, 3),
    "load_from_fp32_weights": (1, 2, 3),
}
"""The stages that look at a key; keys with a rule of their own are not here."""
