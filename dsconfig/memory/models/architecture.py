"""Architecture of a model: the sizes that decide parameters and activations, and the variants of Llama."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from dsconfig.memory.autograd_graph import (
    ForwardTape,
    FusedKernels,
    LoraAdapter,
    Quantization,
    TensorParallelSettings,
)

# Sizes of a model, and of a micro batch.


class RepeatedBlock(NamedTuple):
    """Matrices of a repeated block."""

    name: str
    repeats: int
    weights: tuple[tuple[str, int, int], ...]
    """Name, rows and columns of each; linear layers end in `_proj`."""


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

    @property
    def variant(self) -> DecoderVariant:
        """Differences from Llama, for decoders."""
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
    """Storage of the frozen linear layers, if the model is quantized."""
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
        )


# Decoders that differ from Llama in details (Transformers 5, models/*/modeling_*.py and configuration_*.py).


class ExpertDefaults(NamedTuple):
    """Defaults of a MoE config class."""

    num_experts: int
    num_experts_per_tok: int
    intermediate_size: int
    shared_intermediate_size: int = 0
    """Elements of the shared expert's hidden layer; 0: no shared expert."""


class DecoderVariant(NamedTuple):
    """Differences of a model type from Llama."""

    qk_norm: Literal["", "per_head", "all_heads"] = ""
    """Whether queries and keys are normalized, per head or over all heads."""
    qkv_bias: bool = False
    reads_attention_bias: bool = False
    """Whether the config class has `attention_bias`, for all four projections."""
    reads_mlp_bias: bool = False
    """Whether the config class has `mlp_bias`."""
    head_dim: int = 0
    """Default of `head_dim`."""
    tie_word_embeddings: bool = False
    """Default of `tie_word_embeddings`."""
    rms_norm: Literal["llama", "olmo2", "gemma"] = "llama"
    """Implementation of RMSNorm; see `layers.rms_norm`."""
    norm_position: Literal["pre", "post", "sandwich", "sandwich_glm4"] = "pre"
    """Norms before attention and MLP, after them, or both; GLM-4 has its own names for both."""
    fused_projections: bool = False
    """Whether `qkv_proj` and `gate_up_proj` are fused, with partial rotary embeddings (Phi 3)."""
    layer_norms: bool = False
    """Whether norms are `nn.LayerNorm`, with a bias."""
    plain_mlp: bool = False
    """Whether the MLP has no gate (`c_fc`, `c_proj`)."""
    fused_gate_up: bool = False
    """Whether only `gate_up_proj` is fused (GLM)."""
    partial_rotary_factor: float = 0.0
    """Default of `partial_rotary_factor`, if queries and keys are rotated in part, each on its own; 0: as a whole."""
    scales_embeddings: bool = False
    """Whether embeddings are scaled (Gemma, Granite)."""
    scales_residuals: bool = False
    """Whether the outputs of attention and MLP, and the logits, are scaled (Granite)."""
    rotary_tables: int = 1
    """Number of cos/sin tables: one per kind of layer."""
    rotary_in_fp32: bool = False
    """Whether cos, sin and the rotation are in fp32."""
    num_masks: int = 1
    """Number of masks with eager attention."""
    router_dtype: Literal["fp32", "model"] = "fp32"
    """Dtype of the expert weights of a token: fp32, or that of the model."""
    expert_defaults: ExpertDefaults | None = None
    """Defaults of MoE sizes, for models with `moe_intermediate_size`."""
    experts_before_gate: bool = False
    """Whether experts precede the router in `named_parameters()`."""
    moe_block: str = ""
    """Class of the MoE block."""
    window_layers: Literal["", "all", "upper", "lower even", "even", "pattern"] = ""
    """Layers with a sliding window if `layer_types` is absent."""
    full_attention_interval: int = 6
    """With `pattern`, every n-th layer has full attention."""
    sliding_window: int = 4096
    """Default of `sliding_window`; 0: none."""
    needs_use_sliding_window: bool = False
    """Whether the window requires `use_sliding_window`."""
    attn_implementations: tuple[str, ...] = ("sdpa", "flash", "eager")
    """Supported attention implementations; Transformers uses the first by default."""


LLAMA = DecoderVariant(reads_attention_bias=True, reads_mlp_bias=True)
_GEMMA = DecoderVariant(
    reads_attention_bias=True,
    head_dim=256,
    tie_word_embeddings=True,
    rms_norm="gemma",
    scales_embeddings=True,
)
_OLMO = DecoderVariant(
    qk_norm="all_heads",
    reads_attention_bias=True,
    rms_norm="olmo2",
    norm_position="post",
    rotary_in_fp32=True,
)
_GLM = DecoderVariant(head_dim=128, fused_gate_up=True, partial_rotary_factor=0.5)
DECODER_VARIANTS: Mapping[str, DecoderVariant] = {
    "llama": LLAMA,
    "mistral": DecoderVariant(window_layers="all"),
    "mixtral": DecoderVariant(moe_block="MixtralSparseMoeBlock", window_layers="all", sliding_window=0),
    "qwen2": DecoderVariant(qkv_bias=True, window_layers="upper", needs_use_sliding_window=True),
    "qwen3": DecoderVariant(
        qk_norm="per_head",
        reads_attention_bias=True,
        head_dim=128,
        window_layers="upper",
        needs_use_sliding_window=True,
    ),
    "qwen2_moe": DecoderVariant(
        num_masks=2,
        router_dtype="model",
        moe_block="Qwen2MoeSparseMoeBlock",
        expert_defaults=ExpertDefaults(60, 4, 1408, shared_intermediate_size=5632),
        window_layers="lower even",
        needs_use_sliding_window=True,
    ),
    "qwen3_moe": DecoderVariant(
        qk_norm="per_head",
        reads_attention_bias=True,
        router_dtype="model",
        experts_before_gate=True,
        moe_block="Qwen3MoeSparseMoeBlock",
        expert_defaults=ExpertDefaults(128, 8, 768),
        window_layers="all",
        needs_use_sliding_window=True,
    ),
    "phi3": DecoderVariant(fused_projections=True, window_layers="all", sliding_window=0),
    "gemma": _GEMMA,
    "gemma2": _GEMMA._replace(
        norm_position="sandwich", num_masks=2, window_layers="even", attn_implementations=("eager", "flash")
    ),
    "gemma3_text": _GEMMA._replace(
        qk_norm="per_head", norm_position="sandwich", num_masks=2, rotary_tables=2, window_layers="pattern"
    ),
    "olmo2": _OLMO,
    "olmo3": _OLMO._replace(num_masks=2, rotary_tables=2, window_layers="pattern", full_attention_interval=4),
    "granite": LLAMA._replace(scales_embeddings=True, scales_residuals=True),
    "starcoder2": DecoderVariant(
        tie_word_embeddings=True, layer_norms=True, plain_mlp=True, window_layers="all", sliding_window=0
    ),
    "glm": _GLM,
    "glm4": _GLM._replace(norm_position="sandwich_glm4"),
}
