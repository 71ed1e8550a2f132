"""Convert a Hugging Face `config.json` to an architecture."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from dsconfig.memory.models.architecture import Architecture, LatentAttention
from dsconfig.memory.models.decoder_model_types import DECODER_VARIANTS, BiasKey, DecoderVariant, MoEVariant
from dsconfig.memory.models.encoders_of_composite_models import (
    is_composite,
    text_config,
    text_kind,
    towers_of,
    unmodeled_part,
)
from dsconfig.memory.models.validate_config_json import (
    InvalidModelError,
    count,
    format_value,
    optional_count,
    rate,
    rotary_dim,
)
from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

SLIDING, FULL = "sliding_attention", "full_attention"
EXPERT_KEYS = ("num_local_experts", "num_experts", "n_routed_experts")
"""Keys that give the number of experts."""


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
        max(1, count(config, "intermediate_size") // (2 if variant.halves_intermediate_size else 1)),
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
    """Reject a config whose layers differ from those that its model type usually has."""
    activation = config.get("hidden_act")
    if variant.activation == "relu2" and activation not in (None, "relu2"):
        raise NotModelledError(
            f"a model whose `hidden_act` is {format_value(activation)} is not supported yet"
        )
    if variant.is_latent and config.get("use_mla") is False:
        raise NotModelledError("a model whose `use_mla` is `false` is not supported yet")
    if config.get("post_norm") is True:  # Apertus
        raise NotModelledError("a model whose `post_norm` is `true` is not supported yet")


def has_bias(config: Mapping[str, Json], bias: BiasKey) -> bool:
    """Return whether a key, or its default, enables a bias or norm."""
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
    """Return the indices of the layers without experts."""
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
    """Return the architecture with the indices of its sliding-window layers."""
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
    """Return the sliding-window layers listed in `layer_types`."""
    kinds = config["layer_types"]
    if not isinstance(kinds, list) or len(kinds) != layers or not set(map(str, kinds)) <= {SLIDING, FULL}:
        expected = f"expected `{SLIDING}` or `{FULL}` for each of the {layers} layers"
        raise InvalidModelError(f"`layer_types` in config.json is {format_value(kinds)}", expected)
    return tuple(number for number, kind in enumerate(kinds) if kind == SLIDING)


def _default_sliding_layers(
    config: Mapping[str, Json], variant: DecoderVariant, layers: int
) -> tuple[int, ...]:
    """Return the sliding-window layers for a config without `layer_types`."""
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
    """Return the architecture with the indices of layers that have no rotary embeddings."""
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


# Conversion by model type. Keys and defaults follow Transformers' configuration classes.

FAMILIES = (*DECODER_VARIANTS, "falcon", "gpt2", "gpt_neox", "opt", "bert", "roberta", "vit")


def architecture_of(config: Mapping[str, Json]) -> Architecture:
    """Convert a Hugging Face `config.json` to an architecture.

    Raises:
        NotModelledError: the model type is not supported, or a key is missing or invalid.
    """
    kind = config.get("model_type")
    if is_composite(config) and (text := text_kind(config)) in DECODER_VARIANTS:
        arch, towers = decoder(text_config(config), text), towers_of(config)
        return validate_architecture(
            arch._replace(towers=towers, unmodeled_part=unmodeled_part(config, towers))
        )
    if kind not in FAMILIES:
        subject = f"the model type `{str(kind)[:40]}`" if kind else "a model without `model_type`"
        raise NotModelledError(f"{subject} is not supported yet", _advise_on_unsupported_model(config))
    converters = {
        "falcon": _falcon,
        "gpt2": _gpt2_architecture,
        "gpt_neox": _gpt_neox_architecture,
        "opt": _opt_architecture,
        "vit": _vit_architecture,
        "bert": _bert_architecture,
        "roberta": _bert_architecture,
    }
    convert = converters.get(kind) or partial(decoder, kind=kind)
    return validate_architecture(convert(config))


def _advise_on_unsupported_model(config: Mapping[str, Json]) -> str:
    """Return advice for a model that is not supported."""
    text = config.get("text_config")
    kind = text.get("model_type") if isinstance(text, Mapping) else None
    if kind in FAMILIES:
        return f"its text model ({kind}) is: pass its `text_config` as a config.json"
    sizes = "`--params N --hidden H --layers L` for a Llama-like decoder of that size"
    return f"pass `--params N` for model states, or {sizes}"


def validate_architecture(arch: Architecture) -> Architecture:
    """Check that the sizes of an architecture are consistent and realistic.

    Raises:
        InvalidModelError: sizes contradict each other or exceed a limit.
    """
    for name, limit in MAX_SIZES.items():
        if getattr(arch, name) > limit:
            raise InvalidModelError(f"models with `{name}` above {limit:,} are not supported")
    if not arch.head_dim and arch.hidden_size % arch.num_heads:
        raise InvalidModelError(
            f"a hidden size of {arch.hidden_size} is not divisible by {arch.num_heads} heads"
        )
    if arch.num_heads % arch.num_kv_heads:
        raise InvalidModelError(
            f"{arch.num_heads} heads are not divisible by {arch.num_kv_heads} key/value heads"
        )
    if arch.num_experts_per_tok > arch.num_experts:
        raise InvalidModelError(
            f"{arch.num_experts_per_tok} experts per token exceed the {arch.num_experts} experts of a layer"
        )
    for tower in arch.towers:
        if tower.num_layers > MAX_SIZES["num_layers"] or tower.hidden_size > MAX_SIZES["hidden_size"]:
            raise InvalidModelError(f"`{tower.name}` has sizes far above those of any encoder")
        if tower.hidden_size % tower.num_heads:
            raise InvalidModelError(
                f"a hidden size of {tower.hidden_size} of `{tower.name}` is not divisible by {tower.num_heads} heads"
            )
    if arch.patch_size > arch.image_size:
        raise InvalidModelError(
            f"a patch size of {arch.patch_size} exceeds the image size of {arch.image_size}"
        )
    return arch


MAX_SIZES = {"num_layers": 2000, "hidden_size": 1 << 20, "intermediate_size": 1 << 22, "num_heads": 1 << 16}
MAX_SIZES |= {
    "head_dim": 1 << 16,
    "vocab_size": 1 << 26,
    "num_experts": 1 << 12,
    "max_position_embeddings": 1 << 40,
}
MAX_SIZES |= {
    "image_size": 1 << 16,
    "num_labels": 1 << 26,
    "num_channels": 1 << 16,
    "sliding_window": 1 << 40,
}
MAX_SIZES |= {"moe_intermediate_size": 1 << 22, "shared_expert_intermediate_size": 1 << 22}
"""Limits far above any real model, since larger sizes would take hours to simulate."""


def _gpt2_architecture(config: Mapping[str, Json]) -> Architecture:
    hidden = count(config, "n_embd", 768)
    rates = [rate(config, key) for key in ("resid_pdrop", "embd_pdrop", "attn_pdrop")]
    return Architecture(
        "gpt2",
        hidden,
        count(config, "n_layer", 12),
        count(config, "n_inner", 4 * hidden),
        count(config, "n_head", 12),
        vocab_size=count(config, "vocab_size", 50257),
        tie_word_embeddings=config.get("tie_word_embeddings", True) is True,
        max_position_embeddings=count(config, "n_positions", 1024),
        dropout=0.0 if not any(rates) else 0.1,
        attention_dropout=rates[2],
        name="gpt2",
    )


def _gpt_neox_architecture(config: Mapping[str, Json]) -> Architecture:
    hidden, heads = count(config, "hidden_size"), count(config, "num_attention_heads")
    return Architecture(
        "gpt_neox",
        hidden,
        count(config, "num_hidden_layers"),
        count(config, "intermediate_size"),
        heads,
        vocab_size=count(config, "vocab_size"),
        tie_word_embeddings=config.get("tie_word_embeddings") is True,
        qkv_bias=config.get("attention_bias", True) is True,
        rotary_dim=rotary_dim(config, hidden // heads, "rotary_pct", 0.25),
        use_parallel_residual=config.get("use_parallel_residual", True) is True,
        dropout=rate(config, "hidden_dropout", 0.0),
        attention_dropout=rate(config, "attention_dropout", 0.0),
        name="gpt_neox",
    )


def _falcon(config: Mapping[str, Json]) -> Architecture:
    if config.get("alibi") is True or config.get("parallel_attn", True) is not True:
        raise NotModelledError(
            "a Falcon model with ALiBi, or without parallel attention, is not supported yet"
        )
    hidden, heads = count(config, "hidden_size", 4544), count(config, "num_attention_heads", 71)
    is_new, is_multi_query = config.get("new_decoder_architecture"), config.get("multi_query", True)
    if is_new is not True and is_multi_query is not True:
        raise NotModelledError("a Falcon model whose `multi_query` is `false` is not supported yet")
    return Architecture(
        "falcon",
        hidden,
        count(config, "num_hidden_layers", 32),
        count(config, "ffn_hidden_size", 4 * hidden),
        heads,
        count(config, "num_kv_heads", heads) if is_new is True else 1,
        hidden // heads,
        count(config, "vocab_size", 65024),
        tie_word_embeddings=config.get("tie_word_embeddings", True) is True,
        qkv_bias=config.get("bias") is True,
        norms_per_layer=count(config, "num_ln_in_parallel_attn", 2 if is_new is True else 1),
        dropout=rate(config, "hidden_dropout", 0.0),
        name="falcon",
    )


def _opt_architecture(config: Mapping[str, Json]) -> Architecture:
    hidden = count(config, "hidden_size", 768)
    for key in ("do_layer_norm_before", "enable_bias", "layer_norm_elementwise_affine"):
        if config.get(key, True) is not True:
            raise NotModelledError(
                f"a model whose `{key}` is {format_value(config[key])} is not supported yet"
            )
    if count(config, "word_embed_proj_dim", hidden) != hidden:
        raise NotModelledError(
            "a model whose `word_embed_proj_dim` is not its hidden size is not supported yet"
        )
    return Architecture(
        "opt",
        hidden,
        count(config, "num_hidden_layers", 12),
        count(config, "ffn_dim", 3072),
        count(config, "num_attention_heads", 12),
        vocab_size=count(config, "vocab_size", 50272),
        tie_word_embeddings=config.get("tie_word_embeddings", True) is True,
        max_position_embeddings=count(config, "max_position_embeddings", 2048),
        position_offset=2,
        dropout=rate(config, "dropout"),
        attention_dropout=rate(config, "attention_dropout", 0.0),
        name="opt",
    )


def _bert_architecture(config: Mapping[str, Json]) -> Architecture:
    """Convert a BERT config; without `architectures`, the model has the masked-LM head."""
    kind = str(config["model_type"])
    classes = {"bert": "Bert", "roberta": "Roberta"}[kind]
    heads = [f"{classes}For{what}" for what in ("MaskedLM", "SequenceClassification")]
    architectures = config.get("architectures") or heads[:1]
    if not isinstance(architectures, list) or len(architectures) != 1 or architectures[0] not in heads:
        raise NotModelledError(
            f"`architectures` in config.json is {format_value(architectures)}: that is not supported yet",
            f"give one of {', '.join(heads)}",
        )
    for key in ("is_decoder", "add_cross_attention"):
        if config.get(key):
            raise NotModelledError(
                f"a model whose `{key}` is {format_value(config[key])} is not supported yet"
            )
    labels = config.get("id2label")
    spare = 2 if kind == "roberta" else 0
    return Architecture(
        "bert",
        count(config, "hidden_size", 768),
        count(config, "num_hidden_layers", 12),
        count(config, "intermediate_size", 3072),
        count(config, "num_attention_heads", 12),
        vocab_size=count(config, "vocab_size", 30522 if kind == "bert" else 50265),
        tie_word_embeddings=config.get("tie_word_embeddings", True) is True and architectures[0] == heads[0],
        max_position_embeddings=count(config, "max_position_embeddings", 512) - spare,
        position_offset=spare,
        type_vocab_size=count(config, "type_vocab_size", 2),
        num_labels=0 if architectures[0] == heads[0] else len(labels) if isinstance(labels, dict) else 2,
        dropout=rate(config, "hidden_dropout_prob"),
        attention_dropout=rate(config, "attention_probs_dropout_prob"),
        name=kind,
    )


def _vit_architecture(config: Mapping[str, Json]) -> Architecture:
    labels = config.get("id2label")
    return Architecture(
        "vit",
        count(config, "hidden_size", 768),
        count(config, "num_hidden_layers", 12),
        count(config, "intermediate_size", 3072),
        count(config, "num_attention_heads", 12),
        image_size=count(config, "image_size", 224),
        patch_size=count(config, "patch_size", 16),
        num_channels=count(config, "num_channels", 3),
        num_labels=len(labels) if isinstance(labels, dict) else 2,
        dropout=rate(config, "hidden_dropout_prob", 0.0),
        attention_dropout=rate(config, "attention_probs_dropout_prob", 0.0),
        name="vit",
    )
