"""Shape of a model: sizes that decide parameters and activations, with the variants of Llama."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from dsconfig.memory.graph import Adapter, Sharing, Tape

# The shape of a model: what decides how many parameters it has and what its pass keeps.


class Shape(NamedTuple):
    """A model's sizes; what a family has no use for stays as it is here."""

    family: str
    """bert, decoder, gpt2, gpt_neox, opt, vit, plain."""
    hidden: int
    layers: int
    wide: int
    """Elements of the hidden layer of an MLP."""
    heads: int = 1
    key_heads: int = 1
    head_size: int = 0
    vocabulary: int = 0
    tied: bool = False
    query_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    experts: int = 0
    chosen: int = 0
    """Experts that a token goes through."""
    expert_wide: int = 0
    """Elements of the hidden layer of an expert."""
    shared_wide: int = 0
    """The same of the expert that all tokens go through."""
    dense: tuple[int, ...] = ()
    """Numbers of layers with an MLP where others have experts."""
    window: int = 0
    """Tokens that attention sees in some layers; 0: all."""
    windowed: tuple[int, ...] = ()
    """Numbers of those layers."""
    turned: int = 0
    """Elements of a head that are turned by its position; 0: all."""
    caps_scores: bool = False
    caps_logits: bool = False
    """Whether scores of attention, and logits, go through a tanh."""
    positions: int = 0
    """Places that a token can have; 0: any."""
    spare: int = 0
    """Rows of the table of places that no token has."""
    kinds: int = 0
    """Kinds of sentences (`type_vocab_size`)."""
    parallel: bool = False
    """Whether attention and MLP read the same (GPT-NeoX)."""
    image: int = 0
    patch: int = 0
    channels: int = 3
    labels: int = 2
    dropout: float = 0.0
    attention_dropout: float = 0.0
    trained: float = 1.0
    """Of a stack of plain blocks, the part that is trained, from the input on."""
    name: str = ""
    parts: int = 1
    """Ranks that share the head; heads and the MLP's width are those of one already."""

    @property
    def style(self) -> Style:
        """Of a decoder, what tells it from Llama."""
        return STYLES.get(self.name, LLAMA)


class Work(NamedTuple):
    """What one micro batch is, and how it is computed."""

    micro: int
    length: int
    width: int
    """Bytes of a weight in the model."""
    autocast: bool = False
    attention: str = "sdpa"
    checkpointing: bool = False
    keeps_inputs: bool = False
    """Whether a frozen layer keeps its input too (stage 3's `LinearFunctionForZeroStage3`)."""
    adapter: Adapter | None = None
    tensor: Sharing = Sharing()
    """Ranks that share each linear layer."""

    sequence: int = 1
    """Ranks that share each sequence (Ulysses); `length` is that of a whole one."""
    experts: int = 0
    """Ranks that share the experts by AutoEP; 0 where it is off."""
    imbalance: float = 1.0
    """Tokens that this rank's experts get, in times of those that it sends."""
    on_cpu: bool = False
    """Whether it is computed on a CPU, where torch casts the operands of some operations first."""
    computes: bool = True
    """Whether there is a pass at all, or only the parameters are asked for."""

    @property
    def part(self) -> int:
        """Tokens of a sequence that are this rank's."""
        return self.length // self.sequence

    @property
    def starts_gradients(self) -> bool:
        """Whether a frozen embedding's output takes gradients (PEFT's `enable_input_require_grads`)."""
        return self.adapter is not None and self.checkpointing

    def tape(self) -> Tape:
        """An empty tape for such work."""
        return Tape(self.width, self.autocast, self.keeps_inputs, self.adapter, self.on_cpu)


# What tells the families that are built like Llama from Llama (Transformers 5, models/*/modeling_*.py).


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
