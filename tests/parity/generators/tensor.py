"""Trials of engines whose ranks share each linear layer (AutoTP)."""

from __future__ import annotations

import random
from typing import Any

from tests.parity.generators.memory import DECODERS, model

Dict = dict[str, Any]
WORLDS = (2, 2, 4, 8, 8, 16, 32, 64, 128, 512)


def tensor(source: random.Random, case: Dict) -> Dict:
    """Ranks that share each linear layer; at stage 3 DeepSpeed stops before 0.19.4."""
    section = case["config"]["zero_optimization"]
    section.pop("zero_hpz_partition_size", None)
    before = case["model"]
    while (
        case["model"]["kind"] not in (*DECODERS, "mixtral")
        or case["model"].get("tie_word_embeddings")
        or "lora" in case["model"]
        or case["model"]["num_attention_heads"] % 2
        or case["model"]["num_key_value_heads"] % 2
    ):
        case["model"], case["length"] = model(source)
    spec, world = case["model"], source.choice(WORLDS)
    if before.get("zero_init"):
        spec["zero_init"] = True
    ranks = source.choice(
        [size for size in (2, 4, 8) if spec["num_key_value_heads"] % size == world % size == 0]
    )
    rank = source.choice((0, world - 1, source.randrange(world)))
    case |= {"world_size": world, "rank": rank // ranks * ranks}  # others take the norm of less
    case["config"]["tensor_parallel"] = {"autotp_size": ranks}
    if source.random() < 0.15:
        case["config"]["tensor_parallel"]["tp_overlap_comm"] = True
    return case
