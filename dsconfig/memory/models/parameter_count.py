"""Exact parameter counts of model types that are recorded as generic transformers.

The functions follow the `__init__` methods of Transformers 5 (`models/*/modeling_*.py`), with biases and norms.
Parameters that the generic layers lack are added as one tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.memory.models.validate_config_json import count, optional_count

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

Config: TypeAlias = "Mapping[str, Json]"


def exact_parameters(config: Config) -> int:
    """Return the number of parameters, or 0 if it is unknown.

    Raises:
        InvalidModelError: a size is missing or invalid.
    """
    kind = config.get("model_type")
    function = COUNTS.get(kind) if isinstance(kind, str) else None
    return function(config) if function is not None else 0


def has_language_head(config: Config) -> bool:
    """Return whether the class in `architectures` computes logits; if the key is absent, assume so."""
    names = config.get("architectures")
    if not isinstance(names, list) or not names:
        return True
    # ChatGLM's `ChatGLMModel` is loaded as `ChatGLMForConditionalGeneration` (`auto_map`).
    ends = (
        *("CausalLM", "MaskedLM", "LMHeadModel", "ConditionalGeneration", "ChatModel", "LM"),
        "ChatGLMModel",
    )
    return any(str(name).endswith(ends) for name in names)


def default_length(config: Config) -> int:
    """Return the number of positions of a model with an encoder, or 0 for a decoder.

    Raises:
        InvalidModelError: a size is invalid.
    """
    kind = str(config.get("model_type"))
    if kind not in ENCODERS:
        return 0
    spare = 2 if kind in ("roberta", "xlm-roberta", "camembert", "mpnet") else 0
    for key in ("max_position_embeddings", "max_target_positions", "n_positions"):
        if config.get(key) is not None:
            return max(1, count(config, key) - spare)
    return 512


# Parts of a transformer.


def _number(config: Config, *keys: str, default: int = 0) -> int:
    key = next((key for key in keys if config.get(key) is not None), keys[0])
    return count(config, key, default)


def _attention(hidden: int, inner: int, kv: int = 0, biases: int = 0) -> int:
    """Return the number of parameters of four attention projections, with `biases` bias elements."""
    return 2 * hidden * inner + 2 * hidden * (kv or inner) + biases


def _mlp(hidden: int, wide: int, *, gated: bool = False, biased: bool = False) -> int:
    return (3 if gated else 2) * hidden * wide + (wide * (2 if gated else 1) + hidden if biased else 0)


def _post_norm_layer(hidden: int, wide: int) -> int:
    """Return the number of parameters of a BERT layer."""
    return _attention(hidden, hidden, biases=4 * hidden) + _mlp(hidden, wide, biased=True) + 4 * hidden


# Encoders.


def _head_of(config: Config, hidden: int, vocabulary: int, *, tied_width: int = 0) -> int:
    """Return the number of parameters of an encoder's head: masked LM, classifier, discriminator or pooler."""
    names = config.get("architectures")
    name = str(names[0]) if isinstance(names, list) and names else "ForMaskedLM"
    width = tied_width or hidden
    if name.endswith("MaskedLM"):
        return hidden * width + 3 * width + vocabulary
    labels = config.get("id2label")
    classes = len(labels) if isinstance(labels, Mapping) else 2
    if name.endswith(("TokenClassification", "QuestionAnswering")):
        return (hidden + 1) * classes
    if name.endswith("SequenceClassification"):
        return (hidden + 1) * hidden + (hidden + 1) * classes
    if name.endswith("PreTraining"):  # ELECTRA's discriminator
        return (hidden + 1) * hidden + hidden + 1
    return (
        (hidden + 1) * hidden
        if name.startswith(("Bert", "XLMRoberta", "Roberta", "Camembert", "MPNet"))
        else 0
    )


