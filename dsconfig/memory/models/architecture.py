"""Architecture of a model: the sizes that decide parameters and activations, and the variants of Llama."""

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
    """Matrices of a repeated block."""

    name: str
    repeats: int
    weights: tuple[tuple[str, int, int], ...]
    """Name, rows and columns of each; linear layers end in `_proj`."""


class LatentAttention(NamedTuple):
    """Ranks and head sizes of multi-head latent attention (DeepSeek), named as in `config.json`."""

    q_lora_rank: int
    """Rank of the queries; 0: they have one projection."""
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int


class Tower(NamedTuple):
    """Encoder of images or audio, whose outputs are tokens of the language model."""

    name: str
    """Path of the module."""
    hidden_size: int
    num_layers: int
    intermediate_size: int
    num_heads: int
    patch_numel: int
    """Elements of a patch of the input, which a convolution projects."""
    merged_patches: int = 1
    """Patches that become one token."""
    image_patches: int = 0
    """Patches of an image; 0: images may have any size."""
    patch_bias: bool = False
    biases: int = 4
    """Attention projections with a bias."""
    mlp_bias: bool = True
    is_gated: bool = False
    """Whether the MLP has a gate."""
    activation: str = "gelu"
    """Activation of an MLP without a gate: `gelu`, or `quick_gelu` (CLIP)."""
    rotary: str = ""
    """Rotary embeddings: none, `separate` (Pixtral), or `fused` with one projection and images one by one (Qwen-VL)."""
    norm: str = "layer"
    """Implementation of the norms; see `norms.normalize`."""
    other_numel: int = 0
    """Parameters besides patches, layers and projector: position and class embeddings, norms."""
    layer_other_numel: int = 0
    """Parameters of a layer besides its projections and norms (layer scale)."""
    projector: tuple[tuple[int, int, bool], ...] = ()
    """Rows, columns and bias of the linear layers that turn patches into tokens."""
    projector_norm: int = 0
    """Elements of the vectors that the projector normalizes first; 0: it has no norm."""
    projector_other_numel: int = 0
    """Parameters of the projector besides its norm and linear layers."""

    @property
    def image_tokens(self) -> int:
        """Tokens of an image; `ASSUMED_IMAGE_TOKENS` if images may have any size."""
        return self.image_patches // self.merged_patches or ASSUMED_IMAGE_TOKENS


ASSUMED_IMAGE_TOKENS = 1024
"""Tokens of an image of 896 by 896 pixels in patches of 14 pixels, of which four become one token (Qwen2-VL)."""


