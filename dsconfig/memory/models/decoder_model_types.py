"""How the decoders of Transformers 5 differ from Llama (`models/*/modeling_*.py`, `configuration_*.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple


class BiasKey(NamedTuple):
    """A `config.json` key that enables the bias of linear layers, with its default."""

    key: str = ""
    default: bool = False


class MoEVariant(NamedTuple):
    """The MoE block of a model type, and the defaults of its config class."""

    block: str = ""
    """Class name of the MoE block."""
    num_experts: int = 8
    num_experts_per_tok: int = 2
    intermediate_size: int = 0
    """Size of an expert's hidden layer if `moe_intermediate_size` is absent, or 0 for that of `intermediate_size`."""
    shared_intermediate_size: int = 0
    """Default of `shared_expert_intermediate_size`, or 0 if the model has no such key."""
    shared_experts: Literal["", "gated", "added"] = ""
    """Whether all tokens also pass shared experts, whose output goes through a gate or is added."""
    router: Literal["softmax", "softmax_chosen", "sigmoid", "softmax_fp32", "sigmoid_fp32"] = "softmax"
    """Function applied to all router scores or to the chosen ones; with `fp32` the router computes in fp32."""
    router_dtype: Literal["fp32", "model"] = "fp32"
    """Dtype of the expert weights of a token: fp32, or the model's dtype."""
    router_name: str = "gate"
    experts_first: bool = False
    """Whether the experts precede the router in `named_parameters()`."""
    has_biases: bool = False
    """Whether router and experts have biases, and the gate is clamped (gpt-oss)."""


class DecoderVariant(NamedTuple):
    """The differences between a model type and Llama."""

    # Attention.
    qkv_bias: BiasKey = BiasKey()
    o_bias: BiasKey = BiasKey()
    qk_norm: Literal["", "per_head", "all_heads", "each_head"] = ""
    """Whether queries and keys are normalized: per head, over all heads, or per head with weights for each head."""
    qk_norm_key: BiasKey = BiasKey("", True)
    """Key that decides whether queries and keys are normalized."""
    qk_norm_kind: str = ""
    """Implementation of the query and key norms, or empty to use that of the other norms."""
    qk_norm_names: tuple[str, str] = ("q_norm", "k_norm")
    normalizes_rotated: bool = False
    """Whether queries and keys are normalized after they are rotated (Hunyuan)."""
    head_dim: int = 0
    """Default of `head_dim` in the model type's config class."""
    fused_qkv: bool = False
    """Whether one layer projects queries, keys and values."""
    rotary: Literal["half", "interleaved", "fp32_product", "fp32", "fp32_interleaved", "split"] = "half"
    """How queries and keys are rotated; see `rotary.rotate`."""
    partial_rotary_factor: float = 0.0
    """Default of `partial_rotary_factor` if only a part of each query and key is rotated, or 0 if all of it is."""
    rotary_tables: int = 1
    """Number of cos/sin tables, with one for each kind of layer."""
    unrotated_layers: Literal["", "every fourth", "full attention"] = ""
    """Layers without rotary embeddings (`no_rope_layers`, or layers with full attention)."""
    num_masks: int = 1
    """Number of attention masks in eager attention."""
    window_layers: Literal["", "all", "upper", "lower even", "even", "pattern"] = ""
    """Layers with a sliding window if `layer_types` is absent."""
    full_attention_interval: int = 6
    """With `window_layers` set to `pattern`, every n-th layer has full attention."""
    sliding_window: int = 4096
    """Default of `sliding_window`, or 0 for no window."""
    needs_use_sliding_window: bool = False
    """Whether the window requires `use_sliding_window`."""
    attn_implementations: tuple[str, ...] = ("sdpa", "flash", "eager")
    """Supported attention implementations; Transformers uses the first by default."""
    is_latent: bool = False
    """Whether attention is multi-head latent attention (`kv_lora_rank`)."""
    # MLP.
    mlp: Literal["gated", "gate_up", "plain"] = "gated"
    """Kind of MLP: gate and up projection as two layers or as one layer, or no gate."""
    mlp_bias: BiasKey = BiasKey()
    activation: Literal["act", "relu2", "xielu", "gelu_new"] = "act"
    """Activation of an MLP without a gate."""
    moe: MoEVariant | None = None
    # Norms and residuals.
    norm: Literal["llama", "olmo2", "gemma", "layer", "layer_1p", "layer_fp32", "layer_unweighted"] = "llama"
    """Implementation of the norms; see `layers.normalize`."""
    norm_position: Literal["pre", "post", "sandwich", "sandwich_glm4", "parallel", "parallel_pair"] = "pre"
    """Whether norms come before attention and MLP, after them, or both, or attention and MLP read the same input."""
    norm_names: tuple[str, ...] = ()
    """Names of a layer's norms, if they differ from those of Llama."""
    names: Mapping[str, str] = {}
    """Names of linear layers that differ from those of Llama."""
    scales_embeddings: bool = False
    """Whether embeddings are scaled (Gemma, Granite)."""
    scales_residuals: bool = False
    """Whether the outputs of attention and MLP are scaled (Granite)."""
    scales_logits: bool = False
    keeps_logits_dtype: bool = False
    """Whether the loss is computed from a shifted copy of the logits in their dtype (code loaded from the hub)."""
    halves_intermediate_size: bool = False
    """Whether gate and up projection have half of `intermediate_size` each (modeling_qwen.py, `QWenMLP`)."""
    residual_dropout: str = ""
    """Config key of the dropout of residuals."""
    embedding_dropout: str = ""
    """Config key of the dropout of embeddings."""
    tie_word_embeddings: bool = False
    """Default of `tie_word_embeddings` in the model type's config class."""
    lm_head_bias: BiasKey = BiasKey()


