"""Trials of one part of what is modelled: those of `memory.trial`, each changed so that it has the part."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.parity.generators.memory import DECODERS, model

Dict = dict[str, Any]
WORLDS = (2, 4, 8, 8, 16, 32, 64, 128, 512)


def sequence(source: random.Random, case: Dict) -> Dict:
    """Ranks that share each sequence (Ulysses)."""
    while case["model"]["kind"] not in (*DECODERS, "mixtral"):
        case["model"], case["length"] = model(source)
    spec, world = case["model"], source.choice(WORLDS)
    spec.pop("attention", None)
    if spec["kind"] == "mixtral":  # `UlyssesSPAttentionHF` takes it as it is written
        spec["head_dim"] = spec["hidden_size"] // spec["num_attention_heads"]
    ranks = source.choice(
        [size for size in (2, 4, 8) if spec["num_attention_heads"] % size == world % size == 0]
    )
    case |= {"world_size": world, "rank": source.randrange(world), "sequence_parallel": ranks}
    case["length"] = source.choice((64, 128, 256, 512, 512, 1024))
    config = case["config"]
    config["zero_optimization"].pop("zero_hpz_partition_size", None)
    kind = source.choice((None, None, "fp32", "bf16"))
    if kind:
        config["seq_parallel_communication_data_type"] = kind
    return case


PARTS: dict[str, Callable[[random.Random, Dict], Dict]] = {"sequence": sequence}
