"""Differences between the model and a release that are right as they are, each with its reason."""

from __future__ import annotations

VALIDATOR = "a validator beside the field is stricter or more lenient than its annotation"
MISNAMED = "DeepSpeed looks up the name of a constant instead of the key: nobody can mean it"
EXPLAINED: dict[tuple[str, str], str] = {
    ("changes", r"fp16\.loss_scale"): VALIDATOR,
    ("changes", r"zero_optimization\.leaf_module\.(classes|names|name_suffixes)"): VALIDATOR,
    ("changes", r"zero_optimization\.zenflow\.(select_interval|select_strategy|update_interval)"): VALIDATOR,
    ("changes", r"tensor_parallel\.dtype"): "a torch.dtype, which no JSON value is",
    ("removes", r"optimizer\.params\.(initial_accumulator_value|lr_decay)"): "torch's own Adagrad takes it",
    (
        "removes",
        r"datastates_ckpt\.host_cache_size",
    ): "the datastates package reads it",
    ("adds", r"compression_training\.shared_parameters"): "looked up one level too high; the rules know",
    ("adds", r"zero_optimization\.ZERO_OPTIMIZATION_\w+"): MISNAMED,
}
"""(change, pattern of the whole path) → why the model says otherwise."""
