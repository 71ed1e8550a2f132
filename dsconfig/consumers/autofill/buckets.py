"""ZeRO's buckets, which Transformers and Accelerate size by the model's hidden size."""

from __future__ import annotations

from dsconfig.consumers.autofill.filling import Filling
from dsconfig.consumers.training_args import hidden_size

ZERO = "zero_optimization"
REDUCE, PREFETCH = f"{ZERO}.reduce_bucket_size", f"{ZERO}.stage3_prefetch_bucket_size"
PERSISTENCE = f"{ZERO}.stage3_param_persistence_threshold"


def fill_buckets(filling: Filling, *, all_stages: bool) -> None:
    """Fill the bucket sizes; `all_stages`: those of stage 3 too."""
    does = filling.consumer.does
    nested = filling.consumer.name == "transformers" and does("text_config")
    model = filling.model
    if model is not None and not does("hidden_sizes"):
        model = {name: value for name, value in model.items() if name != "hidden_sizes"}
    hidden = hidden_size(model, nested=nested) if model is not None else None
    filling.fill(REDUCE, hidden and hidden * hidden, f"hidden size {hidden}²")
    if all_stages:
        bucket = hidden and 0.9 * hidden * hidden
        whole = bucket and int(bucket)
        filling.fill(PREFETCH, whole if does("whole_bucket") else bucket, f"0.9 × hidden size {hidden}²")
        filling.fill(PERSISTENCE, hidden and 10 * hidden, f"10 × hidden size {hidden}")
