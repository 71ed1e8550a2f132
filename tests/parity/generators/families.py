"""Models of families that `memory.model` does not draw, with what tells each of them from Llama."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

Dict = dict[str, Any]
GATED = (["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj"], "all-linear")
TARGETS: dict[str, tuple[Any, ...]] = dict.fromkeys(
    (
        *("gemma", "gemma2", "gemma3_text", "olmo2", "olmo3", "granite", "starcoder2", "cohere", "cohere2"),
        *("smollm3", "seed_oss", "arcee", "apertus", "nemotron", "helium", "ernie4_5", "hunyuan_v1_dense"),
        *("exaone4", "stablelm", "olmo", "ministral3"),
    ),
    GATED,
) | {
    "phi3": (["qkv_proj"], ["qkv_proj", "o_proj"], "all-linear"),
    "qwen3_moe": (["q_proj", "v_proj"],),
    "qwen2_moe": (["q_proj", "v_proj"],),
    "gpt_neox": (["query_key_value"], ["query_key_value", "dense"], "all-linear"),
    **dict.fromkeys(("bert", "roberta"), (["query", "value"],)),
    **dict.fromkeys(("olmoe", "glm4_moe", "dots1", "minimax_m2", "gpt_oss"), (["q_proj", "v_proj"],)),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3"), (["kv_b_proj", "o_proj"],)),
    "phi": (["q_proj", "v_proj"], ["fc1", "fc2"], "all-linear"),
    "falcon": (["query_key_value"], "all-linear"),
    "opt": (["q_proj", "v_proj"], ["fc1", "fc2"], "all-linear"),
    **dict.fromkeys(
        ("glm", "glm4"), (["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj"], "all-linear")
    ),
}
"""Which layers of a family get adapters."""


def llama_like(source: random.Random) -> tuple[Dict, int]:
    """Sizes that are written as Llama's are, and the length of a sequence."""
    heads = source.choice((2, 4, 8))
    hidden = heads * source.choice((16, 32, 64))
    spec: Dict = {"hidden_size": hidden, "num_hidden_layers": source.choice((1, 2, 3, 4, 6))}
    spec |= {"num_attention_heads": heads, "num_key_value_heads": source.choice((heads, heads // 2, 1))}
    spec["intermediate_size"] = source.choice((2 * hidden, 704, 4 * hidden))
    spec |= {"vocab_size": source.choice((128, 1000, 4096, 16384, 32000)), "pad_token_id": None}
    return spec, source.choice((16, 32, 64, 128, 256))


def mixture(source: random.Random, spec: Dict) -> None:
    """Experts in some of the layers."""
    spec["num_experts"] = source.choice((2, 4, 8, 16))
    spec["num_experts_per_tok"] = source.choice([n for n in (1, 2, 4) if n <= spec["num_experts"]])
    spec["moe_intermediate_size"] = source.choice((32, 96, spec["hidden_size"]))
    spec["norm_topk_prob"] = source.random() < 0.6
    if source.random() < 0.3:
        spec["decoder_sparse_step"] = 2
    if source.random() < 0.3:
        spec["mlp_only_layers"] = [0]


def qwen3_moe(source: random.Random, spec: Dict) -> None:
    """Experts, norms of heads."""
    mixture(source, spec)
    spec["head_dim"] = source.choice((32, 64))


def qwen2_moe(source: random.Random, spec: Dict) -> None:
    """Experts, and one more for all tokens."""
    mixture(source, spec)
    spec["shared_expert_intermediate_size"] = source.choice((64, 704, 2 * spec["hidden_size"]))
    if source.random() < 0.2:
        spec["qkv_bias"] = False


def phi3(source: random.Random, spec: Dict) -> None:
    """A part of each head is turned, a window."""
    if source.random() < 0.5:
        spec["partial_rotary_factor"] = source.choice((0.5, 0.75))
    if source.random() < 0.3:
        spec["sliding_window"] = source.choice((16, 64, 2047))
    spec["tie_word_embeddings"] = source.random() < 0.3


def gemma(source: random.Random, spec: Dict) -> None:
    """Heads of any size."""
    spec["head_dim"] = source.choice((32, 64))


def gemma2(source: random.Random, spec: Dict) -> None:
    """Soft caps, which need attention step by step, and a window in every second layer."""
    gemma(source, spec)
    spec |= {"attention": "eager", "sliding_window": source.choice((16, 64, 4096))}
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        if source.random() < 0.2:
            spec[key] = None


def gemma3_text(source: random.Random, spec: Dict) -> None:
    """A window in most layers."""
    gemma(source, spec)
    spec |= {"sliding_window": source.choice((16, 64, 512, 512)), "sliding_window_pattern": 2}
    if source.random() < 0.5:
        spec["sliding_window_pattern"] = 6


def olmo2(source: random.Random, spec: Dict) -> None:
    """Norms behind the layers and over whole projections: nothing to choose."""


def gpt_neox(source: random.Random, spec: Dict) -> None:
    """One projection for all heads, a part of which is turned; attention beside the MLP or before it."""
    del spec["num_key_value_heads"]
    if source.random() < 0.5:
        spec["rotary_pct"] = source.choice((0.5, 1.0))
    if source.random() < 0.3:
        spec["use_parallel_residual"] = False
    if source.random() < 0.2:
        spec["attention_bias"] = False


def opt(source: random.Random, spec: Dict) -> None:
    """A table of places; without dropout, whose masks are larger on a CPU."""
    del spec["num_key_value_heads"]
    spec |= {"ffn_dim": spec.pop("intermediate_size"), "dropout": 0.0}
    spec |= {
        "max_position_embeddings": source.choice((256, 512)),
        "tie_word_embeddings": source.random() < 0.7,
    }


def bert(source: random.Random, spec: Dict, kind: str = "Bert") -> None:
    """With either head, and without dropout."""
    del spec["num_key_value_heads"]
    spec |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "type_vocab_size": 2}
    spec |= {"max_position_embeddings": source.choice((258, 514))}
    spec["architectures"] = [f"{kind}For{source.choice(('MaskedLM', 'SequenceClassification'))}"]
    if kind == "Roberta":
        spec["pad_token_id"] = 1


def olmo3(source: random.Random, spec: Dict) -> None:
    """A window in three of four layers."""
    spec["sliding_window"] = source.choice((16, 64, 512))


def granite(source: random.Random, spec: Dict) -> None:
    """Scaled embeddings, residuals and logits."""
    if source.random() < 0.3:
        spec["tie_word_embeddings"] = True


def starcoder2(source: random.Random, spec: Dict) -> None:
    """Layer norms, and an MLP without a gate."""
    if source.random() < 0.2:
        spec["use_bias"] = False
    if source.random() < 0.3:
        spec["tie_word_embeddings"] = False
    if source.random() < 0.3:
        spec["sliding_window"] = source.choice((16, 64, 512))


def glm(source: random.Random, spec: Dict) -> None:
    """A part of each head is turned; biases of queries, keys and values."""
    spec["head_dim"] = source.choice((32, 64))
    if source.random() < 0.2:
        spec["attention_bias"] = False


def cohere(source: random.Random, spec: Dict) -> None:
    """Attention beside the MLP; norms of heads in the larger model."""
    if source.random() < 0.4:
        spec["use_qk_norm"] = True


def cohere2(source: random.Random, spec: Dict) -> None:
    """A window in three of four layers, the others without places."""
    spec |= {"sliding_window": source.choice((16, 64, 512)), "num_hidden_layers": source.choice((2, 4))}


def smollm3(source: random.Random, spec: Dict) -> None:
    """Every fourth layer without places."""
    spec["num_hidden_layers"] = source.choice((2, 4, 5))


def seed_oss(source: random.Random, spec: Dict) -> None:
    """Biases of queries, keys and values; without dropout, whose masks are larger on a CPU."""
    spec |= {"head_dim": source.choice((32, 64)), "residual_dropout": 0.0, "attention_dropout": 0.0}


def head_size(source: random.Random, spec: Dict) -> None:
    """Heads of any size."""
    spec["head_dim"] = source.choice((32, 64))


def whole_heads(source: random.Random, spec: Dict) -> None:
    """Heads that share the hidden size."""
    spec["head_dim"] = spec["hidden_size"] // spec["num_attention_heads"]


def nothing(source: random.Random, spec: Dict) -> None:
    """Nothing to choose."""


def exaone4(source: random.Random, spec: Dict) -> None:
    """A window in three of four layers, the others without places; or none at all."""
    spec |= {"sliding_window": source.choice((16, 64, None)), "sliding_window_pattern": 4}
    spec |= {"num_hidden_layers": source.choice((2, 4)), "head_dim": source.choice((32, 64))}


def stablelm(source: random.Random, spec: Dict) -> None:
    """Biases, and attention beside the MLP in the larger model."""
    spec["hidden_dropout"] = 0.0
    if source.random() < 0.4:
        spec["use_qkv_bias"] = True
    if source.random() < 0.4:
        spec["use_parallel_residual"] = True


def phi(source: random.Random, spec: Dict) -> None:
    """Biases everywhere; without dropout."""
    spec["resid_pdrop"] = 0.0
    if source.random() < 0.5:
        spec["partial_rotary_factor"] = 0.5


def routed(source: random.Random, spec: Dict) -> None:
    """Experts of DeepSeek's kind, after some dense layers."""
    spec["n_routed_experts"] = source.choice((4, 8, 16))
    spec["num_experts_per_tok"] = source.choice((1, 2, 4))
    spec |= {"moe_intermediate_size": source.choice((32, 64, 96)), "n_shared_experts": source.choice((1, 2))}
    spec |= {"first_k_dense_replace": source.choice((0, 1)), "n_group": 1, "topk_group": 1}
    spec["num_hidden_layers"] = source.choice((2, 3, 4))


def glm4_moe(source: random.Random, spec: Dict) -> None:
    """Experts, and a part of each head is turned."""
    routed(source, spec)
    spec |= {"head_dim": source.choice((32, 64)), "use_qk_norm": source.random() < 0.5}


def deepseek(source: random.Random, spec: Dict, kind: str = "v3") -> None:
    """Experts and latent attention; values as wide as keys, which a CPU needs for its fused attention."""
    routed(source, spec)
    part = source.choice((16, 32))
    spec |= {"qk_nope_head_dim": part, "qk_rope_head_dim": part, "v_head_dim": 2 * part}
    spec |= {"kv_lora_rank": source.choice((32, 64)), "q_lora_rank": source.choice((None, 48))}
    spec["num_key_value_heads"] = spec["num_attention_heads"]
    if kind == "v2":
        spec |= {"topk_method": "greedy", "n_group": None, "topk_group": None}


def olmoe(source: random.Random, spec: Dict) -> None:
    """Experts in all layers."""
    spec |= {"num_experts": source.choice((4, 8)), "num_experts_per_tok": source.choice((1, 2))}
    spec["intermediate_size"] = source.choice((32, 64))


def minimax_m2(source: random.Random, spec: Dict) -> None:
    """Experts in all layers, and a part of each head is turned."""
    spec |= {"num_local_experts": source.choice((4, 8)), "num_experts_per_tok": source.choice((1, 2))}
    spec |= {"intermediate_size": source.choice((32, 64)), "head_dim": 32, "rotary_dim": 16}


def gpt_oss(source: random.Random, spec: Dict) -> None:
    """Experts with biases, and attention step by step with one more score."""
    spec |= {"num_local_experts": source.choice((4, 8)), "num_experts_per_tok": source.choice((1, 2))}
    spec |= {"intermediate_size": source.choice((32, 64)), "head_dim": source.choice((32, 64))}
    spec |= {"attention": "eager", "sliding_window": source.choice((16, 64))}


def falcon(source: random.Random, spec: Dict) -> None:
    """One projection for all heads, with keys for some query heads or for all of them."""
    spec |= {
        "num_kv_heads": spec.pop("num_key_value_heads"),
        "ffn_hidden_size": spec.pop("intermediate_size"),
    }
    spec["new_decoder_architecture"] = source.random() < 0.6
    if not spec["new_decoder_architecture"]:
        spec |= {"multi_query": True, "parallel_attn": True}


KINDS: dict[str, Callable[[random.Random, Dict], None]] = {
    "qwen3_moe": qwen3_moe,
    "phi3": phi3,
    "gemma": gemma,
    "gemma2": gemma2,
    "gemma3_text": gemma3_text,
    "olmo2": olmo2,
    "qwen2_moe": qwen2_moe,
    "gpt_neox": gpt_neox,
    "opt": opt,
    "olmo3": olmo3,
    "granite": granite,
    "starcoder2": starcoder2,
    "glm": glm,
    "glm4": glm,
    "cohere": cohere,
    "cohere2": cohere2,
    "smollm3": smollm3,
    "seed_oss": seed_oss,
    "arcee": nothing,
    "apertus": nothing,
    "nemotron": nothing,
    "helium": whole_heads,
    "ernie4_5": head_size,
    "hunyuan_v1_dense": head_size,
    "exaone4": exaone4,
    "stablelm": stablelm,
    "phi": phi,
    "olmo": nothing,
    "olmoe": olmoe,
    "glm4_moe": glm4_moe,
    "deepseek_v2": partial(deepseek, kind="v2"),
    "deepseek_v3": deepseek,
    "dots1": routed,
    "gpt_oss": gpt_oss,
    "minimax_m2": minimax_m2,
    "falcon": falcon,
    "ministral3": head_size,
    "bert": bert,
    "roberta": partial(bert, kind="Roberta"),
}


def family(source: random.Random, case: Dict, kind: str | None = None) -> Dict:
    """A model of one of these families, or of this one."""
    kind = kind or source.choice(tuple(KINDS))
    before = case["model"]
    spec, case["length"] = llama_like(source)
    KINDS[kind](source, spec)
    if before.get("zero_init") and spec["pad_token_id"] is None:  # its row would be set where none is
        spec["zero_init"] = True
    if source.random() < 0.2 and kind != "falcon":
        spec["attention"] = "eager"
    if source.random() < 0.25:
        spec["checkpointing"] = True
    if source.random() < 0.15:
        spec["lora"] = {"r": source.choice((4, 8, 16)), "target_modules": source.choice(TARGETS[kind])}
        spec["lora"]["lora_dropout"] = 0.0  # on a CPU its mask is larger than on GPUs
    case["model"] = {"kind": kind} | spec
    return case


BY_KIND = {kind: partial(family, kind=kind) for kind in KINDS}
"""Of one family alone."""
