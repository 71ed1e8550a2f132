"""The config and the plan of a job, as every node of it reads them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.core.json_types import JsonObject
    from elastic.planning.plan import Plan


def read_config(path: str) -> JsonObject:
    """The config in a file, read as DeepSpeed reads it.

    Raises:
        AgentError: there is none in it; the text names the file.
    """
    from dsconfig.document import read_file
    from elastic.agent.errors import RefusedError, SettingsError

    try:
        document = read_file(path)
    except OSError as error:
        raise SettingsError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    value = document.value()
    if not document.is_readable() or not isinstance(value, dict):
        raise RefusedError(f"{path} holds no config: `dsconfig check {path}` says why")
    return value


def to_do_without(config: Mapping[str, object]) -> str:
    """What to write where there is no `elasticity` block; empty where there is one."""
    if isinstance(config.get("elasticity"), dict):
        return ""
    block = '"elasticity": {"enabled": true, "max_train_batch_size": 2048, "micro_batch_sizes": [2, 4, 8]}'
    return f": add one, such as `{block}`, or start from `dsconfig init --preset elastic --target 0.19.7`"


def plan_of(config: JsonObject, path: str) -> Plan:
    """The plan of the config in a file.

    Raises:
        AgentError: there is none, or not the one that the scheduler left in `DEEPSPEED_ELASTICITY_CONFIG`.
    """
    from elastic import ElasticityError, ensure_immutable_elastic_config, plan
    from elastic.agent.errors import RefusedError
    from elastic.constants import DEEPSPEED_ELASTICITY_CONFIG

    try:
        found = plan(config)
        if DEEPSPEED_ELASTICITY_CONFIG in os.environ:
            ensure_immutable_elastic_config(config["elasticity"])
    except (ElasticityError, ValueError, TypeError) as error:
        raise RefusedError(f"{path}: {error}{to_do_without(config)}") from None
    return found
