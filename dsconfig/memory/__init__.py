"""Memory of a training job: `estimate(config, model, job)`, `fit(config, model, job, limits)`, and what rules ask.

    job = TrainingJob("0.19.8", world_size=8, micro_batch=MicroBatch(1, 2048), gpus_per_node=8)
    estimate(Values({"zero_optimization.stage": 3, "bf16.enabled": True}), preset_of("llama-3-8b"), job)

Names are imported when they are first used, so that `check` without a model loads none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsconfig.memory.config_changes import AppliedChange as AppliedChange
    from dsconfig.memory.config_changes import ConfigChange as ConfigChange
    from dsconfig.memory.config_changes import change_of_values as change_of_values
    from dsconfig.memory.config_changes import merge_values as merge_values
    from dsconfig.memory.config_values import ConfigValues as ConfigValues
    from dsconfig.memory.estimates import Estimate as Estimate
    from dsconfig.memory.estimates import estimate as estimate
    from dsconfig.memory.fit_search import FitSearch as FitSearch
    from dsconfig.memory.fit_search import FittingChanges as FittingChanges
    from dsconfig.memory.fit_search import fit as fit
    from dsconfig.memory.memory_limits import RequestedLimits as RequestedLimits
    from dsconfig.memory.models.architecture import Architecture as Architecture
    from dsconfig.memory.models.architecture import MicroBatch as MicroBatch
    from dsconfig.memory.models.from_hf_config import architecture_of as architecture_of
    from dsconfig.memory.models.model_zoo import preset_of as preset_of
    from dsconfig.memory.models.record_pass_by_family import weights_of as weights_of
    from dsconfig.memory.release_quirks import release_borders as release_borders
    from dsconfig.memory.run_facts import TrainingJob as TrainingJob
    from dsconfig.memory.verdict import HOST_BUILD as HOST_BUILD
    from dsconfig.memory.verdict import SCRIPT_OPTIMIZER as SCRIPT_OPTIMIZER
    from dsconfig.memory.verdict import NotModelledError as NotModelledError
    from dsconfig.memory.zeropp_unsupported_shapes import QUANTIZER_ALIGNMENT as QUANTIZER_ALIGNMENT
    from dsconfig.memory.zeropp_unsupported_shapes import find_indivisible_groups as find_indivisible_groups
    from dsconfig.memory.zeropp_unsupported_shapes import (
        find_shard_past_parameter_end as find_shard_past_parameter_end,
    )
    from dsconfig.memory.zeropp_unsupported_shapes import find_uneven_shard as find_uneven_shard

EXPORTS = {
    "ConfigValues": "config_values",
    "Estimate": "estimates",
    "estimate": "estimates",
    "AppliedChange": "config_changes",
    "ConfigChange": "config_changes",
    "change_of_values": "config_changes",
    "merge_values": "config_changes",
    "FitSearch": "fit_search",
    "FittingChanges": "fit_search",
    "fit": "fit_search",
    "RequestedLimits": "memory_limits",
    "Architecture": "models.architecture",
    "MicroBatch": "models.architecture",
    "architecture_of": "models.from_hf_config",
    "preset_of": "models.model_zoo",
    "weights_of": "models.record_pass_by_family",
    "QUANTIZER_ALIGNMENT": "zeropp_unsupported_shapes",
    "find_shard_past_parameter_end": "zeropp_unsupported_shapes",
    "find_indivisible_groups": "zeropp_unsupported_shapes",
    "find_uneven_shard": "zeropp_unsupported_shapes",
    "release_borders": "release_quirks",
    "TrainingJob": "run_facts",
    "HOST_BUILD": "verdict",
    "SCRIPT_OPTIMIZER": "verdict",
    "NotModelledError": "verdict",
}
"""Module of each name."""


def __getattr__(name: str) -> object:
    if name not in EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{EXPORTS[name]}"), name)
    globals()[name] = value
    return value
