"""Trials of engines whose optimizer runs in a process of its own."""

from __future__ import annotations

import random
from typing import Any

from tests.parity.generators.memory import zero

Dict = dict[str, Any]
ADAM: Dict = {"type": "AdamW", "params": {"lr": 1e-4}}


def plainer(case: Dict, section: Dict) -> Dict:
    """The case with DeepSpeed's Adam of the host, and what needs another one left out."""
    config: Dict = case["config"]
    case.pop("client_optimizer", None)
    for key in ("zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer"):
        config.pop(key, None)
    if "bf16" in config:
        config["bf16"] = {"enabled": True}
    before = config["zero_optimization"]
    if "contiguous_gradients" not in before:
        section.pop("contiguous_gradients", None)
    config |= {"optimizer": ADAM, "zero_optimization": section}
    return config


def super_offload(source: random.Random, case: Dict) -> Dict:
    """SuperOffload, at stage 3."""
    section = zero(source, 3)
    section["offload_optimizer"] = {"device": "cpu", "super_offload": True}
    if source.random() < 0.5:
        section["sub_group_size"] = int(10 ** source.uniform(3, 6)) * 2
    config = plainer(case, section)
    if source.random() < 0.3:
        config["gradient_clipping"] = 1.0
    if source.random() < 0.5:
        case["model"]["zero_init"] = True
    return case
