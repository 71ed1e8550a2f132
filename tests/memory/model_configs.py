"""Published `config.json` files by model, with billions of parameters."""

from __future__ import annotations

from typing import Any


def sizes(
    hidden: int, layers: int, wide: int, heads: int, kv: int, words: int, kind: str, **more: Any
) -> dict[str, Any]:
    """Keys of a decoder with RMS norms."""
    return {
        "model_type": kind,
        "architectures": ["ForCausalLM"],
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "intermediate_size": wide,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "vocab_size": words,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        **more,
    }


def without_rms(config: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The config of a model with layer norms."""
    return (
        {key: value for key, value in config.items() if key != "rms_norm_eps"}
        | {"layer_norm_eps": 1e-5}
        | more
    )


def latent(query_rank: int | None) -> dict[str, Any]:
    """Multi-head latent attention of DeepSeek."""
    ranks = {"kv_lora_rank": 512, "q_lora_rank": query_rank}
    return {**ranks, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}


def routed(count: int, chosen: int, wide: int, shared: int = 0, dense: int = 0) -> dict[str, Any]:
    """Experts in DeepSeek's names."""
    keys = {"n_routed_experts": count, "num_experts_per_tok": chosen, "moe_intermediate_size": wide}
    return {**keys, "n_shared_experts": shared or None, "first_k_dense_replace": dense}


SIGLIP = {"hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304, "num_attention_heads": 16}
CLIP = {"hidden_size": 1024, "num_hidden_layers": 24, "intermediate_size": 4096, "num_attention_heads": 16}


def composite(kind: str, text: dict[str, Any], vision: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A vision-language model."""
    names = {"model_type": kind, "architectures": ["ForConditionalGeneration"]}
    return {**names, "text_config": text, "vision_config": vision, **more}


CONFIGS: dict[str, tuple[dict[str, Any], float]] = {
    "deepseek-v2-lite": (
        sizes(2048, 27, 10944, 16, 16, 102_400, "deepseek_v2", **latent(None), **routed(64, 6, 1408, 2, 1)),
        15.7,
    ),
    "deepseek-v3": (
        sizes(
            7168, 61, 18432, 128, 128, 129_280, "deepseek_v3", **latent(1536), **routed(256, 8, 2048, 1, 3)
        ),
        671,
    ),
    "kimi-k2": (
        sizes(7168, 61, 18432, 64, 64, 163_840, "kimi_k2", **latent(1536), **routed(384, 8, 2048, 1, 1)),
        1026,
    ),
    "glm-4.5-air": (
        sizes(4096, 46, 10944, 96, 8, 151_552, "glm4_moe", head_dim=128, **routed(128, 8, 1408, 1, 1)),
        106.9,
    ),
    "glm-4.5": (
        sizes(5120, 92, 12288, 96, 8, 151_552, "glm4_moe", head_dim=128, **routed(160, 8, 1536, 1, 3)),
        352.8,
    ),
    "gpt-oss-20b": (
        sizes(
            2880,
            24,
            2880,
            64,
            8,
            201_088,
            "gpt_oss",
            head_dim=64,
            num_local_experts=32,
            num_experts_per_tok=4,
        ),
        20.9,
    ),
    "gpt-oss-120b": (
        sizes(
            2880,
            36,
            2880,
            64,
            8,
            201_088,
            "gpt_oss",
            head_dim=64,
            num_local_experts=128,
            num_experts_per_tok=4,
        ),
        116.8,
    ),
    "qwen3-next-80b-a3b": (
        sizes(
            *(2048, 48, 5120, 16, 2, 151_936, "qwen3_next"),
            head_dim=256,
            num_experts=512,
            num_experts_per_tok=10,
            moe_intermediate_size=512,
            shared_expert_intermediate_size=512,
            full_attention_interval=4,
            linear_num_key_heads=16,
            linear_key_head_dim=128,
            linear_num_value_heads=32,
            linear_value_head_dim=128,
        ),
        79.7,
    ),
    "llama-4-scout": (
        composite(
            "llama4",
            sizes(
                *(5120, 48, 8192, 40, 8, 202_048, "llama4_text"),
                head_dim=128,
                intermediate_size_mlp=16384,
                num_local_experts=16,
                num_experts_per_tok=1,
                interleave_moe_layer_step=1,
            ),
            {
                "hidden_size": 1408,
                "num_hidden_layers": 34,
                "intermediate_size": 5632,
                "num_attention_heads": 16,
            },
        ),
        108.6,
    ),
    "llama-4-maverick": (
        composite(
            "llama4",
            sizes(
                *(5120, 48, 8192, 40, 8, 202_048, "llama4_text"),
                head_dim=128,
                intermediate_size_mlp=16384,
                num_local_experts=128,
                num_experts_per_tok=1,
                interleave_moe_layer_step=2,
            ),
            {
                "hidden_size": 1408,
                "num_hidden_layers": 34,
                "intermediate_size": 5632,
                "num_attention_heads": 16,
            },
        ),
        401.6,
    ),
    "minimax-m2": (
        sizes(
            3072,
            62,
            1536,
            48,
            8,
            200_064,
            "minimax_m2",
            head_dim=128,
            num_local_experts=256,
            num_experts_per_tok=8,
        ),
        229,
    ),
    "ernie-4.5-21b-a3b": (
        sizes(
            *(2560, 28, 12288, 20, 4, 103_424, "ernie4_5_moe"),
            moe_num_experts=64,
            moe_k=6,
            moe_intermediate_size=1536,
            head_dim=128,
            n_shared_experts=2,
            first_k_dense_replace=1,
            tie_word_embeddings=True,
        ),
        21.8,
    ),
    "phi-3.5-moe": (
        without_rms(
            sizes(4096, 32, 6400, 32, 8, 32_064, "phimoe", num_local_experts=16, num_experts_per_tok=2),
            hidden_act="silu",
        ),
        41.9,
    ),
    "olmoe-1b-7b": (
        sizes(2048, 16, 1024, 16, 16, 50_304, "olmoe", num_experts=64, num_experts_per_tok=8),
        6.92,
    ),
    "dbrx": (
        {
            "model_type": "dbrx",
            "d_model": 6144,
            "n_layers": 40,
            "n_heads": 48,
            "vocab_size": 100_352,
            "attn_config": {"kv_n_heads": 8, "rope_theta": 5e5},
            "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
            "tie_word_embeddings": False,
        },
        131.6,
    ),
    "smollm3-3b": (sizes(2048, 36, 11008, 16, 4, 128_256, "smollm3", tie_word_embeddings=True), 3.08),
    "seed-oss-36b": (sizes(5120, 64, 27648, 80, 8, 155_136, "seed_oss", head_dim=128), 36.15),
    "exaone-4.0-32b": (sizes(5120, 64, 27392, 40, 8, 102_400, "exaone4", head_dim=128), 32.0),
    "granite-3.1-8b": (sizes(4096, 40, 12800, 32, 8, 49_155, "granite_new", tie_word_embeddings=True), 8.17),
    "internlm2-7b": (sizes(4096, 32, 14336, 32, 8, 92_544, "internlm2"), 7.74),
    "internlm3-8b": (sizes(4096, 48, 10240, 32, 2, 128_512, "internlm3", head_dim=128), 8.8),
    "baichuan2-7b": (sizes(4096, 32, 11008, 32, 32, 125_696, "baichuan"), 7.5),
    "ernie-4.5-0.3b": (
        sizes(1024, 18, 3072, 16, 2, 103_424, "ernie4_5", head_dim=128, tie_word_embeddings=True),
        0.36,
    ),
    "hunyuan-7b": (
        sizes(4096, 32, 14336, 32, 8, 128_167, "hunyuan_v1_dense", head_dim=128, tie_word_embeddings=True),
        7.5,
    ),
    "nemotron-mini-4b": (
        without_rms(sizes(3072, 32, 9216, 24, 8, 256_000, "nemotron", head_dim=128, hidden_act="relu2")),
        4.19,
    ),
    "command-r": (
        without_rms(
            sizes(8192, 40, 22528, 64, 64, 256_000, "cohere_new", tie_word_embeddings=True, hidden_act="silu")
        ),
        34.98,
    ),
    "starcoder2-7b": (
        without_rms(
            sizes(
                4608,
                32,
                18432,
                36,
                4,
                49_152,
                "starcoder_new",
                tie_word_embeddings=True,
                hidden_act="gelu_pytorch_tanh",
            )
        ),
        7.17,
    ),
    "stablelm-2-1.6b": (
        without_rms(sizes(2048, 24, 5632, 32, 32, 100_352, "stablelm", hidden_act="silu")),
        1.64,
    ),
    "phi-2": (without_rms(sizes(2560, 32, 10240, 32, 32, 51_200, "phi", hidden_act="gelu_new")), 2.78),
    "qwen-7b": (
        {
            "model_type": "qwen",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "intermediate_size": 22016,
            "vocab_size": 151_936,
            "layer_norm_epsilon": 1e-6,
            "tie_word_embeddings": False,
            "rotary_emb_base": 10000,
            "kv_channels": 128,
        },
        7.72,
    ),
    "chatglm3-6b": (
        {
            "model_type": "chatglm",
            "num_layers": 28,
            "hidden_size": 4096,
            "ffn_hidden_size": 13696,
            "num_attention_heads": 32,
            "multi_query_attention": True,
            "multi_query_group_num": 2,
            "kv_channels": 128,
            "padded_vocab_size": 65_024,
            "rmsnorm": True,
            "tie_word_embeddings": False,
        },
        6.24,
    ),
    "bloom-7b1": (
        {
            "model_type": "bloom",
            "n_layer": 30,
            "hidden_size": 4096,
            "n_head": 32,
            "vocab_size": 250_880,
            "layer_norm_epsilon": 1e-5,
        },
        7.07,
    ),
    "mpt-7b": (
        {
            "model_type": "mpt",
            "d_model": 4096,
            "n_layers": 32,
            "n_heads": 32,
            "vocab_size": 50_432,
            "expansion_ratio": 4,
            "layer_norm_epsilon": 1e-5,
        },
        6.65,
    ),
    "gpt-j-6b": (
        {
            "model_type": "gptj",
            "n_embd": 4096,
            "n_layer": 28,
            "n_head": 16,
            "vocab_size": 50_400,
            "tie_word_embeddings": False,
            "layer_norm_epsilon": 1e-5,
        },
        6.05,
    ),
    "falcon-7b": (
        {
            "model_type": "falcon",
            "hidden_size": 4544,
            "num_hidden_layers": 32,
            "num_attention_heads": 71,
            "multi_query": True,
            "vocab_size": 65_024,
            "layer_norm_epsilon": 1e-5,
        },
        6.92,
    ),
    "mamba-2.8b": (
        {
            "model_type": "mamba",
            "hidden_size": 2560,
            "num_hidden_layers": 64,
            "state_size": 16,
            "intermediate_size": 5120,
            "vocab_size": 50_280,
            "layer_norm_epsilon": 1e-5,
        },
        2.77,
    ),
    "t5-base": (
        {
            "model_type": "t5",
            "d_model": 768,
            "d_ff": 3072,
            "d_kv": 64,
            "num_heads": 12,
            "num_layers": 12,
            "num_decoder_layers": 12,
            "vocab_size": 32_128,
            "is_encoder_decoder": True,
            "layer_norm_epsilon": 1e-6,
        },
        0.223,
    ),
    "flan-t5-xl": (
        {
            "model_type": "t5",
            "d_model": 2048,
            "d_ff": 5120,
            "d_kv": 64,
            "num_heads": 32,
            "num_layers": 24,
            "num_decoder_layers": 24,
            "vocab_size": 32_128,
            "is_encoder_decoder": True,
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
            "layer_norm_epsilon": 1e-6,
        },
        2.85,
    ),
    "bart-large": (
        {
            "model_type": "bart",
            "d_model": 1024,
            "encoder_layers": 12,
            "decoder_layers": 12,
            "encoder_ffn_dim": 4096,
            "decoder_ffn_dim": 4096,
            "encoder_attention_heads": 16,
            "vocab_size": 50_265,
            "is_encoder_decoder": True,
            "layer_norm_eps": 1e-5,
        },
        0.406,
    ),
    "whisper-large-v3": (
        {
            "model_type": "whisper",
            "d_model": 1280,
            "encoder_layers": 32,
            "decoder_layers": 32,
            "encoder_ffn_dim": 5120,
            "decoder_ffn_dim": 5120,
            "encoder_attention_heads": 20,
            "vocab_size": 51_866,
            "is_encoder_decoder": True,
            "layer_norm_eps": 1e-5,
        },
        1.54,
    ),
    "modernbert-base": (
        {
            "model_type": "modernbert",
            "architectures": ["ModernBertForMaskedLM"],
            "hidden_size": 768,
            "num_hidden_layers": 22,
            "intermediate_size": 1152,
            "num_attention_heads": 12,
            "vocab_size": 50_368,
            "norm_eps": 1e-5,
        },
        0.149,
    ),
    "xlm-roberta-large": (
        {
            "model_type": "xlm-roberta",
            "architectures": ["XLMRobertaForMaskedLM"],
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "intermediate_size": 4096,
            "num_attention_heads": 16,
            "vocab_size": 250_002,
            "layer_norm_eps": 1e-5,
        },
        0.56,
    ),
    "deberta-v3-base": (
        {
            "model_type": "deberta-v2",
            "architectures": ["DebertaV2Model"],
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "intermediate_size": 3072,
            "num_attention_heads": 12,
            "vocab_size": 128_100,
            "layer_norm_eps": 1e-7,
        },
        0.184,
    ),
    "distilbert-base": (
        {
            "model_type": "distilbert",
            "architectures": ["DistilBertForMaskedLM"],
            "dim": 768,
            "n_layers": 6,
            "hidden_dim": 3072,
            "n_heads": 12,
            "vocab_size": 30_522,
        },
        0.067,
    ),
    "qwen2-vl-7b": (
        {
            **sizes(3584, 28, 18944, 28, 4, 152_064, "qwen2_vl"),
            "vision_config": {
                "depth": 32,
                "embed_dim": 1280,
                "hidden_size": 3584,
                "mlp_ratio": 4,
                "num_heads": 16,
            },
        },
        8.29,
    ),
    "qwen2.5-vl-7b": (
        {
            **sizes(3584, 28, 18944, 28, 4, 152_064, "qwen2_5_vl"),
            "vision_config": {
                "depth": 32,
                "hidden_size": 1280,
                "out_hidden_size": 3584,
                "intermediate_size": 3420,
                "num_heads": 16,
                "hidden_act": "silu",
            },
        },
        8.29,
    ),
    "qwen3-vl-8b": (
        composite(
            "qwen3_vl",
            sizes(4096, 36, 12288, 32, 8, 151_936, "qwen3_vl_text", head_dim=128),
            {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16},
            tie_word_embeddings=False,
        ),
        8.77,
    ),
    "gemma-3-4b": (
        composite(
            "gemma3",
            {
                "model_type": "gemma3_text",
                "hidden_size": 2560,
                "num_hidden_layers": 34,
                "rms_norm_eps": 1e-6,
                "intermediate_size": 10240,
                "num_attention_heads": 8,
                "num_key_value_heads": 4,
                "head_dim": 256,
                "vocab_size": 262_208,
            },
            SIGLIP,
        ),
        4.3,
    ),
    "mistral-small-3.1-24b": (
        composite(
            "mistral3",
            sizes(5120, 40, 32768, 32, 8, 131_072, "mistral", head_dim=128),
            {**CLIP, "model_type": "pixtral", "hidden_act": "silu"},
            tie_word_embeddings=False,
        ),
        24.0,
    ),
    "llama-3.2-11b-vision": (
        composite(
            "mllama",
            sizes(4096, 40, 14336, 32, 8, 128_256, "mllama_text_model"),
            {"hidden_size": 1280, "num_hidden_layers": 32, "intermediate_size": 5120, "attention_heads": 16},
            tie_word_embeddings=False,
        ),
        10.67,
    ),
    "llava-1.5-7b": (
        composite("llava", {"model_type": "llama", "vocab_size": 32_064}, CLIP, tie_word_embeddings=False),
        7.06,
    ),
    "internvl3-8b": (
        {
            "model_type": "internvl_chat",
            "architectures": ["InternVLChatModel"],
            "llm_config": sizes(3584, 28, 18944, 28, 4, 151_674, "qwen2"),
            "vision_config": CLIP,
        },
        7.94,
    ),
}
APPROXIMATE = {
    "t5-base": 0.05,
    "modernbert-base": 0.04,
    "llama-3.2-11b-vision": 0.05,
    "qwen3-next-80b-a3b": 0.04,
}
"""Models whose count is further off than 3 %."""
