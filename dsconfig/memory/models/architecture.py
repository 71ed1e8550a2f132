"""The dimensions of a model that determine its parameters and activations."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.autograd_graph import (
    ForwardTape,
    FusedKernels,
    LoraAdapter,
    Quantization,
    TensorParallelSettings,
    TrainingObjective,
)

if TYPE_CHECKING:
    from dsconfig.memory.models.decoder_model_types import DecoderVariant

# Sizes of a model, and of a micro batch.


class RepeatedBlock(NamedTuple):
    """The weight matrices of a block, and how often it is repeated."""

    name: str
    repeats: int
    weights: tuple[tuple[str, int, int], ...]
    """Name, rows and columns of each matrix; names of linear layers end in `_proj`."""


class LatentAttention(NamedTuple):
    """Ranks and head sizes of multi-head latent attention (DeepSeek), named as in `config.json`."""

    q_lora_rank: int
    """Rank of the queries, or 0 if queries have a single projection."""
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int


class Resampler(NamedTuple):
    """Learned queries that attend to the patches of an image, and become its tokens."""

    num_queries: int
    hidden_size: int
    num_heads: int


class Tower(NamedTuple):
    """An image or audio encoder whose outputs become tokens of the language model."""

    name: str
    """Path of the encoder's module."""
    hidden_size: int
    num_layers: int
    intermediate_size: int
    num_heads: int
    patch_numel: int
    """Number of elements in an input patch, which a convolution projects."""
    merged_patches: int = 1
    """Number of patches that are merged into one token."""
    image_patches: int = 0
    """Number of patches in an image, or 0 if images may have any size."""
    patch_bias: bool = False
    biases: int = 4
    """Number of attention projections with a bias."""
    mlp_bias: bool = True
    is_gated: bool = False
    """Whether the encoder's MLP has a gate."""
    activation: str = "gelu"
    """Activation of an encoder MLP without a gate: `gelu`, or `quick_gelu` (CLIP)."""
    rotary: str = ""
    """Rotary embeddings: none, `separate` (Pixtral), or `fused` with one QKV projection, image by image (Qwen-VL)."""
    norm: str = "layer"
    """Implementation of the norms; see `layers.normalize`."""
    other_numel: int = 0
    """Number of parameters besides patches, layers and projector: position and class embeddings, norms."""
    layer_other_numel: int = 0
    """Number of parameters in a layer besides its projections and norms (layer scale)."""
    projector: tuple[tuple[int, int, bool], ...] = ()
    """Rows, columns and bias of the linear layers that turn patches into tokens."""
    projector_norm: int = 0
    """Number of elements in the vectors that the projector normalizes first, or 0 without such a norm."""
    projector_other_numel: int = 0
    """Number of parameters in the projector besides its norm and linear layers."""
    resampler: Resampler | None = None
    """Cross attention that follows the encoder, or None if patches become tokens."""
    is_frozen: bool = False
    """Whether the model's own code freezes the encoder, but not the projector (LLaVA's repository)."""
    is_audio: bool = False
    projects_patches: bool = False
    """Whether the linear layers of the projector run over all patches, before they are merged (Idefics2)."""
    attends_eagerly: bool = False
    """Whether the encoder runs attention as separate operations, whatever implementation is requested."""
    max_tiles: int = 1
    """Largest number of tiles into which an image is cut, each with the tokens of `image_tokens`."""

    @property
    def image_tokens(self) -> int:
        """Number of tokens per image or tile, or `ASSUMED_IMAGE_TOKENS` if images may have any size."""
        if self.resampler is not None:
            return self.resampler.num_queries
        return self.image_patches // self.merged_patches or ASSUMED_IMAGE_TOKENS

    def patches_of(self, tokens: int) -> int:
        """Return the number of patches that the encoder turns into this many tokens."""
        if self.resampler is not None:
            return -(-tokens * self.image_patches // self.resampler.num_queries)
        return tokens * self.merged_patches


ASSUMED_IMAGE_TOKENS = 1024
"""Tokens of an image of 896 by 896 pixels in patches of 14 by 14, of which four become one token (Qwen2-VL)."""


class Architecture(NamedTuple):
    """Dimensions of a model, named as in Hugging Face's `config.json`; unused fields keep their defaults."""

    family: str
    """Model family: bert, decoder, gpt2, gpt_neox, opt, vit, plain, generic, or sized (only parameters are known)."""
    hidden_size: int
    num_layers: int
    intermediate_size: int
    """Size of the MLP's hidden layer."""
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
    """Number of experts per token."""
    moe_intermediate_size: int = 0
    """Size of an expert's hidden layer."""
    shared_expert_intermediate_size: int = 0
    """Size of the shared expert's hidden layer, or 0 without a shared expert."""
    mlp_only_layers: tuple[int, ...] = ()
    """Layers with a dense MLP in a MoE model."""
    sliding_window: int = 0
    """Window of `sliding_layers` in tokens, or 0 without a window."""
    sliding_layers: tuple[int, ...] = ()
    """Layers with sliding-window attention."""
    rotary_dim: int = 0
    """Number of elements of a head with rotary embeddings, or 0 for all of them."""
    unrotated_layers: tuple[int, ...] = ()
    """Layers whose queries and keys have no rotary embeddings."""
    has_qk_norms: bool = False
    """Whether attention normalizes queries and keys."""
    lm_head_bias: bool = False
    embedding_dropout: float = 0.0
    latent: LatentAttention | None = None
    """Ranks and head sizes of multi-head latent attention, or None for other attention."""
    towers: tuple[Tower, ...] = ()
    """Encoders of images or audio that feed the language model."""
    unmodeled_part: str = ""
    """Config key of an encoder or talker that is not, or not wholly, counted."""
    caps_attn_scores: bool = False
    caps_logits: bool = False
    """Whether attention scores and logits go through a tanh (`*_logit_softcapping`)."""
    max_position_embeddings: int = 0
    """Longest sequence with learned positions, or 0 for no limit."""
    position_offset: int = 0
    """Number of extra rows in the position table (OPT, RoBERTa)."""
    type_vocab_size: int = 0
    """Number of token types (BERT)."""
    use_parallel_residual: bool = False
    """Whether attention and MLP read the same input (GPT-NeoX)."""
    norms_per_layer: int = 2
    """Number of norms in a layer with parallel attention and MLP (Falcon)."""
    image_size: int = 0
    patch_size: int = 0
    num_channels: int = 3
    num_labels: int = 2
    dropout: float = 0.0
    attention_dropout: float = 0.0
    trained_fraction: float = 1.0
    """Fraction of plain blocks that is trained, starting with the first."""
    name: str = ""
    lm_head_shards: int = 1
    """Number of ranks that share the head; `num_heads` and `intermediate_size` already are those of one rank."""
    weight_blocks: tuple[RepeatedBlock, ...] = ()
    """Weight matrices of a model whose layers are not known."""
    has_rms_norms: bool = True
    """Whether a generic transformer has RMS norms rather than layer norms."""
    attends_eagerly: bool = False
    """Whether a generic transformer runs attention as separate operations, whatever implementation is requested."""
    has_position_bias: bool = False
    """Whether a generic transformer adds learned position biases to the attention scores (T5)."""
    has_tanh_gelu: bool = False
    """Whether a generic transformer uses `NewGELUActivation`."""
    embedding_size: int = 0
    """Size of a token's embedding in a generic transformer, or 0 if it equals the hidden size."""
    default_length: int = 0
    """Sequence length in tokens that an encoder is made for, or 0 if a model takes sequences of any length."""
    encoder_length: int = 0
    """Number of encoder positions, if independent of the sequence (Whisper), or 0 for one per token."""
    has_language_head: bool = True
    """Whether a generic transformer computes logits over its vocabulary."""

    @property
    def variant(self) -> DecoderVariant:
        """How the model type of the decoder differs from Llama."""
        from dsconfig.memory.models.decoder_model_types import DECODER_VARIANTS, LLAMA

        return DECODER_VARIANTS.get(self.name, LLAMA)


class MicroBatch(NamedTuple):
    """The size of a micro batch, and how the training script computes its loss."""

    micro_batch_size: int
    sequence_length: int
    itemsize: int = 4
    """Bytes per model weight."""
    autocast: bool = False
    attn_implementation: str = "sdpa"
    gradient_checkpointing: bool = False
    saves_linear_inputs: bool = False
    """Whether a frozen linear layer saves its input, as stage 3's `LinearFunctionForZeroStage3` does."""
    adapter: LoraAdapter | None = None
    tensor_parallel: TensorParallelSettings = TensorParallelSettings()
    """Tensor-parallel settings (AutoTP)."""

    sp_size: int = 1
    """Number of sequence-parallel ranks (Ulysses); `sequence_length` is that of the whole sequence."""
    ep_size: int = 0
    """Number of expert-parallel ranks (AutoEP), or 0 if AutoEP is off."""
    expert_imbalance: float = 1.0
    """Number of tokens that this rank's experts receive, relative to the tokens that the rank sends."""
    on_cpu: bool = False
    """Whether the pass runs on a CPU, where torch casts the operands of some operations first."""
    kernels: FusedKernels = FusedKernels()
    """Implementations of the loss, the norms and the MLPs."""
    quantization: Quantization | None = None
    """Storage of the frozen layers, or None if the model is not quantized."""
    objective: TrainingObjective = TrainingObjective()
    """Loss of the training method."""
    image_tokens: int | None = None
    """Number of image tokens in a sequence, or None for those of one image."""
    trains_towers: bool = True
    """Whether encoders of images or audio, and their projectors, are trained; not if adapters are."""
    trains_towers_beside_adapters: bool = False
    trains_language_model: bool = True
    """Whether the language model, or its adapters, are trained, or only the encoders and projectors that feed it."""
    checkpoints_towers: bool | None = None
    """Activation checkpointing of the encoders' layers, or None if they follow `gradient_checkpointing`."""
    has_varied_lengths: bool = False
    """Whether batches fall short of `sequence_length` by varying amounts, since nothing packs or pads sequences."""
    records_pass: bool = True
    """Whether to record a forward pass; False builds only the parameters."""

    @property
    def local_sequence_length(self) -> int:
        """Number of tokens of each sequence that this rank processes."""
        return self.sequence_length // self.sp_size

    @property
    def needs_input_grad(self) -> bool:
        """Whether the output of a frozen embedding requires gradients (PEFT's `enable_input_require_grads`)."""
        return self.adapter is not None and self.gradient_checkpointing

    def new_tape(self) -> ForwardTape:
        """Create an empty tape for this micro batch."""
        return ForwardTape(
            self.itemsize,
            self.autocast,
            self.saves_linear_inputs,
            self.adapter,
            self.on_cpu,
            self.kernels,
            self.quantization,
            self.objective,
            self.trains_language_model,
        )
