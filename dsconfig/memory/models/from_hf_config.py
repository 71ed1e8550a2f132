"""Conversion of a Hugging Face `config.json` to an architecture."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from dsconfig.memory.models.architecture import Architecture
from dsconfig.memory.models.config_json import InvalidModelError, count, format_value, rate, rotary_dim
from dsconfig.memory.models.decoder_from_config_json import decoder
from dsconfig.memory.models.decoder_model_types import DECODER_VARIANTS
from dsconfig.memory.models.tower_config import COMPOSITES, text_config, text_kind, towers_of
from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json


# Conversion by model type. Keys and defaults follow Transformers' configuration classes.

FAMILIES = (*DECODER_VARIANTS, "falcon", "gpt2", "gpt_neox", "opt", "bert", "roberta", "vit")


def architecture_of(config: Mapping[str, Json]) -> Architecture:
    """Convert a `config.json`.

    Raises:
        NotModelledError: the model type is not supported, or a key is missing or invalid.
    """
    kind = config.get("model_type")
    if isinstance(kind, str) and kind in COMPOSITES and (text := text_kind(config)) in DECODER_VARIANTS:
        return validate_architecture(decoder(text_config(config), text)._replace(towers=towers_of(config)))
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
    """Advice on what to use instead of an unsupported model."""
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
"""Limits far above any real model; larger sizes would take hours to simulate."""


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
    """Convert a BERT config; without `architectures` it has the masked-LM head."""
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
