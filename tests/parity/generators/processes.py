"""Trials of engines whose optimizer runs in a process of its own, or can."""

from __future__ import annotations

import random
from typing import Any

from tests.parity.generators.memory import model, zero

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


def zenflow(source: random.Random, case: Dict) -> Dict:
    """ZenFlow, with what DeepSpeed gets through: matrices and vectors, and at stage 3 all of them trained."""
    stage = source.choice((1, 2, 2, 3, 3))
    while case["model"]["kind"] in ("vit", "mixtral"):
        case["model"], case["length"] = model(source)
    spec, section = case["model"], zero(source, stage)
    section.pop("contiguous_gradients", None)
    section["offload_optimizer"] = {"device": "cpu"}
    case["config"]["zero_optimization"].pop("contiguous_gradients", None)
    case["config"].pop("data_types", None)
    spec.pop("zero_init", None)
    if stage == 3:
        for name in ("lora", "checkpointing", "train_fraction"):
            spec.pop(name, None)
        case["world_size"] = world = source.choice((1, 2, 2, 4, 8, 8, 16, 32))  # vectors part evenly
        case["rank"] = source.choice((0, world - 1))
        section["reduce_bucket_size"] = int(largest(spec) * source.choice((1, 1.5, 4)))
    chosen = intervals(source, stage == 3 and case["world_size"] > 1)
    if source.random() < 0.3:
        chosen["offload"] = section["overlap_comm"] = True
    config = plainer(case, section | {"zenflow": chosen})
    config["optimizer"] = {"type": "AdamW", "params": {"lr": 1e-4, "eps": 1e-4}}  # 1e-8 is 0 in fp16
    config["gradient_accumulation_steps"] = chosen["update_interval"]
    if "fp16" in config:
        config["fp16"]["loss_scale"] = 1
    config["zero_allow_untested_optimizer"] = True  # ZenFlow's Adam is none of those tested before 0.19.3
    rounds = chosen.get("full_warm_up_rounds", 0) // chosen["update_interval"]
    case["steps"] = 4 + rounds  # with `overlap_step` the first two wait for nothing
    return case


def intervals(source: random.Random, once: bool) -> Dict:
    """Keys of ZenFlow; `once`: columns are selected in the first step alone."""
    chosen: Dict = {"topk_ratio": source.choice((0.01, 0.05, 0.1, 0.1, 0.3, 0.6))}
    chosen["update_interval"] = update = source.choice((1, 1, 2, 2, 3, 4))
    if not once and source.random() < 0.6:
        chosen |= {"select_strategy": "step", "select_interval": update}
    elif source.random() < 0.5:
        chosen |= {"select_strategy": "epoch", "select_interval": 1}
    if source.random() < 0.4:
        chosen["overlap_step"] = True
    if source.random() < 0.2:
        chosen["full_warm_up_rounds"] = update * source.choice((1, 2))
    return chosen


def largest(spec: Dict) -> int:
    """Elements that the largest parameter has at the most."""
    hidden = int(spec.get("n_embd") or spec["hidden_size"])
    wide = [
        4 * hidden,
        *(int(spec.get(key, 0)) for key in ("vocab_size", "intermediate_size", "n_positions")),
    ]
    return hidden * max(wide)


def twin_flow(source: random.Random, case: Dict) -> Dict:
    """Some sub-groups of stage 3 offloaded, and the others not (`ratio`)."""
    section = zero(source, 3)
    section["offload_optimizer"] = {"device": "cpu", "ratio": source.choice((0.2, 0.4, 0.5, 0.7, 0.9))}
    section["sub_group_size"] = int(10 ** source.uniform(3.5, 6)) * 2
    config = plainer(case, section)
    if source.random() < 0.3:
        config["gradient_clipping"] = 1.0
    if source.random() < 0.5:
        case["model"]["zero_init"] = True
    return case
