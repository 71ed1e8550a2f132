"""Names and defaults of the `elasticity` block, and the numbers with which the solver scales batches.

Source: DeepSpeed `elasticity/constants.py` (0.7.0 to 0.19.7) and `elasticity/elasticity.py`, `HCN_LIST`.
"""

from __future__ import annotations

from typing import Final

ELASTICITY: Final = "elasticity"

ENABLED: Final = "enabled"
ENABLED_DEFAULT: Final = False

MAX_ACCEPTABLE_BATCH_SIZE: Final = "max_train_batch_size"
MAX_ACCEPTABLE_BATCH_SIZE_DEFAULT: Final = 2000
"""Default cap of the batch size, in samples per optimizer step."""

MICRO_BATCHES: Final = "micro_batch_sizes"
MICRO_BATCHES_DEFAULT: Final = [2, 4, 6]
"""Default micro batch sizes, in samples per forward pass on one data-parallel rank."""

MIN_GPUS: Final = "min_gpus"
MIN_GPUS_DEFAULT: Final = 1

MAX_GPUS: Final = "max_gpus"
MAX_GPUS_DEFAULT: Final = 10000

NUM_GPUS_PER_NODE: Final = "num_gpus_per_node"
NUM_GPUS_PER_NODE_DEFAULT: Final = 1

MODEL_PARALLEL_SIZE: Final = "model_parallel_size"
MODEL_PARALLEL_SIZE_DEFAULT: Final = 1
"""Default number of GPUs that hold one copy of the model."""

MIN_TIME: Final = "min_time"
MIN_TIME_DEFAULT: Final = 0
"""Default number of minutes that a job runs before a scheduler may resize it; 0 means no limit."""

PREFER_LARGER_BATCH: Final = "prefer_larger_batch"
PREFER_LARGER_BATCH_DEFAULT: Final = True

IGNORE_NON_ELASTIC_BATCH_INFO: Final = "ignore_non_elastic_batch_info"
IGNORE_NON_ELASTIC_BATCH_INFO_DEFAULT: Final = False

LATEST_ELASTICITY_VERSION: Final = 0.2
VERSION: Final = "version"
VERSION_DEFAULT: Final = LATEST_ELASTICITY_VERSION

MINIMUM_DEEPSPEED_VERSION: Final = "0.3.8"

DEEPSPEED_ELASTICITY_CONFIG: Final = "DEEPSPEED_ELASTICITY_CONFIG"
"""Environment variable in which a scheduler stores, as JSON, the block that it planned with."""

WORLD_SIZE: Final = "WORLD_SIZE"
"""Environment variable in which launchers store the number of processes, one per GPU."""

TRAIN_BATCH_SIZE: Final = "train_batch_size"
TRAIN_MICRO_BATCH_SIZE_PER_GPU: Final = "train_micro_batch_size_per_gpu"
GRADIENT_ACCUMULATION_STEPS: Final = "gradient_accumulation_steps"
BATCH_KEYS: Final = (TRAIN_BATCH_SIZE, TRAIN_MICRO_BATCH_SIZE_PER_GPU, GRADIENT_ACCUMULATION_STEPS)

# The highly composite numbers up to 720720: each has more divisors than any smaller number.
# fmt: off
HCN_LIST: Final = [
    1, 2, 4, 6, 12, 24, 36, 48, 60, 120, 180, 240, 360, 720, 840, 1260, 1680, 2520, 5040, 7560,
    10080, 15120, 20160, 25200, 27720, 45360, 50400, 55440, 83160, 110880, 166320, 221760, 277200,
    332640, 498960, 554400, 665280, 720720,
]
# fmt: on

MOST_MICRO_BATCHES: Final = 4096
"""Maximum number of micro batch sizes; the solver tries each one with the candidate batch of every other."""
MOST_DIVISIONS: Final = 10**7
"""Maximum number of trial divisions, which take a few seconds; DeepSpeed would count for days beyond it."""
