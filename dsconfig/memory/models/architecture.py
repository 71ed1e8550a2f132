"""Shape of a model: sizes that decide parameters and activations, with the variants of Llama."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from dsconfig.memory.graph import Adapter, Tape, TensorParallel

# The shape of a model: what decides how many parameters it has and what its pass keeps.


class Architecture(NamedTuple):
    """A model's sizes; what a family has no use for stays as it is here."""

    family: str
    """bert, decoder, gpt2, gpt_neox, opt, vit, plain."""
    hidden_size: int
    num_layers: int
    intermediate_size: int
    """Elements of the hidden layer of an MLP."""
    num_heads: int = 1
    num_kv_heads: int = 1
    head_dim: int = 0
    vocab_size: int = 0
    tie_word_embeddings: bool = False
    qkv_bias: bool = False
    o_proj_bias: bool = False
    mlp_bias: bool = False
    num_experts: int = 0
    num_experts_per_tok: int = 0
    """Experts that a token goes through."""
    moe_intermediate_size: int = 0
    """Elements of the hidden layer of an expert."""
    shared_expert_intermediate_size: int = 0
    """The same of the expert that all tokens go through."""
    mlp_only_layers: tuple[int, ...] = ()
    """Numbers of layers with an MLP where others have experts."""
    sliding_window: int = 0
    """Tokens that attention sees in some layers; 0: all."""
    sliding_layers: tuple[int, ...] = ()
    """Numbers of those layers."""
    rotary_dim: int = 0
    """Elements of a head that are turned by its position; 0: all."""
    caps_attn_scores: bool = False
    caps_logits: bool = False
    """Whether scores of attention, and logits, go through a tanh."""
    max_position_embeddings: int = 0
    """Places that a token can have; 0: any."""
    position_offset: int = 0
    """Rows of the table of places that no token has."""
    type_vocab_size: int = 0
    """Kinds of sentences (`type_vocab_size`)."""
    use_parallel_residual: bool = False
    """Whether attention and MLP read the same (GPT-NeoX)."""
    image_size: int = 0
    patch_size: int = 0
    num_channels: int = 3
    num_labels: int = 2
    dropout: float = 0.0
    attention_dropout: float = 0.0
    trained_fraction: float = 1.0
    """Of a stack of plain blocks, the part that is trained, from the input on."""
    name: str = ""
    lm_head_shards: int = 1
    """Ranks that share the head; heads and the MLP's width are those of one already."""

    @property
    def variant(self) -> DecoderVariant:
        """Of a decoder, what tells it from Llama."""
        return DECODER_VARIANTS.get(self.name, LLAMA)


class MicroBatch(NamedTuple):
    """What one micro batch is, and how it is computed."""

    micro_batch_size: int
    sequence_length: int
    itemsize: int
    """Bytes of a weight in the model."""
    autocast: bool = False
    attn_implementation: str = "sdpa"
    gradient_checkpointing: bool = False
    saves_linear_inputs: bool = False
    """Whether a frozen layer keeps its input too (stage 3's `LinearFunctionForZeroStage3`)."""
    adapter: Adapter | None = None
    tensor_parallel: TensorParallel = TensorParallel()
    """Ranks that share each linear layer."""

    sp_size: int = 1
    """Ranks that share each sequence (Ulysses); `length` is that of a whole one."""
    ep_size: int = 0
    """Ranks that share the experts by AutoEP; 0 where it is off."""
    expert_imbalance: float = 1.0
    """Tokens that this rank's experts get, in times of those that it sends."""
    on_cpu: bool = False
    """Whether it is computed on a CPU, where torch casts the operands of some operations first."""
    records_pass: bool = True
    """Whether there is a pass at all, or only the parameters are asked for."""

    @property
    def local_sequence_length(self) -> int:
        """Tokens of a sequence that are this rank's."""
        return self.sequence_length // self.sp_size

    @property
    def needs_input_grad(self) -> bool:
        """Whether a frozen embedding's output takes gradients (PEFT's `enable_input_require_grads`)."""
        return self.adapter is not None and self.gradient_checkpointing

    def new_tape(self) -> Tape:
        """An empty tape for such work."""
        return Tape(self.itemsize, self.autocast, self.saves_linear_inputs, self.adapter, self.on_cpu)


# What tells the families that are built like Llama from Llama (Transformers 5, models/*/modeling_*.py).


class ExpertDefaults(NamedTuple):
    """What a mixture of experts has where its config does not say it."""

    num_experts: int
    num_experts_per_tok: int
    intermediate_size: int
    shared_intermediate_size: int = 0
    """Elements of the expert for all tokens; 0: there is none."""


