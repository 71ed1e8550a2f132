"""Random configs with random models, for engines whose memory is measured."""

from __future__ import annotations

import random
from typing import Any

Dict = dict[str, Any]
PLAIN_ADAM: Dict = {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}}
CLIENTS: tuple[tuple[str, Dict], ...] = (
    ("AdamW", {"fused": True}),
    ("AdamW", {"foreach": True}),
    ("AdamW", {"foreach": False}),
    ("Adam", {"fused": True}),
    ("SGD", {"foreach": False}),
    ("SGD", {"momentum": 0.9, "foreach": False}),
    ("SGD", {"momentum": 0.9, "foreach": True}),
    ("Adagrad", {"foreach": False}),
)
_GATED = (["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj"], "all-linear")
TARGETS = dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), _GATED) | {
    "gpt2": (["c_attn"], ["c_attn", "c_proj"])
}
"""Which layers of a family get adapters."""
SINCE = {"autocast": (0, 17), "pure": (0, 19)}
"""The release that each precision came with."""
TYPES_BY_NAME = (0, 19, 8)
"""Before, loose gradients are sorted by names of types that a CPU's have not, and are never sent there."""
DECODERS = ("llama", "llama", "llama", "mistral", "qwen2", "qwen3", "qwen3")


def trial(source: random.Random, number: int, release: tuple[int, ...]) -> Dict:
    """One engine to measure: config, model, world size, rank; without keys that came after the release."""
    world = source.choice((1, 2, 2, 3, 4, 8, 8, 16, 24, 32, 64, 128, 256, 512))
    case: Dict = {"id": str(number), "world_size": world}
    case["rank"] = source.choice((0, world - 1, world - 1, source.randrange(world)))
    case["model"], case["length"] = model(source)
    config: Dict = {"train_micro_batch_size_per_gpu": source.choice((1, 1, 2, 3, 4))}
    config["gradient_accumulation_steps"] = source.choice((1, 1, 1, 2, 3))
    case["config"] = config
    stage = source.choice((0, 1, 1, 2, 2, 2, 3, 3, 3, 3))
    config["zero_optimization"] = zero(source, stage)
    nodes = [size for size in (2, 4, 8) if world % size == 0]
    if stage == 3 and nodes and source.random() < 0.15:
        config["zero_optimization"]["zero_hpz_partition_size"] = source.choice(nodes)
    if release < TYPES_BY_NAME:
        config["zero_optimization"].pop("contiguous_gradients", None)
    precision(source, config, stage, release)
    if source.random() < 0.3:
        config["gradient_clipping"] = 1.0
    optimizer(source, case, stage)
    if stage == 3 and source.random() < 0.5:
        case["model"]["zero_init"] = True
    if stage == 3 and source.random() < 0.2:
        config["zero_optimization"]["stage3_gather_16bit_weights_on_model_save"] = True
    if stage == 3 and config.get("bf16", config.get("fp16")) and source.random() < 0.1:
        config["zero_optimization"]["zero_quantized_weights"] = True
    return case


