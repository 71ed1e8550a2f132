"""The batch triplet, and other keys that determine the number of samples per optimizer step."""

from typing import Annotated

from dsconfig.model.key import EarlierType, Key
from dsconfig.model.section import DERIVED, Auto, PositiveInt, RootKeys


class BatchRootKeys(RootKeys):
    """Root keys about batches. The first three form the batch triplet: any two determine the third."""

    train_batch_size: Annotated[
        PositiveInt | Auto | None,
        Key(
            since="0.1.0",
            source="runtime/config.py:get_train_batch_size",
            unit="samples",
            fills=("transformers", "accelerate"),
            miswritten=("batch_size", "global_batch_size"),
            defaults=(("0.1.0", 1),),
            wrong_type="ignored",
        ),
    ] = None
    """Global batch size per optimizer step: micro-batch size × gradient accumulation steps × data-parallel
    size. Derived if absent; this key or `train_micro_batch_size_per_gpu` is required."""
    train_micro_batch_size_per_gpu: Annotated[
        PositiveInt | Auto | None,
        Key(
            since="0.1.0",
            source="runtime/config.py:get_train_micro_batch_size_per_gpu",
            unit="samples",
            miswritten=(
                "train_micro_batch_size",
                "micro_batch_size",
                "micro_batch_per_gpu",
                "train_step_batch_size",
                "train_micro_batch_size_per_device",
                "per_device_train_batch_size",
            ),
            fills=("transformers", "accelerate"),
            wrong_type="ignored",
        ),
    ] = None
    """Samples per rank in one forward and backward pass. Larger values use the GPU better and need more
    activation memory. Derived from the other two batch keys if absent."""
    gradient_accumulation_steps: Annotated[
        PositiveInt | Auto | None,
        Key(
            since="0.1.0",
            source="runtime/config.py:get_gradient_accumulation_steps",
            miswritten=("grandient_accumulation_steps", "gradient_accumulation", "grad_accum_steps"),
            unit="micro-batches",
            fills=("transformers", "accelerate"),
            wrong_type="ignored",
        ),
    ] = None
    """Micro-batches per rank whose gradients are accumulated before an optimizer step: larger batches without
    more memory. Derived from the other two batch keys if absent; 1 if only one of them is set."""
    managed_gradient_accumulation: Annotated[
        bool, Key(since="0.19.4", source="runtime/config.py:get_managed_gradient_accumulation")
    ] = True
    """The engine counts micro-batches and updates only at the end of a batch. If false, every `engine.step()`
    is an update and the caller counts."""
    sequence_parallel_size: Annotated[
        PositiveInt,
        Key(
            since="0.15.0",
            source="runtime/config.py:DeepSpeedConfig.__init__",
            unit="ranks",
            was=(EarlierType("0.19.2", object),),
        ),
    ] = DERIVED
    """Ranks that share one sequence (Ulysses). Divides the world size in the batch arithmetic. Together with
    `data_parallel_size`, DeepSpeed builds a device mesh from both. 1 if absent. Releases up to 0.19.2
    accept any value and use 1 unless it is a number."""
    data_parallel_size: Annotated[
        PositiveInt, Key(since="0.15.0", source="__init__.py:initialize", unit="ranks")
    ] = DERIVED
    """Data-parallel ranks of the device mesh, which DeepSpeed builds only if `sequence_parallel_size` is set
    too."""
    dataloader_drop_last: Annotated[
        bool, Key(since="0.5.2", source="runtime/config.py:get_dataloader_drop_last")
    ] = False
    """Drop the last, incomplete batch in the data loader that the engine builds from `training_data`."""