def _bert(config: Config) -> int:
    hidden, vocabulary = count(config, "hidden_size", 768), count(config, "vocab_size", 30522)
    width = _number(config, "embedding_size", default=hidden)
    tables = vocabulary + count(config, "max_position_embeddings", 512)
    types = config.get("type_vocab_size", 2)
    tables += types if isinstance(types, int) and config.get("model_type") != "mpnet" else 0
    layers = count(config, "num_hidden_layers", 12) * _post_norm_layer(
        hidden, count(config, "intermediate_size", 3072)
    )
    total = tables * width + 2 * width + layers + _head_of(config, hidden, vocabulary)
    if config.get("model_type") == "mpnet":
        total += count(config, "relative_attention_num_buckets", 32) * count(
            config, "num_attention_heads", 12
        )
    return total + (hidden * width + hidden if width != hidden else 0)


def _albert(config: Config) -> int:
    hidden, width = count(config, "hidden_size", 4096), count(config, "embedding_size", 128)
    vocabulary = count(config, "vocab_size", 30000)
    tables = vocabulary + count(config, "max_position_embeddings", 512) + count(config, "type_vocab_size", 2)
    layer = _post_norm_layer(hidden, count(config, "intermediate_size", 16384))
    layers = layer * count(config, "num_hidden_groups", 1) * count(config, "inner_group_num", 1)
    head = hidden * width + 3 * width + vocabulary if has_language_head(config) else (hidden + 1) * hidden
    return tables * width + 2 * width + (width + 1) * hidden + layers + head


def _deberta(config: Config) -> int:
    hidden, vocabulary = count(config, "hidden_size", 768), count(config, "vocab_size", 128100)
    tables = vocabulary + optional_count(config, "type_vocab_size")
    if config.get("position_biased_input") is not False:
        tables += count(config, "max_position_embeddings", 512)
    layers = count(config, "num_hidden_layers", 12) * _post_norm_layer(
        hidden, count(config, "intermediate_size", 3072)
    )
    total = tables * hidden + 2 * hidden + layers + _head_of(config, hidden, vocabulary)
    if config.get("relative_attention") is True:
        buckets = config.get("position_buckets")
        span = (
            buckets if type(buckets) is int and buckets > 0 else count(config, "max_position_embeddings", 512)
        )
        total += 2 * span * hidden
        total += 2 * hidden if "layer_norm" in str(config.get("norm_rel_ebd")) else 0
    return total


def _distilbert(config: Config) -> int:
    hidden, vocabulary = count(config, "dim", 768), count(config, "vocab_size", 30522)
    layer = _post_norm_layer(hidden, count(config, "hidden_dim", 3072))
    tables = vocabulary + count(config, "max_position_embeddings", 512)
    layers = count(config, "n_layers", 6) * layer
    return tables * hidden + 2 * hidden + layers + _head_of(config, hidden, vocabulary)


def _modernbert(config: Config) -> int:
    hidden, vocabulary = count(config, "hidden_size", 768), count(config, "vocab_size", 50368)
    wide, layers = count(config, "intermediate_size", 1152), count(config, "num_hidden_layers", 22)
    norm = hidden * (2 if config.get("norm_bias") is True else 1)
    layer = _attention(hidden, hidden, biases=4 * hidden if config.get("attention_bias") is True else 0)
    layer += _mlp(hidden, wide, gated=True, biased=config.get("mlp_bias") is True)
    # Embeddings, all layers but the first before attention, all before the MLP, and the last norm.
    total = vocabulary * hidden + layers * layer + (2 * layers + 1) * norm
    classes = config.get("id2label")
    head = hidden * hidden + (hidden if config.get("classifier_bias") is True else 0) + norm
    if has_language_head(config):
        return total + head + (vocabulary if config.get("decoder_bias", True) is True else 0)
    names = config.get("architectures")
    if isinstance(names, list) and names and str(names[0]).endswith("Classification"):
        return total + head + (hidden + 1) * (len(classes) if isinstance(classes, Mapping) else 2)
    return total


def _clip(config: Config) -> int:
    text, vision = _section(config, "text_config"), _section(config, "vision_config")
    out = count(config, "projection_dim", 512)
    return (
        _clip_text(text)
        + _clip_vision(vision)
        + out * (count(text, "hidden_size", 512) + count(vision, "hidden_size", 768))
        + 1
    )


