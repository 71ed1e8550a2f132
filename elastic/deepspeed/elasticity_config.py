"""`ElasticityConfig`: the `elasticity` block as DeepSpeed reads it, with the same checks in the same order.

Source: `elasticity/config.py`, `ElasticityConfig`.  The class is as lenient as DeepSpeed: 2000.0 and booleans pass, and
strings fail in the first comparison.  `elastic.planning.plan` is strict.
"""

from __future__ import annotations

from collections.abc import Mapping

from elastic import constants as c
from elastic.deepspeed.release_behavior import LATEST, ElasticitySemantics
from elastic.errors import ElasticityConfigError
from elastic.json_files import Json


class ElasticityConfig:
    """The checked `elasticity` block of a DeepSpeed config.

    Releases before 0.7.0 (`semantics`) do not read `model_parallel_size` and `num_gpus_per_node`, which stay 1.

    Raises:
        ElasticityConfigError: a key is missing, a list is invalid, or a number is out of range.
        TypeError: a value is not a number, as in DeepSpeed.
    """

    __slots__ = (
        "enabled",
        "ignore_non_elastic_batch_info",
        "max_acceptable_batch_size",
        "max_gpus",
        "micro_batches",
        "min_gpus",
        "min_time",
        "model_parallel_size",
        "num_gpus_per_node",
        "prefer_larger_batch_size",
        "version",
    )

    enabled: bool
    max_acceptable_batch_size: int
    micro_batches: list[int]
    min_gpus: int
    max_gpus: int
    model_parallel_size: int
    num_gpus_per_node: int
    min_time: int
    version: float
    prefer_larger_batch_size: bool
    ignore_non_elastic_batch_info: bool

    def __init__(self, param_dict: Mapping[str, Json], *, semantics: ElasticitySemantics = LATEST) -> None:
        get = param_dict.get
        self.enabled = get(c.ENABLED, c.ENABLED_DEFAULT)
        if self.enabled:
            for key in (c.MAX_ACCEPTABLE_BATCH_SIZE, c.MICRO_BATCHES):
                if key not in param_dict:
                    raise ElasticityConfigError(f"`elasticity` is enabled but `{key}` is missing")
        self.max_acceptable_batch_size = get(c.MAX_ACCEPTABLE_BATCH_SIZE, c.MAX_ACCEPTABLE_BATCH_SIZE_DEFAULT)
        self.micro_batches = get(c.MICRO_BATCHES, c.MICRO_BATCHES_DEFAULT)
        _check_micro_batches(self.micro_batches)
        self.min_gpus = get(c.MIN_GPUS, c.MIN_GPUS_DEFAULT)
        self.max_gpus = get(c.MAX_GPUS, c.MAX_GPUS_DEFAULT)
        _require_at_least(1, c.MIN_GPUS, self.min_gpus)
        _require_at_least(1, c.MAX_GPUS, self.max_gpus)
        if self.max_gpus < self.min_gpus:
            raise ElasticityConfigError(f"`max_gpus` {self.max_gpus} is below `min_gpus` {self.min_gpus}")
        self.model_parallel_size, self.num_gpus_per_node = 1, 1
        if semantics.latest_version >= 0.2:
            self.model_parallel_size = get(c.MODEL_PARALLEL_SIZE, c.MODEL_PARALLEL_SIZE_DEFAULT)
            _require_at_least(1, c.MODEL_PARALLEL_SIZE, self.model_parallel_size)
            self.num_gpus_per_node = get(c.NUM_GPUS_PER_NODE, c.NUM_GPUS_PER_NODE_DEFAULT)
            _require_at_least(1, c.NUM_GPUS_PER_NODE, self.num_gpus_per_node)
        self.min_time = get(c.MIN_TIME, c.MIN_TIME_DEFAULT)
        _require_at_least(0, c.MIN_TIME, self.min_time)
        self.version = get(c.VERSION, semantics.latest_version)
        self.prefer_larger_batch_size = get(c.PREFER_LARGER_BATCH, c.PREFER_LARGER_BATCH_DEFAULT)
        self.ignore_non_elastic_batch_info = get(
            c.IGNORE_NON_ELASTIC_BATCH_INFO, c.IGNORE_NON_ELASTIC_BATCH_INFO_DEFAULT
        )

    def repr(self) -> dict[str, Json]:
        """Return the attributes as a dict, as DeepSpeed's method of this name does."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __repr__(self) -> str:
        import json

        return json.dumps(self.repr(), sort_keys=True, indent=4)


def _check_micro_batches(micro_batches: object) -> None:
    if not isinstance(micro_batches, list):
        kind = type(micro_batches).__name__
        raise ElasticityConfigError(f"`micro_batch_sizes` must be a list, not a {kind}: {micro_batches!r}")
    for micro_batch in micro_batches:
        if not isinstance(micro_batch, int):
            raise ElasticityConfigError(
                f"`micro_batch_sizes` must contain only integers, not {micro_batch!r}"
            )
    for micro_batch in micro_batches:
        if micro_batch <= 0:
            raise ElasticityConfigError(f"`micro_batch_sizes` must be positive, not {micro_batch!r}")


def _require_at_least(bound: int, key: str, value: float) -> None:
    try:
        below = value < bound
    except TypeError:
        raise TypeError(f"`{key}` must be a number, not {value!r}") from None
    if below:
        raise ElasticityConfigError(f"`{key}` must be at least {bound}, not {value!r}")