def model(source: random.Random) -> tuple[Dict, int]:
    """A small model, and the length of a sequence."""
    kind = source.choice((*DECODERS, "plain", "plain", "gpt2", "vit", "mixtral"))
    heads = source.choice((2, 4, 8))
    hidden = heads * source.choice((16, 32, 64))
    layers = source.choice((1, 2, 3, 4, 6, 8))
    length = source.choice((16, 32, 64, 128, 256))
    vocabulary = source.choice((128, 1000, 4096, 16384, 32000))
    wide = source.choice((2 * hidden, 704, 4 * hidden))
    if kind == "plain":
        spec: Dict = {"hidden_size": hidden, "num_hidden_layers": layers, "intermediate_size": wide}
        if source.random() < 0.2:
            spec["train_fraction"] = 0.5
    elif kind == "gpt2":
        spec = {"n_embd": hidden, "n_layer": layers, "n_head": heads, "vocab_size": vocabulary}
        spec |= {"n_positions": length, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    elif kind == "vit":
        spec = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
        spec |= {"intermediate_size": wide, "image_size": source.choice((32, 64, 96)), "patch_size": 8}
    else:
        spec = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
        spec |= {"intermediate_size": wide, "vocab_size": vocabulary}
        spec["num_key_value_heads"] = source.choice((heads, heads // 2, 1))
        if kind == "qwen3":
            spec["head_dim"] = source.choice((32, 64))
        if kind == "mixtral":
            spec |= {"num_local_experts": source.choice((2, 4)), "num_experts_per_tok": source.choice((1, 2))}
        if kind in ("llama", "qwen2", "qwen3") and source.random() < 0.3:
            spec["tie_word_embeddings"] = True
    if kind != "plain" and source.random() < 0.2:
        spec["attention"] = "eager"
    if kind not in ("plain", "mixtral") and source.random() < 0.25:
        spec["checkpointing"] = True
    if kind in TARGETS and source.random() < 0.15:
        spec["lora"] = {"r": source.choice((4, 8, 16)), "target_modules": source.choice(TARGETS[kind])}
        spec["lora"]["lora_dropout"] = 0.0  # on a CPU its mask is larger than on GPUs
    return {"kind": kind} | spec, length


def zero(source: random.Random, stage: int) -> Dict:
    """The section, with buckets that such models fill."""

    def elements(low: float, high: float) -> int:
        return int(10 ** source.uniform(low, high)) * 2

    chosen: Dict = {"stage": stage, "reduce_bucket_size": elements(4.5, 7)}
    if stage in (1, 2) and source.random() < 0.3:
        chosen["overlap_comm"] = True
    if stage and source.random() < 0.1:
        chosen["contiguous_gradients"] = False
    if stage == 3:
        if source.random() < 0.6:
            chosen["stage3_prefetch_bucket_size"] = elements(3, 6.5)
        if source.random() < 0.6:
            chosen["stage3_param_persistence_threshold"] = elements(1, 5)
        if source.random() < 0.5:
            chosen["stage3_max_live_parameters"] = elements(4.5, 7)
            if source.random() < 0.7:
                chosen["stage3_max_reuse_distance"] = elements(4.5, 7)
        if source.random() < 0.3:
            chosen["sub_group_size"] = elements(3, 6)
    if stage and source.random() < 0.25:
        chosen["offload_optimizer"] = {"device": "cpu"}
    if stage == 3 and source.random() < 0.2:
        chosen["offload_param"] = {"device": "cpu"}
    return chosen


def precision(source: random.Random, config: Dict, stage: int, release: tuple[int, ...]) -> None:
    """Types of weights, of gradients and of what is sent."""
    kind = source.choice(("bf16", "bf16", "bf16", "bf16", "fp16", "fp16", "fp32", "autocast", "pure"))
    if release < SINCE.get(kind, (0,)):
        kind = "bf16"
    if kind in ("bf16", "fp16"):
        config[kind] = {"enabled": True}
        if kind == "bf16" and stage and source.random() < 0.25:
            config["data_types"] = {"grad_accum_dtype": "fp32"}
        if stage and source.random() < 0.1:
            config["communication_data_type"] = "fp32"
    elif kind == "autocast":
        config["torch_autocast"] = {"enabled": True, "dtype": "bfloat16"}
    elif kind == "pure" and "offload_optimizer" not in config["zero_optimization"]:
        on = {"bf16_master_weights_and_grads": True, "bf16_optimizer_states": True} if stage else {}
        config["bf16"] = {"enabled": True} | on


def optimizer(source: random.Random, case: Dict, stage: int) -> None:
    """Of the config, or handed to DeepSpeed."""
    offloads = "offload_optimizer" in case["config"]["zero_optimization"]
    if offloads:
        case["config"]["optimizer"] = PLAIN_ADAM
        case["config"]["zero_force_ds_cpu_optimizer"] = False
        return
    if source.random() < 0.5:
        chosen = source.choice(({"fused": True}, {"foreach": True}, {}))
        case["config"]["optimizer"] = {"type": "AdamW", "params": PLAIN_ADAM["params"] | chosen}
    else:
        name, options = source.choice(CLIENTS)
        case["client_optimizer"] = [name, options]
        case["config"]["zero_allow_untested_optimizer"] = True
