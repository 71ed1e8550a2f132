"""The two questions around the solver: is elasticity on, and did the scheduler plan with the same block?

Source: `elasticity/elasticity.py`, `elasticity_enabled` and `ensure_immutable_elastic_config`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from elastic import constants as c
from elastic.deepspeed.config import ElasticityConfig
from elastic.deepspeed.semantics import LATEST, Semantics
from elastic.errors import ElasticityConfigError
from elastic.json_types import Json

_COMPARED = (
    (c.MAX_ACCEPTABLE_BATCH_SIZE, "max_acceptable_batch_size"),
    (c.MICRO_BATCHES, "micro_batches"),
    (c.VERSION, "version"),
)


def elasticity_enabled(ds_config: Mapping[str, Json]) -> bool:
    """The `enabled` of the config's `elasticity` block as written; `False` without either."""
    if c.ELASTICITY not in ds_config:
        return False
    enabled: bool = ds_config[c.ELASTICITY].get(c.ENABLED, c.ENABLED_DEFAULT)
    return enabled


def ensure_immutable_elastic_config(
    runtime_elastic_config_dict: Mapping[str, Json], *, semantics: Semantics = LATEST
) -> None:
    """Compare the block with the one the scheduler left in `DEEPSPEED_ELASTICITY_CONFIG`.

    Raises `ElasticityConfigError` where cap, micro batches or version differ, as errors of the
    block itself do; warns where nothing was left.
    """
    text = os.environ.get(c.DEEPSPEED_ELASTICITY_CONFIG)
    if text is None:
        import logging

        logging.getLogger("elastic").warning(
            "%s is not set: the scheduler may resize this job to a world size it cannot run at",
            c.DEEPSPEED_ELASTICITY_CONFIG,
        )
        return
    import json

    planned = ElasticityConfig(json.loads(text), semantics=semantics)
    running = ElasticityConfig(runtime_elastic_config_dict, semantics=semantics)
    for key, attribute in _COMPARED:
        theirs, ours = getattr(planned, attribute), getattr(running, attribute)
        if theirs != ours:
            raise ElasticityConfigError(
                f"the scheduler planned with `{key}` {theirs!r}, this run has {ours!r}; "
                "an elastic job must keep its block"
            )