class DecoderVariant(NamedTuple):
    """The differences of a family; what is not said is as in Llama."""

    qk_norm: Literal["", "each", "whole"] = ""
    """Whether queries and keys are normalised: each head by itself, or all of them together."""
    qkv_bias: bool = False
    reads_attention_bias: bool = False
    """Whether `attention_bias` counts, for all four projections."""
    reads_mlp_bias: bool = False
    """Whether `mlp_bias` counts."""
    head_dim: int = 0
    """Where the config need not say it."""
    tie_word_embeddings: bool = False
    """Whether embeddings are tied where the config does not say."""
    rms_norm: Literal["narrow", "wide", "added"] = "narrow"
    """In which type a norm's weight is multiplied: as its input, in fp32, or in fp32 after 1 is added."""
    norm_position: Literal["before", "after", "around"] = "before"
    """Where a layer's norms are: before attention and MLP, after them, or both."""
    fused_projections: bool = False
    """Whether queries, keys and values are one projection, gate and up another; heads turn in part."""
    scales_embeddings: bool = False
    """Whether embeddings are multiplied by a number."""
    rotary_tables: int = 1
    """Pairs of cosines and sines: one for each kind of layer."""
    rotary_in_fp32: bool = False
    """Whether these are in fp32, and queries and keys turned so."""
    num_masks: int = 1
    """Masks that are made where attention goes step by step."""
    router_dtype: Literal["wide", "narrow"] = "wide"
    """Whether the odds of experts stay in fp32."""
    expert_defaults: ExpertDefaults | None = None
    """Experts of a size of their own (`moe_intermediate_size`)."""
    experts_before_gate: bool = False
    """Whether experts come before the router among the parameters."""
    moe_block: str = ""
    """The class of the module around the experts."""
    window_layers: Literal["", "all", "late", "even early", "even", "pattern"] = ""
    """The layers that see a part of the sequence alone, where nothing lists them."""
    full_attention_interval: int = 6
    """Of a pattern, one layer in so many sees all."""
    sliding_window: int = 4096
    """Where the config does not say it; 0: all of it."""
    needs_use_sliding_window: bool = False
    """Whether the window counts with `use_sliding_window` alone."""
    attn_implementations: tuple[str, ...] = ("sdpa", "flash", "eager")
    """Kinds of attention that Transformers runs it with, its own choice first."""


LLAMA = DecoderVariant(reads_attention_bias=True, reads_mlp_bias=True)
_GEMMA = DecoderVariant(
    reads_attention_bias=True,
    head_dim=256,
    tie_word_embeddings=True,
    rms_norm="added",
    scales_embeddings=True,
)
_OLMO = DecoderVariant(
    qk_norm="whole", reads_attention_bias=True, rms_norm="wide", norm_position="after", rotary_in_fp32=True
)
DECODER_VARIANTS: Mapping[str, DecoderVariant] = {
    "llama": LLAMA,
    "mistral": DecoderVariant(window_layers="all"),
    "mixtral": DecoderVariant(moe_block="MixtralSparseMoeBlock", window_layers="all", sliding_window=0),
    "qwen2": DecoderVariant(qkv_bias=True, window_layers="late", needs_use_sliding_window=True),
    "qwen3": DecoderVariant(
        qk_norm="each",
        reads_attention_bias=True,
        head_dim=128,
        window_layers="late",
        needs_use_sliding_window=True,
    ),
    "qwen2_moe": DecoderVariant(
        num_masks=2,
        router_dtype="narrow",
        moe_block="Qwen2MoeSparseMoeBlock",
        expert_defaults=ExpertDefaults(60, 4, 1408, shared_intermediate_size=5632),
        window_layers="even early",
        needs_use_sliding_window=True,
    ),
    "qwen3_moe": DecoderVariant(
        qk_norm="each",
        reads_attention_bias=True,
        router_dtype="narrow",
        experts_before_gate=True,
        moe_block="Qwen3MoeSparseMoeBlock",
        expert_defaults=ExpertDefaults(128, 8, 768),
        window_layers="all",
        needs_use_sliding_window=True,
    ),
    "phi3": DecoderVariant(fused_projections=True, window_layers="all", sliding_window=0),
    "gemma": _GEMMA,
    "gemma2": _GEMMA._replace(
        norm_position="around", num_masks=2, window_layers="even", attn_implementations=("eager", "flash")
    ),
    "gemma3_text": _GEMMA._replace(
        qk_norm="each", norm_position="around", num_masks=2, rotary_tables=2, window_layers="pattern"
    ),
    "olmo2": _OLMO,
    "olmo3": _OLMO._replace(num_masks=2, rotary_tables=2, window_layers="pattern", full_attention_interval=4),
}