def _section(config: Config, key: str) -> Config:
    section = config.get(key)
    return section if isinstance(section, Mapping) else {}


def _clip_text(config: Config) -> int:
    hidden, layers = count(config, "hidden_size", 512), count(config, "num_hidden_layers", 12)
    tables = count(config, "vocab_size", 49408) + count(config, "max_position_embeddings", 77)
    return (
        tables * hidden
        + layers * _post_norm_layer(hidden, count(config, "intermediate_size", 2048))
        + 2 * hidden
    )


def _clip_vision(config: Config) -> int:
    hidden, size = count(config, "hidden_size", 768), count(config, "patch_size", 32)
    patches = (count(config, "image_size", 224) // size) ** 2
    layers = count(config, "num_hidden_layers", 12)
    layer = _post_norm_layer(hidden, count(config, "intermediate_size", 3072))
    return (3 * size * size + patches + 6) * hidden + layers * layer


def _siglip(config: Config) -> int:
    text, vision = _section(config, "text_config"), _section(config, "vision_config")
    hidden = count(text, "hidden_size", 768)
    tables = count(text, "vocab_size", 32000) + count(text, "max_position_embeddings", 64)
    layer = _post_norm_layer(hidden, count(text, "intermediate_size", 3072))
    total = tables * hidden + count(text, "num_hidden_layers", 12) * layer + 2 * hidden
    total += hidden * hidden + hidden
    width, size = count(vision, "hidden_size", 768), count(vision, "patch_size", 16)
    patches, wide = (count(vision, "image_size", 224) // size) ** 2, count(vision, "intermediate_size", 3072)
    total += (3 * size * size + patches + 3) * width
    total += count(vision, "num_hidden_layers", 12) * _post_norm_layer(width, wide)
    # The attention pooling head: a layer with one query.
    return total + _post_norm_layer(width, wide) - 2 * width + width + 2


def _dinov2(config: Config) -> int:
    hidden, size = count(config, "hidden_size", 768), count(config, "patch_size", 14)
    patches = (count(config, "image_size", 518) // size) ** 2
    layer = _post_norm_layer(hidden, count(config, "mlp_ratio", 4) * hidden) + 2 * hidden
    return (3 * size * size + patches + 6) * hidden + count(config, "num_hidden_layers", 12) * layer


# Encoders with a decoder.


def _t5(config: Config) -> int:
    hidden, heads = count(config, "d_model", 512), count(config, "num_heads", 8)
    layers, vocabulary = count(config, "num_layers", 6), count(config, "vocab_size", 32128)
    decoder_layers = count(config, "num_decoder_layers", layers)
    attention = _attention(hidden, heads * count(config, "d_kv", 64))
    gated = str(config.get("feed_forward_proj", "relu")).startswith("gated")
    gated = gated or (config.get("model_type") != "t5" and "feed_forward_proj" not in config)
    mlp = _mlp(hidden, count(config, "d_ff", 2048), gated=gated)
    encoder = layers * (attention + mlp + 2 * hidden)
    decoder = decoder_layers * (2 * attention + mlp + 3 * hidden)
    buckets = count(config, "relative_attention_num_buckets", 32)
    # Transformers 5 always ties the head (`T5Config`).
    return vocabulary * hidden + encoder + decoder + 2 * hidden + 2 * buckets * heads


def _bart(config: Config) -> int:
    kind, hidden = config.get("model_type"), count(config, "d_model", 1024)
    wide = count(config, "encoder_ffn_dim", 4096), count(config, "decoder_ffn_dim", 4096)
    layers = count(config, "encoder_layers", 12), count(config, "decoder_layers", 12)
    unbiased = hidden if kind == "whisper" else 0  # keys
    attention = _attention(hidden, hidden, biases=4 * hidden - unbiased) + 2 * hidden
    total = layers[0] * (attention + _mlp(hidden, wide[0], biased=True) + 2 * hidden)
    total += layers[1] * (2 * attention + _mlp(hidden, wide[1], biased=True) + 2 * hidden)
    total += count(config, "vocab_size", 50265) * hidden
    if kind == "whisper":
        bins, positions = count(config, "num_mel_bins", 80), count(config, "max_source_positions", 1500)
        convolutions = 3 * (bins + hidden) * hidden + 2 * hidden
        return total + convolutions + (positions + count(config, "max_target_positions", 448) + 4) * hidden
    norms = {"bart": 2, "mbart": 4, "m2m_100": 2}.get(str(kind), 2)
    extra = {"pegasus": 0, "marian": 0, "m2m_100": None}.get(str(kind), 2)
    positions = 0 if extra is None else 2 * (count(config, "max_position_embeddings", 1024) + extra)
    return total + (positions + 2 * norms) * hidden - (4 * hidden if kind == "marian" else 0)


# Decoders.


def _gptj(config: Config) -> int:
    hidden, vocabulary = _number(config, "n_embd", "hidden_size"), count(config, "vocab_size", 50400)
    wide = _number(config, "n_inner", default=4 * hidden)
    layer = _attention(hidden, hidden) + _mlp(hidden, wide, biased=True) + 2 * hidden
    return 2 * vocabulary * hidden + vocabulary + count(config, "n_layer", 28) * layer + 2 * hidden


def _gpt_neo(config: Config) -> int:
    hidden = count(config, "hidden_size", 2048)
    wide = _number(config, "intermediate_size", default=4 * hidden)
    layer = _attention(hidden, hidden, biases=hidden) + _mlp(hidden, wide, biased=True) + 4 * hidden
    tables = count(config, "vocab_size", 50257) + count(config, "max_position_embeddings", 2048)
    return tables * hidden + count(config, "num_layers", 24) * layer + 2 * hidden


def _bloom(config: Config) -> int:
    hidden = _number(config, "hidden_size", "n_embed", default=64)
    layer = _post_norm_layer(hidden, 4 * hidden)
    layers = _number(config, "n_layer", "num_hidden_layers", default=2)
    return (count(config, "vocab_size", 250880) + 4) * hidden + layers * layer


def _gpt_bigcode(config: Config) -> int:
    hidden, heads = count(config, "n_embd", 768), count(config, "n_head", 12)
    wide = _number(config, "n_inner", default=4 * hidden)
    kv = hidden // heads if config.get("multi_query", True) is True else hidden
    layer = _attention(hidden, hidden, kv, 2 * hidden + 2 * kv) + _mlp(hidden, wide, biased=True) + 4 * hidden
    tables = count(config, "vocab_size", 50257) + count(config, "n_positions", 1024)
    return tables * hidden + count(config, "n_layer", 12) * layer + 2 * hidden


def _mpt(config: Config) -> int:
    hidden, ratio = count(config, "d_model", 2048), count(config, "expansion_ratio", 4)
    layer = _attention(hidden, hidden) + _mlp(hidden, ratio * hidden) + 2 * hidden
    return (count(config, "vocab_size", 50368) + 1) * hidden + count(config, "n_layers", 24) * layer


ENCODERS = (
    *("bert", "roberta", "xlm-roberta", "camembert", "electra", "mpnet", "albert", "deberta-v2", "deberta"),
    *("distilbert", "modernbert", "t5", "mt5", "umt5", "bart", "mbart", "pegasus", "m2m_100", "whisper"),
)
"""Model types with an encoder of text or audio."""
COUNTS: Mapping[str, Callable[[Config], int]] = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "electra", "mpnet"), _bert),
    "albert": _albert,
    **dict.fromkeys(("deberta-v2", "deberta"), _deberta),
    "distilbert": _distilbert,
    "modernbert": _modernbert,
    "clip": _clip,
    "siglip": _siglip,
    "dinov2": _dinov2,
    **dict.fromkeys(("t5", "mt5", "umt5"), _t5),
    **dict.fromkeys(("bart", "mbart", "pegasus", "m2m_100", "whisper"), _bart),
    "gptj": _gptj,
    "gpt_neo": _gpt_neo,
    "bloom": _bloom,
    "gpt_bigcode": _gpt_bigcode,
    "mpt": _mpt,
}
"""Function that counts the parameters of a model type, by model type."""
