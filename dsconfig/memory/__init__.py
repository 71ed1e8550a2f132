"""Estimate the memory of a training job (`estimate`), and find config changes that make it fit a GPU (`fit`).

    job = TrainingJob("0.19.8", world_size=8, micro_batch=MicroBatch(1, 2048), gpus_per_node=8)
    config = ConfigValues({"zero_optimization.stage": 3, "bf16.enabled": True})
    estimate(config, preset_of("llama-3-8b"), job)

An estimate is a sum of memory terms. A memory term is all memory that is allocated for one purpose, such as
"gradients", with the config key that controls it. `memory_ledger.TERMS` lists all of them.

Other packages import from here only, never from the modules inside. Names are imported when they are
first used, so that `check` without a model loads none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsconfig.memory.autograd_graph import SAVED_MODULE_ROLES as SAVED_MODULE_ROLES
    from dsconfig.memory.autograd_graph import FusedKernels as FusedKernels
    from dsconfig.memory.autograd_graph import LoraAdapter as LoraAdapter
    from dsconfig.memory.autograd_graph import Loss as Loss
    from dsconfig.memory.autograd_graph import Quantization as Quantization
    from dsconfig.memory.config_values import ConfigValues as ConfigValues
    from dsconfig.memory.device_overhead import DeviceUsage as DeviceUsage
    from dsconfig.memory.engines.engine_setup import EngineSetup as EngineSetup
    from dsconfig.memory.estimates import NO_LIMIT as NO_LIMIT
    from dsconfig.memory.estimates import Estimate as Estimate
    from dsconfig.memory.estimates import MemoryLimit as MemoryLimit
    from dsconfig.memory.estimates import MemoryUsage as MemoryUsage
    from dsconfig.memory.estimates import estimate as estimate
    from dsconfig.memory.fit_search import ConfigChange as ConfigChange
    from dsconfig.memory.fit_search import FitSearch as FitSearch
    from dsconfig.memory.fit_search import FittingChanges as FittingChanges
    from dsconfig.memory.fit_search import change_of_values as change_of_values
    from dsconfig.memory.fit_search import fit as fit
    from dsconfig.memory.fit_search import merge_values as merge_values
    from dsconfig.memory.memory_limits import RequestedLimits as RequestedLimits
    from dsconfig.memory.models.architecture import Architecture as Architecture
    from dsconfig.memory.models.architecture import MicroBatch as MicroBatch
    from dsconfig.memory.models.encoders_of_hub_models import llava_tower as llava_tower
    from dsconfig.memory.models.fallback_architecture import architecture_of_count as architecture_of_count
    from dsconfig.memory.models.fallback_architecture import generic_architecture as generic_architecture
    from dsconfig.memory.models.fallback_architecture import (
        parameter_only_architecture as parameter_only_architecture,
    )
    from dsconfig.memory.models.from_hf_config import architecture_of as architecture_of
    from dsconfig.memory.models.model_zoo import decoder_of_size as decoder_of_size
    from dsconfig.memory.models.model_zoo import preset_of as preset_of
    from dsconfig.memory.models.model_zoo import similar_names as similar_names
    from dsconfig.memory.models.record_pass_by_family import weights_of as weights_of
    from dsconfig.memory.models.validate_config_json import InvalidModelError as InvalidModelError
    from dsconfig.memory.models.vision_tower import tokens_of_tower as tokens_of_tower
    from dsconfig.memory.release_quirks import release_borders as release_borders
    from dsconfig.memory.setup_from_config import OFFLOADED as OFFLOADED
    from dsconfig.memory.setup_from_config import SECTIONS as SECTIONS
    from dsconfig.memory.setup_from_config import TrainingJob as TrainingJob
    from dsconfig.memory.setup_from_config import default_client as default_client
    from dsconfig.memory.setup_from_config import micro_batch_of as micro_batch_of
    from dsconfig.memory.setup_from_config import setup_of as setup_of
    from dsconfig.memory.setup_from_config import zenflow_section as zenflow_section
    from dsconfig.memory.training_method_memory import TRAINERS as TRAINERS
    from dsconfig.memory.training_method_memory import TrainerTraits as TrainerTraits
    from dsconfig.memory.verdict import ACTIVATION_TERMS as ACTIVATION_TERMS
    from dsconfig.memory.verdict import ASSUMED_CHECKPOINTING as ASSUMED_CHECKPOINTING
    from dsconfig.memory.verdict import ASSUMED_IMAGES as ASSUMED_IMAGES
    from dsconfig.memory.verdict import ASSUMED_LENGTH as ASSUMED_LENGTH
    from dsconfig.memory.verdict import ASSUMED_MIXERS as ASSUMED_MIXERS
    from dsconfig.memory.verdict import EXCEEDS as EXCEEDS
    from dsconfig.memory.verdict import FITS as FITS
    from dsconfig.memory.verdict import HOST as HOST
    from dsconfig.memory.verdict import HOST_BUILD as HOST_BUILD
    from dsconfig.memory.verdict import RANK as RANK
    from dsconfig.memory.verdict import SCRIPT_OPTIMIZER as SCRIPT_OPTIMIZER
    from dsconfig.memory.verdict import UNKNOWN as UNKNOWN
    from dsconfig.memory.verdict import UNMODELED_PART as UNMODELED_PART
    from dsconfig.memory.verdict import WORST_FIRST as WORST_FIRST
    from dsconfig.memory.verdict import NotModelledError as NotModelledError
    from dsconfig.memory.verdict import UnmodeledSetting as UnmodeledSetting
    from dsconfig.memory.verdict import Verdict as Verdict
    from dsconfig.memory.zeropp_unsupported_shapes import QUANTIZER_ALIGNMENT as QUANTIZER_ALIGNMENT
    from dsconfig.memory.zeropp_unsupported_shapes import find_indivisible_groups as find_indivisible_groups
    from dsconfig.memory.zeropp_unsupported_shapes import (
        find_shard_past_parameter_end as find_shard_past_parameter_end,
    )
    from dsconfig.memory.zeropp_unsupported_shapes import find_uneven_shard as find_uneven_shard

EXPORTS = {
    "autograd_graph": "SAVED_MODULE_ROLES FusedKernels LoraAdapter Loss Quantization",
    "config_values": "ConfigValues",
    "device_overhead": "DeviceUsage",
    "engines.engine_setup": "EngineSetup",
    "estimates": "Estimate MemoryLimit MemoryUsage NO_LIMIT estimate",
    "fit_search": "ConfigChange FitSearch FittingChanges change_of_values fit merge_values",
    "memory_limits": "RequestedLimits",
    "models.architecture": "Architecture MicroBatch",
    "models.encoders_of_hub_models": "llava_tower",
    "models.fallback_architecture": "architecture_of_count generic_architecture parameter_only_architecture",
    "models.from_hf_config": "architecture_of",
    "models.model_zoo": "decoder_of_size preset_of similar_names",
    "models.record_pass_by_family": "weights_of",
    "models.validate_config_json": "InvalidModelError",
    "models.vision_tower": "tokens_of_tower",
    "release_quirks": "release_borders",
    "setup_from_config": "OFFLOADED SECTIONS TrainingJob default_client micro_batch_of setup_of zenflow_section",
    "training_method_memory": "TRAINERS TrainerTraits",
    "verdict": "ACTIVATION_TERMS ASSUMED_CHECKPOINTING ASSUMED_IMAGES ASSUMED_LENGTH ASSUMED_MIXERS EXCEEDS FITS HOST "
    "HOST_BUILD NotModelledError RANK SCRIPT_OPTIMIZER UNKNOWN UNMODELED_PART UnmodeledSetting Verdict "
    "WORST_FIRST",
    "zeropp_unsupported_shapes": "QUANTIZER_ALIGNMENT find_indivisible_groups find_shard_past_parameter_end "
    "find_uneven_shard",
}
"""Public names of the package, by the module that defines them."""


def __getattr__(name: str) -> object:
    module = next((module for module, names in EXPORTS.items() if name in names.split()), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
