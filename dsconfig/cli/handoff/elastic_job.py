"""The config and plan of an elastic job, as read on every node."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.core.json_types import JsonObject
    from elastic.planning.plan import Plan


def read_config(path: str) -> JsonObject:
    """Read the config from a file, as DeepSpeed does.

    Raises:
        AgentError: the file has no config; the message names the file.
    """
    from dsconfig.document import read_file
    from elastic.agent.errors import RefusedError, SettingsError

    try:
        document = read_file(path)
    except OSError as error:
        raise SettingsError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    value = document.value()
    if not document.is_readable() or not isinstance(value, dict):
        raise RefusedError(f"{path} is not a valid config: run `dsconfig check {path}` for the reason")
    return value


def missing_block_hint(config: Mapping[str, object]) -> str:
    """Return a hint to add an `elasticity` block, or "" if the config already has one."""
    if isinstance(config.get("elasticity"), dict):
        return ""
    block = '"elasticity": {"enabled": true, "max_train_batch_size": 2048, "micro_batch_sizes": [2, 4, 8]}'
    return f": add one, for example `{block}`, or run `dsconfig init --preset elastic --target 0.19.7`"


def plan_elastic_job(config: JsonObject, path: str) -> Plan:
    """Return the elastic plan of the config in a file.

    Raises:
        AgentError: there is no plan, or the block differs from `DEEPSPEED_ELASTICITY_CONFIG`.
    """
    from elastic import ElasticityError, ensure_immutable_elastic_config, plan
    from elastic.agent.errors import RefusedError
    from elastic.constants import DEEPSPEED_ELASTICITY_CONFIG

    try:
        result = plan(config)
        if DEEPSPEED_ELASTICITY_CONFIG in os.environ:
            ensure_immutable_elastic_config(config["elasticity"])
    except (ElasticityError, ValueError, TypeError) as error:
        raise RefusedError(f"{path}: {error}{missing_block_hint(config)}") from None
    return result
