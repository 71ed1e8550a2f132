"""The defaults of TRL's training arguments, where they are others than those of Transformers.

Source: trl v0.7.5 to v1.9.0, trl/trainer/*_config.py and trl/experimental/*/*_config.py of each tag; since
0.29 the precision stands in trl/trainer/base_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from dsconfig.consumers.consumer_versions import number
from dsconfig.core.json_types import JsonObject

_RATES: Mapping[str, tuple[tuple[str, float], ...]] = {
    "A2POConfig": (),
    "AsyncGRPOConfig": (("1.0", 1e-6),),
    "BCOConfig": (("0.29", 5e-7),),
    "CPOConfig": (("0.12", 1e-6),),
    "DPOConfig": (("0.12", 1e-6),),
    "DistillationConfig": (("1.1", 1e-6),),
    "GOLDConfig": (("0.25", 1e-7),),
    "GRPOConfig": (("0.14", 1e-6),),
    "IWOPDConfig": (("1.9", 1e-6),),
    "IterativeSFTConfig": (),
    "KTOConfig": (("0.11", 5e-7), ("0.12", 1e-6)),
    "ORPOConfig": (("0.12", 1e-6),),
    "OnlineDPOConfig": (("0.11", 5e-7),),
    "PPOConfig": (("0.29", 3e-6),),
    "PPOv2Config": (),
    "PRMConfig": (("0.13", 1e-5),),
    "RLOOConfig": (("0.22", 1e-6),),
    "RewardConfig": (("0.24", 1e-4),),
    "SDFTConfig": (),
    "SDPOConfig": (),
    "SFTConfig": (("0.12", 2e-5),),
    "SSDConfig": (),
    "TPOConfig": (("1.3", 5e-7),),
}
"""Training arguments of TRL, and `learning_rate` from each version on; before, it is that of Transformers."""
_BASES = {
    "DPPOConfig": "GRPOConfig",
    "GFPOConfig": "GRPOConfig",
    "GKDConfig": "SFTConfig",
    "GMPOConfig": "GRPOConfig",
    "GRPOWithReplayBufferConfig": "GRPOConfig",
    "MiniLLMConfig": "GRPOConfig",
    "NashMDConfig": "OnlineDPOConfig",
    "PAPOConfig": "GRPOConfig",
    "ServerDistillationConfig": "DistillationConfig",
    "XPOConfig": "OnlineDPOConfig",
}
"""Classes that change none of these defaults, and the class that each is derived from."""
_BF16 = "0.19"
"""Since then `bf16` is on unless `fp16` is."""


def is_config(name: str) -> bool:
    """Whether a class of TRL holds training arguments."""
    return name in _RATES or name in _BASES


def defaults(name: str, version: str | None) -> JsonObject:
    """The defaults of a class that differ; `bf16` is on unless `fp16` is. `version` None: the newest."""
    name = _BASES.get(name, name)
    found: JsonObject = {}
    for since, rate in _RATES[name]:
        if _is_since(version, since):
            found["learning_rate"] = rate
    if _is_since(version, _BF16):
        found["bf16"] = True
    if name == "GRPOConfig" and version is not None and number(version)[:2] == number("0.14")[:2]:
        # trl v0.14.0 trl/trainer/grpo_config.py; v0.15.0 took both back.
        found |= {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 8}
    return found


def _is_since(version: str | None, since: str) -> bool:
    return version is None or number(version) >= number(since)
