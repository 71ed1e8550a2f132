"""Conversion of the `config.json` of a Llama-like decoder to an architecture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.memory.models.architecture import Architecture, LatentAttention
from dsconfig.memory.models.config_json import (
    InvalidModelError,
    count,
    format_value,
    optional_count,
    rate,
    rotary_dim,
)
from dsconfig.memory.models.decoder_model_types import DECODER_VARIANTS, BiasKey, DecoderVariant, MoEVariant
from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

SLIDING, FULL = "sliding_attention", "full_attention"
EXPERT_KEYS = ("num_local_experts", "num_experts", "n_routed_experts")
"""Names of the number of experts."""


def decoder(config: Mapping[str, Json], kind: str) -> Architecture:
    """Convert the config of a Llama-like decoder.

    Raises:
        NotModelledError: a key is missing or invalid.
    """
    variant = DECODER_VARIANTS[kind]
    heads, hidden = count(config, "num_attention_heads"), count(config, "hidden_size")
    if config.get("head_dim") is None and not variant.head_dim and not variant.is_latent and hidden % heads:
        raise InvalidModelError(f"a hidden size of {hidden} is not divisible by {heads} heads")
    latent = _latent(config, kind) if variant.is_latent else None
    head_dim = count(config, "head_dim", variant.head_dim or max(1, hidden // heads))
    if latent is not None:
        head_dim = latent.qk_nope_head_dim + latent.qk_rope_head_dim
    _reject_other_layers(config, variant)
    arch = Architecture(
        "decoder",
        hidden,
        count(config, "num_hidden_layers"),
        count(config, "intermediate_size"),
        heads,
        heads if latent else count(config, "num_key_value_heads", heads),
        head_dim,
        count(config, "vocab_size"),
        tie_word_embeddings=config.get("tie_word_embeddings", variant.tie_word_embeddings) is True,
        qkv_bias=has_bias(config, variant.qkv_bias),
        o_proj_bias=has_bias(config, variant.o_bias),
        mlp_bias=has_bias(config, variant.mlp_bias),
        lm_head_bias=has_bias(config, variant.lm_head_bias),
        has_qk_norms=bool(variant.qk_norm) and has_bias(config, variant.qk_norm_key),
        latent=latent,
        caps_attn_scores=kind == "gemma2" and config.get("attn_logit_softcapping", 50.0) is not None,
        caps_logits=config.get("final_logit_softcapping", 30.0 if kind == "gemma2" else None) is not None,
        rotary_dim=_rotary_dim(config, variant, head_dim),
        dropout=_dropout(config, variant.residual_dropout),
        embedding_dropout=_dropout(config, variant.embedding_dropout),
        attention_dropout=rate(config, "attention_dropout", 0.0),
        use_parallel_residual=config.get("use_parallel_residual") is True
        or variant.norm_position.startswith("parallel"),
        name=kind,
    )
    arch = _with_sliding_window(config, variant, _with_experts(config, variant.moe, arch))
    return _with_unrotated_layers(config, variant, arch)


def _reject_other_layers(config: Mapping[str, Json], variant: DecoderVariant) -> None:
    """Reject a config whose layers differ from those of its type."""
    activation = config.get("hidden_act")
    if variant.activation == "relu2" and activation not in (None, "relu2"):
        raise NotModelledError(
            f"a model whose `hidden_act` is {format_value(activation)} is not supported yet"
        )
    if config.get("post_norm") is True:  # Apertus
        raise NotModelledError("a model whose `post_norm` is `true` is not supported yet")


def has_bias(config: Mapping[str, Json], bias: BiasKey) -> bool:
    """Whether a key, or its default, is on."""
    value = config.get(bias.key) if bias.key else None
    return bias.default if value is None else value is True


def _dropout(config: Mapping[str, Json], key: str) -> float:
    # The classes with these keys have no dropout by default, except for Seed-OSS (0.1), whose files state it.
    return rate(config, key, 0.0) if key else 0.0


def _rotary_dim(config: Mapping[str, Json], variant: DecoderVariant, head_dim: int) -> int:
    if variant.moe and config.get("rotary_dim") is not None:  # MiniMax
        return count(config, "rotary_dim")
    if variant.fused_qkv or variant.partial_rotary_factor:
        return rotary_dim(config, head_dim, default=variant.partial_rotary_factor or 1)
    return 0


def _latent(config: Mapping[str, Json], kind: str) -> LatentAttention:
    width = count(config, "hidden_size") // count(config, "num_attention_heads")
    return LatentAttention(
        optional_count(config, "q_lora_rank"),
        count(config, "kv_lora_rank", 512),
        count(config, "qk_nope_head_dim", 128),
        count(config, "qk_rope_head_dim", 64),
        count(config, "v_head_dim", max(1, width) if kind == "minicpm3" else 128),
    )


# MoE.


def _with_experts(config: Mapping[str, Json], moe: MoEVariant | None, arch: Architecture) -> Architecture:
    if moe is None:
        return arch
    key = next((key for key in EXPERT_KEYS if key in config), EXPERT_KEYS[0])
    wide = moe.intermediate_size or arch.intermediate_size
    moe_arch = arch._replace(
        num_experts=count(config, key, moe.num_experts),
        num_experts_per_tok=count(config, "num_experts_per_tok", moe.num_experts_per_tok),
        moe_intermediate_size=count(config, "moe_intermediate_size", wide) if moe.intermediate_size else wide,
        mlp_only_layers=_dense_layers(config, arch.num_layers),
    )
    if moe.shared_experts == "added":
        shared = optional_count(config, "n_shared_experts") * moe_arch.moe_intermediate_size
        return moe_arch._replace(shared_expert_intermediate_size=shared)
    if moe.shared_experts:
        shared = count(config, "shared_expert_intermediate_size", moe.shared_intermediate_size)
        return moe_arch._replace(shared_expert_intermediate_size=shared)
    return moe_arch


def _dense_layers(config: Mapping[str, Json], layers: int) -> tuple[int, ...]:
    """Layers without experts: listed, between those with experts, or the first ones."""
    mlp_only_layers = config.get("mlp_only_layers") or []
    if not isinstance(mlp_only_layers, list) or not all(type(number) is int for number in mlp_only_layers):
        problem = f"`mlp_only_layers` in config.json is {format_value(mlp_only_layers)}"
        raise InvalidModelError(problem, "expected a list of layer numbers")
    step, first = count(config, "decoder_sparse_step", 1), optional_count(config, "first_k_dense_replace")
    return tuple(
        number
        for number in range(layers)
        if number in mlp_only_layers or (number + 1) % step or number < first
    )


# Sliding windows.


def _with_sliding_window(
    config: Mapping[str, Json], variant: DecoderVariant, arch: Architecture
) -> Architecture:
    """Add the layers with sliding-window attention."""
    window, size = variant.window_layers, config.get("sliding_window", variant.sliding_window)
    if (
        not window
        or not size
        or (variant.needs_use_sliding_window and config.get("use_sliding_window") is not True)
    ):
        return arch
    return arch._replace(
        sliding_window=count(config, "sliding_window", variant.sliding_window),
        sliding_layers=_listed_sliding_layers(config, arch.num_layers)
        if window != "all" and config.get("layer_types")
        else _default_sliding_layers(config, variant, arch.num_layers),
    )


def _listed_sliding_layers(config: Mapping[str, Json], layers: int) -> tuple[int, ...]:
    """Sliding layers according to `layer_types`."""
    kinds = config["layer_types"]
    if not isinstance(kinds, list) or len(kinds) != layers or not set(map(str, kinds)) <= {SLIDING, FULL}:
        expected = f"expected `{SLIDING}` or `{FULL}` for each of the {layers} layers"
        raise InvalidModelError(f"`layer_types` in config.json is {format_value(kinds)}", expected)
    return tuple(number for number, kind in enumerate(kinds) if kind == SLIDING)


def _default_sliding_layers(
    config: Mapping[str, Json], variant: DecoderVariant, layers: int
) -> tuple[int, ...]:
    """Sliding layers of a config without `layer_types`."""
    numbers, window = range(layers), variant.window_layers
    if window == "upper":
        return tuple(range(count(config, "max_window_layers", 28), layers))
    if window == "lower even":
        return tuple(range(0, min(layers, count(config, "max_window_layers", 28)), 2))
    if window == "pattern":
        pattern = config.get("sliding_window_pattern")
        if (
            isinstance(pattern, str) and pattern
        ):  # EXAONE: L and G for each layer, repeated, and the last is G
            return tuple(n for n in numbers if pattern[n % len(pattern)] == "L" and n != layers - 1)
        interval = count(config, "sliding_window_pattern", variant.full_attention_interval)
        return tuple(number for number in numbers if (number + 1) % interval)
    return tuple(numbers if window == "all" else numbers[::2])


def _with_unrotated_layers(
    config: Mapping[str, Json], variant: DecoderVariant, arch: Architecture
) -> Architecture:
    """Add the layers without rotary embeddings."""
    numbers = range(arch.num_layers)
    if variant.unrotated_layers == "every fourth":
        flags = config.get("no_rope_layers")
        if isinstance(flags, list) and len(flags) == arch.num_layers:  # 0: no rotary embeddings
            return arch._replace(unrotated_layers=tuple(n for n in numbers if not flags[n]))
        interval = count(config, "no_rope_layer_interval", 4)
        return arch._replace(unrotated_layers=tuple(n for n in numbers if (n + 1) % interval == 0))
    if variant.unrotated_layers == "full attention" and arch.sliding_window:
        return arch._replace(unrotated_layers=tuple(n for n in numbers if n not in arch.sliding_layers))
    return arch
