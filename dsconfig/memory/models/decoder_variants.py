"""What tells the families that are built like Llama from Llama (Transformers 5, models/*/modeling_*.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple


class Each(NamedTuple):
    """What a mixture of experts has where its config does not say it."""

    experts: int
    chosen: int
    wide: int
    shared: int = 0
    """Elements of the expert for all tokens; 0: there is none."""


class Style(NamedTuple):
    """The differences of a family; what is not said is as in Llama."""

    head_norms: Literal["", "each", "whole"] = ""
    """Whether queries and keys are normalised: each head by itself, or all of them together."""
    query_bias: bool = False
    attention_bias: bool = False
    """Whether `attention_bias` counts, for all four projections."""
    mlp_bias: bool = False
    """Whether `mlp_bias` counts."""
    head_size: int = 0
    """Where the config need not say it."""
    tied: bool = False
    """Whether embeddings are tied where the config does not say."""
    norm: Literal["narrow", "wide", "added"] = "narrow"
    """In which type a norm's weight is multiplied: as its input, in fp32, or in fp32 after 1 is added."""
    norms: Literal["before", "after", "around"] = "before"
    """Where a layer's norms are: before attention and MLP, after them, or both."""
    joined: bool = False
    """Whether queries, keys and values are one projection, gate and up another; heads turn in part."""
    scaled: bool = False
    """Whether embeddings are multiplied by a number."""
    turns: int = 1
    """Pairs of cosines and sines: one for each kind of layer."""
    turns_wide: bool = False
    """Whether these are in fp32, and queries and keys turned so."""
    masks: int = 1
    """Masks that are made where attention goes step by step."""
    router: Literal["wide", "narrow"] = "wide"
    """Whether the odds of experts stay in fp32."""
    each: Each | None = None
    """Experts of a size of their own (`moe_intermediate_size`)."""
    experts_first: bool = False
    """Whether experts come before the router among the parameters."""
    block: str = ""
    """The class of the module around the experts."""
    window: Literal["", "all", "late", "even early", "even", "pattern"] = ""
    """The layers that see a part of the sequence alone, where nothing lists them."""
    window_every: int = 6
    """Of a pattern, one layer in so many sees all."""
    window_size: int = 4096
    """Where the config does not say it; 0: all of it."""
    switched: bool = False
    """Whether the window counts with `use_sliding_window` alone."""
    attention: tuple[str, ...] = ("sdpa", "flash", "eager")
    """Kinds of attention that Transformers runs it with, its own choice first."""


LLAMA = Style(attention_bias=True, mlp_bias=True)
_GEMMA = Style(attention_bias=True, head_size=256, tied=True, norm="added", scaled=True)
_OLMO = Style(head_norms="whole", attention_bias=True, norm="wide", norms="after", turns_wide=True)
STYLES: Mapping[str, Style] = {
    "llama": LLAMA,
    "mistral": Style(window="all"),
    "mixtral": Style(block="MixtralSparseMoeBlock", window="all", window_size=0),
    "qwen2": Style(query_bias=True, window="late", switched=True),
    "qwen3": Style(head_norms="each", attention_bias=True, head_size=128, window="late", switched=True),
    "qwen2_moe": Style(
        masks=2,
        router="narrow",
        block="Qwen2MoeSparseMoeBlock",
        each=Each(60, 4, 1408, shared=5632),
        window="even early",
        switched=True,
    ),
    "qwen3_moe": Style(
        head_norms="each",
        attention_bias=True,
        router="narrow",
        experts_first=True,
        block="Qwen3MoeSparseMoeBlock",
        each=Each(128, 8, 768),
        window="all",
        switched=True,
    ),
    "phi3": Style(joined=True, window="all", window_size=0),
    "gemma": _GEMMA,
    "gemma2": _GEMMA._replace(norms="around", masks=2, window="even", attention=("eager", "flash")),
    "gemma3_text": _GEMMA._replace(head_norms="each", norms="around", masks=2, turns=2, window="pattern"),
    "olmo2": _OLMO,
    "olmo3": _OLMO._replace(masks=2, turns=2, window="pattern", window_every=4),
}
