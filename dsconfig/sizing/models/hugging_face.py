"""A model's `config.json`, as Transformers writes it, to the shape of the model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.sizing.models.shape import Shape
from dsconfig.sizing.refused import NotModelledError

if TYPE_CHECKING:
    from dsconfig.json_types import Json


class Decoder(NamedTuple):
    """What tells a family built like Llama from Llama."""

    head_norms: bool = False
    query_bias: bool = False
    head_size: int = 0
    """Where the config need not say it."""
    tied: bool = False
    """Whether embeddings are tied where the config does not say."""


DECODERS = {
    "llama": Decoder(),
    "mistral": Decoder(),
    "mixtral": Decoder(),
    "qwen2": Decoder(query_bias=True),
    "qwen3": Decoder(head_norms=True, head_size=128),
}
FAMILIES = (*DECODERS, "gpt2", "vit")


def shape_of(config: Mapping[str, Json]) -> Shape:
    """The shape that a `config.json` describes.

    Raises:
        NotModelledError: the family is unknown here, or a key is missing or of another kind.
    """
    kind = config.get("model_type")
    if kind not in FAMILIES:
        named = f"the model type `{str(kind)[:40]}`" if kind else "a model without `model_type`"
        raise NotModelledError(f"{named} is not modelled", f"give one of {', '.join(FAMILIES)}")
    if config.get("quantization_config"):
        raise NotModelledError("a quantised model (`quantization_config`) is not modelled")
    found = {"gpt2": _gpt2, "vit": _vit}.get(kind) or partial(_decoder, kind=kind)
    return checked(found(config))


def checked(shape: Shape) -> Shape:
    """The shape, where its sizes go together and are of this world.

    Raises:
        NotModelledError: they do not, or are not.
    """
    for name, most in MOST.items():
        if getattr(shape, name) > most:
            raise NotModelledError(f"a model with `{name}` above {most:,} is not modelled")
    if not shape.head_size and shape.hidden % shape.heads:
        raise NotModelledError(f"a hidden size of {shape.hidden} cannot be divided among {shape.heads} heads")
    if shape.heads % shape.key_heads:
        raise NotModelledError(f"{shape.heads} heads cannot share {shape.key_heads} heads of keys and values")
    if shape.chosen > shape.experts:
        raise NotModelledError(f"{shape.chosen} experts for each token are more than all {shape.experts}")
    if shape.patch > shape.image:
        raise NotModelledError(f"patches of {shape.patch} are larger than images of {shape.image}")
    return shape


MOST = {"layers": 2000, "hidden": 1 << 20, "wide": 1 << 22, "heads": 1 << 16, "head_size": 1 << 16}
MOST |= {"vocabulary": 1 << 26, "experts": 1 << 12, "positions": 1 << 40, "image": 1 << 16, "labels": 1 << 26}
MOST |= {"channels": 1 << 16}
"""Sizes beyond those of any model, which nobody waits for."""


def _decoder(config: Mapping[str, Json], kind: str) -> Shape:
    own = DECODERS[kind]
    heads, hidden = _count(config, "num_attention_heads"), _count(config, "hidden_size")
    bias = config.get("attention_bias") is True
    size = _count(config, "head_dim", own.head_size or max(1, hidden // heads))
    if config.get("head_dim") is None and not own.head_size and hidden % heads:
        raise NotModelledError(f"a hidden size of {hidden} cannot be divided among {heads} heads")
    return Shape(
        "decoder",
        hidden,
        _count(config, "num_hidden_layers"),
        _count(config, "intermediate_size"),
        heads,
        _count(config, "num_key_value_heads", heads),
        size,
        _count(config, "vocab_size"),
        tied=config.get("tie_word_embeddings", own.tied) is True,
        head_norms=own.head_norms,
        query_bias=own.query_bias or bias,
        output_bias=bias and kind in ("llama", "qwen3"),
        mlp_bias=config.get("mlp_bias") is True,
        experts=_count(config, "num_local_experts", 8) if kind == "mixtral" else 0,
        chosen=_count(config, "num_experts_per_tok", 2) if kind == "mixtral" else 0,
        name=kind,
    )


def _gpt2(config: Mapping[str, Json]) -> Shape:
    hidden = _count(config, "n_embd", 768)
    rates = [_rate(config, key) for key in ("resid_pdrop", "embd_pdrop", "attn_pdrop")]
    return Shape(
        "gpt2",
        hidden,
        _count(config, "n_layer", 12),
        _count(config, "n_inner", 4 * hidden),
        _count(config, "n_head", 12),
        vocabulary=_count(config, "vocab_size", 50257),
        tied=config.get("tie_word_embeddings", True) is True,
        positions=_count(config, "n_positions", 1024),
        dropout=0.0 if not any(rates) else 0.1,
        name="gpt2",
    )


def _vit(config: Mapping[str, Json]) -> Shape:
    labels = config.get("id2label")
    return Shape(
        "vit",
        _count(config, "hidden_size", 768),
        _count(config, "num_hidden_layers", 12),
        _count(config, "intermediate_size", 3072),
        _count(config, "num_attention_heads", 12),
        image=_count(config, "image_size", 224),
        patch=_count(config, "patch_size", 16),
        channels=_count(config, "num_channels", 3),
        labels=len(labels) if isinstance(labels, dict) else 2,
        dropout=0.1 if config.get("hidden_dropout_prob") else 0.0,
        name="vit",
    )


def _rate(config: Mapping[str, Json], key: str) -> float:
    value = config.get(key, 0.1)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise NotModelledError(f"`{key}` of the model is `{str(value)[:40]}`", "give a number from 0 to 1")
    return value


def _is_word(value: Json) -> bool:
    return value is None or isinstance(value, bool)


def _count(config: Mapping[str, Json], key: str, default: int = 0) -> int:
    value = config.get(key)
    if value is None and default:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        shown = (
            {None: "null", True: "true", False: "false"}.get(value) if _is_word(value) else str(value)[:40]
        )
        said = f"is `{shown}`" if key in config else "is missing"
        raise NotModelledError(f"`{key}` of the model {said}", "give a whole number above 0")
    return value
