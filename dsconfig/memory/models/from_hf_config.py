"""Conversion of a Hugging Face `config.json` to an architecture."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from dsconfig.memory.models.architecture import DECODER_VARIANTS, Architecture, DecoderVariant
from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json


# Conversion by model type. Keys and defaults follow Transformers' configuration classes.

FAMILIES = (*DECODER_VARIANTS, "gpt2", "gpt_neox", "opt", "bert", "roberta", "vit")


def architecture_of(config: Mapping[str, Json]) -> Architecture:
    """Convert a `config.json`.

    Raises:
        NotModelledError: the model type is not supported, or a key is missing or invalid.
    """
    kind = config.get("model_type")
    if kind not in FAMILIES:
        subject = f"the model type `{str(kind)[:40]}`" if kind else "a model without `model_type`"
        raise NotModelledError(f"{subject} is not supported yet", _alternatives(config))
    converters = {
        "gpt2": _gpt2,
        "gpt_neox": _gpt_neox,
        "opt": _opt,
        "vit": _vit,
        "bert": _bert,
        "roberta": _bert,
    }
    convert = converters.get(kind) or partial(decoder, kind=kind)
    return validated(convert(config))


def _alternatives(config: Mapping[str, Json]) -> str:
    """Advice on what to use instead of an unsupported model."""
    text = config.get("text_config")
    kind = text.get("model_type") if isinstance(text, Mapping) else None
    if kind in FAMILIES:
        return f"its text model ({kind}) is: pass its `text_config` as a config.json"
    sizes = "`--params N --hidden H --layers L` for a Llama-like decoder of that size"
    return f"pass `--params N` for model states, or {sizes}"


class InvalidModelError(NotModelledError):
    """A value of `config.json` is invalid; the text names the key."""


def validated(arch: Architecture) -> Architecture:
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


def _gpt2(config: Mapping[str, Json]) -> Architecture:
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


def _gpt_neox(config: Mapping[str, Json]) -> Architecture:
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


def _opt(config: Mapping[str, Json]) -> Architecture:
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


def _bert(config: Mapping[str, Json]) -> Architecture:
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


def _vit(config: Mapping[str, Json]) -> Architecture:
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


# Llama-like decoders.

SLIDING, FULL = "sliding_attention", "full_attention"


def decoder(config: Mapping[str, Json], kind: str) -> Architecture:
    """Convert the config of a Llama-like decoder.

    Raises:
        NotModelledError: a key is missing or invalid.
    """
    variant = DECODER_VARIANTS[kind]
    heads, hidden = count(config, "num_attention_heads"), count(config, "hidden_size")
    if config.get("head_dim") is None and not variant.head_dim and hidden % heads:
        raise InvalidModelError(f"a hidden size of {hidden} is not divisible by {heads} heads")
    head_dim = count(config, "head_dim", variant.head_dim or max(1, hidden // heads))
    uses_bias = (
        variant.plain_mlp and config.get("use_bias", True) is True
    )  # StarCoder2 has one key for all layers
    bias = uses_bias or (variant.reads_attention_bias and config.get("attention_bias") is True)
    bias_key = {"qwen2_moe": "qkv_bias", "glm": "attention_bias", "glm4": "attention_bias"}.get(kind)
    has_qkv_bias = bias_key is not None and config.get(bias_key, True) is True
    arch = Architecture(
        "decoder",
        hidden,
        count(config, "num_hidden_layers"),
        count(config, "intermediate_size"),
        heads,
        count(config, "num_key_value_heads", heads),
        head_dim,
        count(config, "vocab_size"),
        tie_word_embeddings=config.get("tie_word_embeddings", variant.tie_word_embeddings) is True,
        qkv_bias=variant.qkv_bias or bias or has_qkv_bias,
        o_proj_bias=bias,
        mlp_bias=uses_bias or (variant.reads_mlp_bias and config.get("mlp_bias") is True),
        caps_attn_scores=kind == "gemma2" and config.get("attn_logit_softcapping", 50.0) is not None,
        caps_logits=config.get("final_logit_softcapping", 30.0 if kind == "gemma2" else None) is not None,
        rotary_dim=rotary_dim(config, head_dim, default=variant.partial_rotary_factor or 1)
        if variant.fused_projections or variant.partial_rotary_factor
        else 0,
        attention_dropout=rate(config, "attention_dropout", 0.0),
        name=kind,
    )
    if variant.fused_projections and any(rate(config, key, 0.0) for key in ("resid_pdrop", "embd_pdrop")):
        raise NotModelledError("a model with `resid_pdrop` or `embd_pdrop` above 0 is not supported yet")
    if variant.plain_mlp and any(rate(config, f"{key}_dropout", 0.0) for key in ("residual", "embedding")):
        raise NotModelledError(
            "a model with `residual_dropout` or `embedding_dropout` above 0 is not supported yet"
        )
    return _with_sliding_window(config, variant, _with_experts(config, variant, arch))


def rotary_dim(
    config: Mapping[str, Json], size: int, old_key: str = "partial_rotary_factor", default: float = 1
) -> int:
    """Elements of a head with rotary embeddings; `old_key`: the key before Transformers 5."""
    # Transformers 5 moved rotary settings to `rope_parameters`; older files use `rope_scaling` or top-level
    # keys.
    for section in (config.get("rope_scaling"), config.get("rope_parameters"), config):
        for key in (old_key, "partial_rotary_factor"):
            if isinstance(section, Mapping) and section.get(key) is not None:
                return int(size * rate(section, key))
    return int(size * default)


def _with_experts(config: Mapping[str, Json], variant: DecoderVariant, arch: Architecture) -> Architecture:
    if not variant.moe_block:
        return arch
    layers = range(arch.num_layers)
    if variant.expert_defaults is None:  # Mixtral
        chosen, wide = count(config, "num_experts_per_tok", 2), arch.intermediate_size
        return arch._replace(
            num_experts=count(config, "num_local_experts", 8),
            num_experts_per_tok=chosen,
            moe_intermediate_size=wide,
        )
    key = "num_local_experts" if "num_local_experts" in config else "num_experts"
    mlp_only_layers = config.get("mlp_only_layers") or []
    if not isinstance(mlp_only_layers, list) or not all(type(number) is int for number in mlp_only_layers):
        problem = f"`mlp_only_layers` in config.json is {format_value(mlp_only_layers)}"
        raise InvalidModelError(problem, "expected a list of layer numbers")
    sparse_step = count(config, "decoder_sparse_step", 1)
    moe_arch = arch._replace(
        num_experts=count(config, key, variant.expert_defaults.num_experts),
        num_experts_per_tok=count(config, "num_experts_per_tok", variant.expert_defaults.num_experts_per_tok),
        moe_intermediate_size=count(
            config, "moe_intermediate_size", variant.expert_defaults.intermediate_size
        ),
        mlp_only_layers=tuple(
            number for number in layers if number in mlp_only_layers or (number + 1) % sparse_step
        ),
    )
    if variant.expert_defaults.shared_intermediate_size:
        return moe_arch._replace(
            shared_expert_intermediate_size=count(
                config, "shared_expert_intermediate_size", variant.expert_defaults.shared_intermediate_size
            )
        )
    return moe_arch


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
        interval = count(config, "sliding_window_pattern", variant.full_attention_interval)
        return tuple(number for number in numbers if (number + 1) % interval)
    return tuple(numbers if window == "all" else numbers[::2])


# Validated values of a `config.json`.


def count(config: Mapping[str, Json], key: str, default: int = 0) -> int:
    """Read a positive integer.

    Raises:
        InvalidModelError: the value is invalid, or missing without a default.
    """
    value = config.get(key)
    if value is None and default:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        problem = f"is {format_value(value)}" if key in config else "is missing"
        raise InvalidModelError(f"`{key}` in config.json {problem}", "expected an integer above 0")
    return value


def rate(config: Mapping[str, Json], key: str, default: float = 0.1) -> float:
    """Read a number from 0 to 1.

    Raises:
        InvalidModelError: the value is invalid.
    """
    value = config.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise InvalidModelError(
            f"`{key}` in config.json is {format_value(value)}", "expected a number from 0 to 1"
        )
    return value


def format_value(value: Json) -> str:
    """Format a value for a message, as JSON shows it."""
    words = {None: "null", True: "true", False: "false"}
    text = words[value] if value is None or isinstance(value, bool) else str(value)[:40]
    return f"`{text}`"