class Architecture(NamedTuple):
    """Sizes of a model, named as in Hugging Face's `config.json`; unused fields keep their defaults."""

    family: str
    """bert, decoder, gpt2, gpt_neox, opt, vit, plain, generic, or sized (only the parameters are known)."""
    hidden_size: int
    num_layers: int
    intermediate_size: int
    """Elements of the MLP's hidden layer."""
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
    """Experts per token."""
    moe_intermediate_size: int = 0
    """Elements of an expert's hidden layer."""
    shared_expert_intermediate_size: int = 0
    """Elements of the shared expert's hidden layer; 0: no shared expert."""
    mlp_only_layers: tuple[int, ...] = ()
    """Layers with a dense MLP in a MoE model."""
    sliding_window: int = 0
    """Window of `sliding_layers`, in tokens; 0: no window."""
    sliding_layers: tuple[int, ...] = ()
    """Layers with sliding-window attention."""
    rotary_dim: int = 0
    """Elements of a head with rotary embeddings; 0: all."""
    unrotated_layers: tuple[int, ...] = ()
    """Layers whose queries and keys have no rotary embeddings."""
    has_qk_norms: bool = False
    """Whether queries and keys are normalized."""
    lm_head_bias: bool = False
    embedding_dropout: float = 0.0
    latent: LatentAttention | None = None
    """Ranks and head sizes of multi-head latent attention."""
    towers: tuple[Tower, ...] = ()
    """Encoders of images or audio."""
    caps_attn_scores: bool = False
    caps_logits: bool = False
    """Whether attention scores, and logits, go through a tanh (`*_logit_softcapping`)."""
    max_position_embeddings: int = 0
    """Longest sequence with learned positions; 0: no limit."""
    position_offset: int = 0
    """Extra rows of the position table (OPT, RoBERTa)."""
    type_vocab_size: int = 0
    """Number of token types (BERT)."""
    use_parallel_residual: bool = False
    """Whether attention and MLP read the same input (GPT-NeoX)."""
    norms_per_layer: int = 2
    """Norms of a layer with parallel attention and MLP (Falcon)."""
    image_size: int = 0
    patch_size: int = 0
    num_channels: int = 3
    num_labels: int = 2
    dropout: float = 0.0
    attention_dropout: float = 0.0
    trained_fraction: float = 1.0
    """Trainable fraction of plain blocks, from the first on."""
    name: str = ""
    lm_head_shards: int = 1
    """Ranks that share the head. `num_heads` and `intermediate_size` are those of one rank already."""
    weight_blocks: tuple[RepeatedBlock, ...] = ()
    """Parameters of a model whose layers are not known."""
    has_rms_norms: bool = True
    """Whether a generic transformer has RMS norms; else layer norms."""
    attends_eagerly: bool = False
    """Whether a generic transformer runs attention as single operations, whatever is asked for."""
    has_position_bias: bool = False
    """Whether a generic transformer adds learned biases of positions to the scores (T5)."""
    has_tanh_gelu: bool = False
    """Whether a generic transformer has `NewGELUActivation`."""
    embedding_size: int = 0
    """Elements of a token's embedding in a generic transformer; 0: the hidden size."""
    default_length: int = 0
    """Tokens of a sequence that the model is made for, if it is an encoder; 0: it takes sequences of any length."""
    encoder_length: int = 0
    """Positions of the encoder, if they do not follow from the sequence (Whisper); 0: as many as tokens."""
    has_language_head: bool = True
    """Whether a generic transformer computes logits over its vocabulary."""

    @property
    def variant(self) -> DecoderVariant:
        """Differences from Llama, for decoders."""
        from dsconfig.memory.models.decoder_model_types import DECODER_VARIANTS, LLAMA

        return DECODER_VARIANTS.get(self.name, LLAMA)


class MicroBatch(NamedTuple):
    """Size and computation of one micro batch."""

    micro_batch_size: int
    sequence_length: int
    itemsize: int = 4
    """Bytes of a model weight."""
    autocast: bool = False
    attn_implementation: str = "sdpa"
    gradient_checkpointing: bool = False
    saves_linear_inputs: bool = False
    """Whether a frozen linear layer saves its input (stage 3's `LinearFunctionForZeroStage3`)."""
    adapter: LoraAdapter | None = None
    tensor_parallel: TensorParallelSettings = TensorParallelSettings()
    """Tensor parallelism (AutoTP)."""

    sp_size: int = 1
    """Sequence-parallel ranks (Ulysses); `sequence_length` is that of the whole sequence."""
    ep_size: int = 0
    """Expert-parallel ranks (AutoEP); 0 if it is off."""
    expert_imbalance: float = 1.0
    """Tokens that this rank's experts receive, relative to those it sends."""
    on_cpu: bool = False
    """Whether the pass runs on a CPU, where torch casts operands of some operations first."""
    kernels: FusedKernels = FusedKernels()
    """Implementations of the loss, norms and MLPs."""
    quantization: Quantization | None = None
    """Storage of the frozen layers, if the model is quantized."""
    objective: TrainingObjective = TrainingObjective()
    """Loss of the training method."""
    image_tokens: int | None = None
    """Tokens of a sequence that are those of images; None: one image."""
    trains_towers: bool = True
    """Whether encoders of images or audio, and their projectors, are trained."""
    has_varied_lengths: bool = False
    """Whether batches are shorter than `sequence_length` by different amounts, because nothing packs or pads them."""
    records_pass: bool = True
    """Whether to record a pass; False builds the parameters only."""

    @property
    def local_sequence_length(self) -> int:
        """Tokens of a sequence on this rank."""
        return self.sequence_length // self.sp_size

    @property
    def needs_input_grad(self) -> bool:
        """Whether a frozen embedding's output requires gradients (PEFT's `enable_input_require_grads`)."""
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
        )
