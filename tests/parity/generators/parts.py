"""Trials of one part of what is modelled: those of `memory.trial`, each changed so that it has the part."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.parity.generators.families import BY_KIND, family
from tests.parity.generators.memory import DECODERS, PLAIN_ADAM, model, zero
from tests.parity.generators.muon import with_muon
from tests.parity.generators.processes import super_offload, twin_flow, zenflow
from tests.parity.generators.tensor import tensor
from tests.parity.generators.varied import varied

Dict = dict[str, Any]
DRIVE: Dict = {"device": "nvme", "nvme_path": "nvme"}
UNSHARED = (
    "zero_hpz_partition_size",
    "zero_quantized_weights",
    "contiguous_gradients",
    "stage3_gather_16bit_weights_on_model_save",
)
"""Keys below `zero_optimization` with which DeepSpeed refuses AutoEP."""
WORLDS = (2, 4, 8, 8, 16, 32, 64, 128, 512)


def sequence(source: random.Random, case: Dict) -> Dict:
    """Ranks that share each sequence (Ulysses)."""
    while case["model"]["kind"] not in (*DECODERS, "mixtral"):
        case["model"], case["length"] = model(source)
    return with_sequences(source, case)


def sequence_of_others(source: random.Random, case: Dict) -> Dict:
    """The same of families that came later."""
    kinds = ("qwen3_moe", "qwen2_moe", "gemma", "gemma3_text", "olmo2", "olmo3")
    return with_sequences(source, family(source, case, source.choice(kinds)))


def with_sequences(source: random.Random, case: Dict) -> Dict:
    """Ranks that share each sequence of a model."""
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


def nvme(source: random.Random, case: Dict) -> Dict:
    """Stage 3 with its optimizer, its parameters or both on a drive, and shards that are worth a write."""
    world, heads = source.choice((1, 1, 2, 2, 3, 4, 8, 16)), source.choice((4, 8))
    spec: Dict = {"kind": source.choice(("llama", "qwen2", "mistral")), "hidden_size": heads * 64}
    spec |= {"num_attention_heads": heads, "num_key_value_heads": heads}
    spec |= {"num_hidden_layers": source.choice((1, 2, 4)), "vocab_size": source.choice((1000, 8192, 16384))}
    spec |= {
        "intermediate_size": source.choice((1000, 2048, 4 * heads * 64)),
        "zero_init": source.random() < 0.5,
    }
    case |= {"world_size": world, "rank": source.choice((0, world - 1)), "model": spec}
    case["length"] = source.choice((16, 64, 128))
    case.pop("client_optimizer", None)
    config, before = case["config"], case["config"]["zero_optimization"]
    config |= {"optimizer": PLAIN_ADAM, "zero_force_ds_cpu_optimizer": False}
    if "bf16" in config:
        config["bf16"] = {"enabled": True}
    section = zero(source, 3)
    for key in ("offload_optimizer", "offload_param", "sub_group_size"):
        section.pop(key, None)
    if "contiguous_gradients" not in before:
        section.pop("contiguous_gradients", None)
    config["zero_optimization"] = section = section | drives(source)
    if source.random() < 0.6:
        section["sub_group_size"] = source.choice((10**5, 5 * 10**5, 10**6, 3 * 10**6))
    if source.random() < 0.3:
        config["aio"] = {"block_size": source.choice((2**20, 2**21)), "intra_op_parallelism": 4}
        config["aio"]["thread_count"] = 4
    return case


def drives(source: random.Random) -> Dict:
    """What is offloaded, with buffers that are large and many enough."""
    chosen: Dict = {}
    if source.random() < 0.5:
        chosen["offload_param"] = DRIVE | {"buffer_size": 9 * 10**6, "buffer_count": 24}
        chosen["stage3_max_live_parameters"] = 10**9
        if source.random() < 0.6:
            chosen["offload_param"]["max_in_cpu"] = source.choice((0, 10**5, 10**6, 3 * 10**6))
    if not chosen or source.random() < 0.7:
        chosen["offload_optimizer"] = DRIVE | {"buffer_count": source.choice((4, 5, 8))}
        if source.random() < 0.3:
            chosen["offload_optimizer"] |= {"pipeline_read": True, "pipeline_write": True}
            chosen["offload_optimizer"]["buffer_count"] = 12
    return chosen


def experts(source: random.Random, case: Dict) -> Dict:
    """Ranks that share the experts of a mixture (AutoEP)."""
    while case["model"]["kind"] != "mixtral":
        case["model"], case["length"] = model(source)
    case["model"]["num_local_experts"] = source.choice((2, 4, 8, 16))
    if source.random() < 0.3:
        case["model"]["checkpointing"] = True
    return with_auto_ep(source, case, "mixtral", case["model"]["num_local_experts"])


def experts_of_qwen(source: random.Random, case: Dict) -> Dict:
    """The same of Qwen's mixtures."""
    case = family(source, case, source.choice(("qwen3_moe", "qwen3_moe", "qwen2_moe")))
    case["model"].pop("lora", None)
    return with_auto_ep(source, case, "qwen3_moe", case["model"]["num_experts"])


def with_auto_ep(source: random.Random, case: Dict, preset: str, count: int) -> Dict:
    """Ranks that share so many experts."""
    config, world = case["config"], source.choice(WORLDS)
    ranks = source.choice([size for size in (1, 2, 4, 8) if count % size == world % size == 0])
    config["expert_parallel"] = {"enabled": True, "autoep_size": ranks}
    if source.random() < 0.5:
        config["expert_parallel"]["preset_model"] = preset
    case |= {"world_size": world, "rank": source.randrange(world)}
    if ranks > 1 and source.random() < 0.25:
        case["imbalance"] = 2
    for key in UNSHARED:
        config["zero_optimization"].pop(key, None)
    if "client_optimizer" in case:  # stages 1 and 2 want groups of parameters that its script makes
        del case["client_optimizer"]
        config["optimizer"] = PLAIN_ADAM
    if config.pop("torch_autocast", None):
        config["bf16"] = {"enabled": True}
    return case


PARTS: dict[str, Callable[[random.Random, Dict], Dict]] = {
    "sequence": sequence,
    "sequence-of-others": sequence_of_others,
    "experts": experts,
    "experts-of-qwen": experts_of_qwen,
    "nvme": nvme,
    "muon": with_muon,
    "super-offload": super_offload,
    "zenflow": zenflow,
    "ratio": twin_flow,
    "tensor": tensor,
    "varied": varied,
    "families": family,
    **BY_KIND,
}
