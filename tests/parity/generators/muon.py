"""Engines that train with Muon."""

from __future__ import annotations

import random
from typing import Any

Dict = dict[str, Any]


def with_muon(source: random.Random, case: Dict) -> Dict:
    """The same trial with DeepSpeed's own Muon; at stage 3 that wants gradients reduced whole."""
    config = case["config"]
    zero = config["zero_optimization"]
    case.pop("client_optimizer", None)
    params: Dict = {"lr": 1e-3, "torch_adam": True}
    if source.random() < 0.5:
        params["foreach"] = source.random() < 0.5
    if source.random() < 0.3:
        params["ns_method"] = "standard"
    config["optimizer"] = {"type": "Muon", "params": params}
    config.pop("zero_force_ds_cpu_optimizer", None)
    config["zero_allow_untested_optimizer"] = True  # before 0.19 it is none of those that were tested
    if zero["stage"] == 3:
        zero["reduce_scatter"] = False
    if zero["stage"] in (1, 2) and source.random() < 0.1:
        zero["reduce_scatter"] = False
    return case
