"""The `config.json` of a decoder that is built like Llama, to its shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.memory.models.decoder_variants import STYLES, Style
from dsconfig.memory.models.hf_config_values import count, rate, shown
from dsconfig.memory.models.shape import Shape
from dsconfig.memory.not_modelled import NotModelledError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

SLIDING, FULL = "sliding_attention", "full_attention"


def decoder(config: Mapping[str, Json], kind: str) -> Shape:
    """The shape that it describes.

    Raises:
        NotModelledError: a key is missing or of another kind.
    """
    style = STYLES[kind]
    heads, hidden = count(config, "num_attention_heads"), count(config, "hidden_size")
    if config.get("head_dim") is None and not style.head_size and hidden % heads:
        raise NotModelledError(f"a hidden size of {hidden} cannot be divided among {heads} heads")
    size = count(config, "head_dim", style.head_size or max(1, hidden // heads))
    bias = style.attention_bias and config.get("attention_bias") is True
    own = kind == "qwen2_moe" and config.get("qkv_bias", True) is True
    found = Shape(
        "decoder",
        hidden,
        count(config, "num_hidden_layers"),
        count(config, "intermediate_size"),
        heads,
        count(config, "num_key_value_heads", heads),
        size,
        count(config, "vocab_size"),
        tied=config.get("tie_word_embeddings", style.tied) is True,
        query_bias=style.query_bias or bias or own,
        output_bias=bias,
        mlp_bias=style.mlp_bias and config.get("mlp_bias") is True,
        caps_scores=kind == "gemma2" and config.get("attn_logit_softcapping", 50.0) is not None,
        caps_logits=config.get("final_logit_softcapping", 30.0 if kind == "gemma2" else None) is not None,
        turned=turned(config, size) if style.joined else 0,
        attention_dropout=rate(config, "attention_dropout", 0.0),
        name=kind,
    )
    if style.joined and any(rate(config, key, 0.0) for key in ("resid_pdrop", "embd_pdrop")):
        raise NotModelledError("a model with `resid_pdrop` or `embd_pdrop` above 0 is not modelled")
    return _with_window(config, style, _with_experts(config, style, found))


def turned(
    config: Mapping[str, Json], size: int, old: str = "partial_rotary_factor", default: float = 1
) -> int:
    """Elements of a head that are turned by its position; `old`: the key of before Transformers 5."""
    for place in (config.get("rope_scaling"), config.get("rope_parameters"), config):
        for key in (old, "partial_rotary_factor"):
            if isinstance(place, Mapping) and place.get(key) is not None:
                return int(size * rate(place, key))
    return int(size * default)


def _with_experts(config: Mapping[str, Json], style: Style, shape: Shape) -> Shape:
    if not style.block:
        return shape
    layers = range(shape.layers)
    if style.each is None:  # Mixtral
        chosen, wide = count(config, "num_experts_per_tok", 2), shape.wide
        return shape._replace(experts=count(config, "num_local_experts", 8), chosen=chosen, expert_wide=wide)
    key = "num_local_experts" if "num_local_experts" in config else "num_experts"
    alone = config.get("mlp_only_layers") or []
    if not isinstance(alone, list) or not all(type(number) is int for number in alone):
        said = f"`mlp_only_layers` of the model is {shown(alone)}"
        raise NotModelledError(said, "give a list of layers' numbers")
    every = count(config, "decoder_sparse_step", 1)
    made = shape._replace(
        experts=count(config, key, style.each.experts),
        chosen=count(config, "num_experts_per_tok", style.each.chosen),
        expert_wide=count(config, "moe_intermediate_size", style.each.wide),
        dense=tuple(number for number in layers if number in alone or (number + 1) % every),
    )
    if style.each.shared:
        return made._replace(shared_wide=count(config, "shared_expert_intermediate_size", style.each.shared))
    return made


def _with_window(config: Mapping[str, Json], style: Style, shape: Shape) -> Shape:
    """The layers that see a part of the sequence alone."""
    window, size = style.window, config.get("sliding_window", style.window_size)
    if not window or not size or (style.switched and config.get("use_sliding_window") is not True):
        return shape
    return shape._replace(
        window=count(config, "sliding_window", style.window_size),
        windowed=_listed(config, shape.layers)
        if window != "all" and config.get("layer_types")
        else _usual(config, style, shape.layers),
    )


def _listed(config: Mapping[str, Json], layers: int) -> tuple[int, ...]:
    """The layers that `layer_types` names."""
    kinds = config["layer_types"]
    if not isinstance(kinds, list) or len(kinds) != layers or not set(map(str, kinds)) <= {SLIDING, FULL}:
        told = f"list `{SLIDING}` or `{FULL}` for each of {layers} layers"
        raise NotModelledError(f"`layer_types` of the model is {shown(kinds)}", told)
    return tuple(number for number, kind in enumerate(kinds) if kind == SLIDING)


def _usual(config: Mapping[str, Json], style: Style, layers: int) -> tuple[int, ...]:
    """The layers that have it where nothing lists them."""
    numbers, window = range(layers), style.window
    if window == "late":
        return tuple(range(count(config, "max_window_layers", 28), layers))
    if window == "even early":
        return tuple(range(0, min(layers, count(config, "max_window_layers", 28)), 2))
    if window == "pattern":
        every = count(config, "sliding_window_pattern", style.window_every)
        return tuple(number for number in numbers if (number + 1) % every)
    return tuple(numbers if window == "all" else numbers[::2])