_ATTENTION_BIAS, _MLP_BIAS, ALWAYS = BiasKey("attention_bias"), BiasKey("mlp_bias"), BiasKey("", True)
LLAMA = DecoderVariant(qkv_bias=_ATTENTION_BIAS, o_bias=_ATTENTION_BIAS, mlp_bias=_MLP_BIAS)
_PROJECTED = DecoderVariant(qkv_bias=_ATTENTION_BIAS, o_bias=_ATTENTION_BIAS)
_GEMMA = _PROJECTED._replace(head_dim=256, tie_word_embeddings=True, norm="gemma", scales_embeddings=True)
_OLMO2 = _PROJECTED._replace(qk_norm="all_heads", norm="olmo2", norm_position="post", rotary="fp32_product")
_GLM = DecoderVariant(
    qkv_bias=BiasKey("attention_bias", True), head_dim=128, mlp="gate_up", partial_rotary_factor=0.5
)
_COHERE = _PROJECTED._replace(
    norm="layer_fp32",
    norm_position="parallel",
    rotary="fp32",
    scales_logits=True,
    tie_word_embeddings=True,
)
_DEEPSEEK = DecoderVariant(
    o_bias=_ATTENTION_BIAS,
    is_latent=True,
    moe=MoEVariant(
        "DeepseekV3MoE", 256, 8, 2048, shared_experts="added", router="sigmoid_fp32", experts_first=True
    ),
)
_PHI_NAMES = {"o_proj": "dense", "up_proj": "fc1", "down_proj": "fc2"}
_STARCODER_NAMES = {"up_proj": "c_fc", "down_proj": "c_proj"}
_USE_BIAS = BiasKey("use_bias", True)
DECODER_VARIANTS: Mapping[str, DecoderVariant] = {
    "llama": LLAMA,
    "mistral": DecoderVariant(window_layers="all"),
    "ministral": DecoderVariant(window_layers="all"),
    "ministral3": DecoderVariant(window_layers="all", sliding_window=0),
    "mixtral": DecoderVariant(moe=MoEVariant("MixtralSparseMoeBlock"), window_layers="all", sliding_window=0),
    # Code of the model's repository (modeling_qwen.py), not of Transformers.
    "qwen": DecoderVariant(
        qkv_bias=ALWAYS,
        fused_qkv=True,
        names={
            "qkv_proj": "c_attn",
            "o_proj": "c_proj",
            "gate_proj": "w2",
            "up_proj": "w1",
            "down_proj": "c_proj",
        },
        rotary="fp32",
        keeps_logits_dtype=True,
        halves_intermediate_size=True,
    ),
    "qwen2": DecoderVariant(qkv_bias=ALWAYS, window_layers="upper", needs_use_sliding_window=True),
    "qwen3": _PROJECTED._replace(
        qk_norm="per_head", head_dim=128, window_layers="upper", needs_use_sliding_window=True
    ),
    "qwen2_moe": DecoderVariant(
        qkv_bias=BiasKey("qkv_bias", True),
        num_masks=2,
        moe=MoEVariant(
            "Qwen2MoeSparseMoeBlock", 60, 4, 1408, 5632, shared_experts="gated", router_dtype="model"
        ),
        window_layers="lower even",
        needs_use_sliding_window=True,
    ),
    "qwen3_moe": _PROJECTED._replace(
        qk_norm="per_head",
        moe=MoEVariant("Qwen3MoeSparseMoeBlock", 128, 8, 768, router_dtype="model", experts_first=True),
        window_layers="all",
        needs_use_sliding_window=True,
    ),
    "phi3": DecoderVariant(
        fused_qkv=True,
        mlp="gate_up",
        residual_dropout="resid_pdrop",
        embedding_dropout="embd_pdrop",
        window_layers="all",
        sliding_window=0,
    ),
    "gemma": _GEMMA,
    "gemma2": _GEMMA._replace(
        norm_position="sandwich", num_masks=2, window_layers="even", attn_implementations=("eager", "flash")
    ),
    "gemma3_text": _GEMMA._replace(
        qk_norm="per_head", norm_position="sandwich", num_masks=2, rotary_tables=2, window_layers="pattern"
    ),
    "olmo": _PROJECTED._replace(norm="layer_unweighted", rotary="fp32_product"),
    "olmo2": _OLMO2,
    "olmo3": _OLMO2._replace(
        num_masks=2, rotary_tables=2, window_layers="pattern", full_attention_interval=4
    ),
    "olmoe": _PROJECTED._replace(
        qk_norm="all_heads", moe=MoEVariant("OlmoeSparseMoeBlock", 64, 8, router_dtype="model")
    ),
    "granite": LLAMA._replace(scales_embeddings=True, scales_residuals=True, scales_logits=True),
    "starcoder2": DecoderVariant(
        qkv_bias=_USE_BIAS,
        o_bias=_USE_BIAS,
        mlp_bias=_USE_BIAS,
        tie_word_embeddings=True,
        norm="layer",
        mlp="plain",
        names=_STARCODER_NAMES,
        residual_dropout="residual_dropout",
        embedding_dropout="embedding_dropout",
        window_layers="all",
        sliding_window=0,
    ),
    "glm": _GLM,
    "glm4": _GLM._replace(norm_position="sandwich_glm4"),
    "glm4_moe": DecoderVariant(
        qkv_bias=_ATTENTION_BIAS,
        head_dim=128,
        qk_norm="per_head",
        qk_norm_key=BiasKey("use_qk_norm"),
        partial_rotary_factor=0.5,
        moe=MoEVariant(
            "Glm4MoeMoE", 128, 8, 1408, shared_experts="added", router="sigmoid_fp32", experts_first=True
        ),
    ),
    "cohere": _COHERE._replace(qk_norm="each_head", qk_norm_key=BiasKey("use_qk_norm")),
    "cohere2": _COHERE._replace(
        num_masks=2,
        window_layers="pattern",
        full_attention_interval=4,
        unrotated_layers="full attention",
    ),
    "smollm3": LLAMA._replace(
        tie_word_embeddings=True,
        unrotated_layers="every fourth",
        window_layers="pattern",
        sliding_window=0,
        needs_use_sliding_window=True,
    ),
    "seed_oss": DecoderVariant(
        qkv_bias=BiasKey("attention_bias", True),
        o_bias=BiasKey("attention_out_bias"),
        mlp_bias=_MLP_BIAS,
        head_dim=128,
        residual_dropout="residual_dropout",
    ),
    "arcee": LLAMA._replace(mlp="plain", activation="relu2"),
    "apertus": _PROJECTED._replace(
        qk_norm="per_head",
        mlp="plain",
        activation="xielu",
        norm_names=("attention_layernorm", "feedforward_layernorm"),
    ),
    "nemotron": LLAMA._replace(mlp="plain", activation="relu2", norm="layer_1p", partial_rotary_factor=0.5),
    "helium": DecoderVariant(
        qkv_bias=_ATTENTION_BIAS, mlp_bias=_MLP_BIAS, norm="olmo2", rotary="interleaved"
    ),
    "ernie4_5": DecoderVariant(
        qkv_bias=BiasKey("use_bias"),
        o_bias=BiasKey("use_bias"),
        mlp_bias=BiasKey("use_bias"),
        head_dim=128,
        rotary="fp32_interleaved",
        tie_word_embeddings=True,
    ),
    # Code of the model's repository (modeling_internlm2.py).
    "internlm2": DecoderVariant(
        qkv_bias=BiasKey("bias"),
        o_bias=BiasKey("bias"),
        fused_qkv=True,
        names={"qkv_proj": "wqkv", "o_proj": "wo", "gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"},
    ),
    "internlm3": DecoderVariant(
        qkv_bias=BiasKey("qkv_bias"), o_bias=BiasKey("bias"), mlp_bias=BiasKey("bias"), head_dim=128
    ),
    "hunyuan_v1_dense": _PROJECTED._replace(
        qk_norm="per_head", qk_norm_names=("query_layernorm", "key_layernorm"), normalizes_rotated=True
    ),
    "exaone4": DecoderVariant(
        qk_norm="per_head",
        norm_position="post",
        num_masks=2,
        window_layers="pattern",
        full_attention_interval=4,
        unrotated_layers="full attention",
    ),
    "stablelm": DecoderVariant(
        qkv_bias=BiasKey("use_qkv_bias"),
        qk_norm="each_head",
        qk_norm_key=BiasKey("qk_layernorm"),
        qk_norm_kind="layer_unbiased",
        qk_norm_names=("q_layernorm", "k_layernorm"),
        norm="layer",
        partial_rotary_factor=0.25,
        residual_dropout="hidden_dropout",
    ),
    "phi": DecoderVariant(
        qkv_bias=ALWAYS,
        o_bias=ALWAYS,
        mlp_bias=ALWAYS,
        lm_head_bias=ALWAYS,
        qk_norm="per_head",
        qk_norm_key=BiasKey("qk_layernorm"),
        qk_norm_names=("q_layernorm", "k_layernorm"),
        norm="layer",
        norm_position="parallel",
        mlp="plain",
        activation="gelu_new",
        names=_PHI_NAMES,
        partial_rotary_factor=0.5,
        residual_dropout="resid_pdrop",
        embedding_dropout="embd_pdrop",
    ),
    "deepseek_v2": _DEEPSEEK._replace(
        mlp_bias=_MLP_BIAS,
        moe=MoEVariant(
            "DeepseekV2Moe", 64, 6, 1407, shared_experts="added", router="softmax_fp32", experts_first=True
        ),
    ),
    "deepseek_v3": _DEEPSEEK,
    "kimi_k2": _DEEPSEEK,
    # Code of the model's repository (modeling_minicpm.py).
    "minicpm": _PROJECTED._replace(
        scales_embeddings=True, scales_residuals=True, scales_logits=True, tie_word_embeddings=True
    ),
    "minicpm3": DecoderVariant(
        o_bias=_ATTENTION_BIAS,
        is_latent=True,
        scales_embeddings=True,
        scales_residuals=True,
        scales_logits=True,
        tie_word_embeddings=True,
    ),
    "dots1": _PROJECTED._replace(
        qk_norm="per_head",
        moe=MoEVariant(
            "Dots1MoE", 128, 6, 1408, shared_experts="added", router="sigmoid_fp32", experts_first=True
        ),
    ),
    "gpt_oss": DecoderVariant(
        qkv_bias=BiasKey("attention_bias", True),
        o_bias=BiasKey("attention_bias", True),
        head_dim=64,
        norm="olmo2",
        rotary="split",
        num_masks=2,
        window_layers="even",
        sliding_window=128,
        moe=MoEVariant("GptOssMLP", 128, 4, router="softmax_chosen", router_name="router", has_biases=True),
        attn_implementations=("eager", "flash"),
    ),
    "minimax_m2": DecoderVariant(
        head_dim=128,
        qk_norm="all_heads",
        partial_rotary_factor=1.0,
        moe=MoEVariant("MiniMaxM2SparseMoeBlock", 256, 8, router="sigmoid"),
    ),
}
