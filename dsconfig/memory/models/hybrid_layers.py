"""Weights of models that mix layer types: Mamba, convolutions, linear attention and unusual experts.

The functions follow the `__init__` methods of Transformers 5 (`models/*/modeling_*.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.memory.models.architecture import RepeatedBlock
from dsconfig.memory.models.validate_config_json import count, optional_count

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

Config: TypeAlias = "Mapping[str, Json]"
Weights: TypeAlias = "tuple[tuple[str, int, int], ...]"
Layers: TypeAlias = "list[Weights]"
OTHER = "other"
"""Name of the tensor that stands for a layer's biases, convolutions and vectors."""


def hybrid_blocks(config: Config) -> tuple[RepeatedBlock, ...]:
    """Return the layers of a model type in `LAYER_FUNCTIONS`, grouped if equal; empty for other types.

    Raises:
        InvalidModelError: a size is missing or invalid.
    """
    kind = config.get("model_type")
    function = LAYER_FUNCTIONS.get(kind) if isinstance(kind, str) else None
    if function is None:
        return ()
    return tuple(
        RepeatedBlock("layers", number, weights) for weights, number in Counter(function(config)).items()
    )


# Parts of layers.


def _other(numel: int) -> Weights:
    return ((OTHER, 1, numel),) if numel else ()


def _attention(config: Config, *, width: int = 0, biases: int = 0, gated: bool = False) -> Weights:
    """Return the projections of grouped-query attention; `gated` adds a gate to the query projection (Qwen3-Next)."""
    hidden, heads = count(config, "hidden_size"), count(config, "num_attention_heads")
    size = width or count(config, "head_dim", max(1, hidden // heads))
    kv = count(config, "num_key_value_heads", heads) * size
    queries = heads * size
    projections = (
        ("q_proj", queries * (2 if gated else 1), hidden),
        *(("k_proj", kv, hidden), ("v_proj", kv, hidden), ("o_proj", hidden, queries)),
    )
    return projections + _other(biases)


def _mlp(hidden: int, wide: int, *, gated: bool = True) -> Weights:
    names = ("gate_proj", "up_proj") if gated else ("up_proj",)
    return (*((name, wide, hidden) for name in names), ("down_proj", hidden, wide))


def _experts(hidden: int, number: int, wide: int, shared: int = 0) -> Weights:
    """Return the router, one expert tensor per projection, and the shared MLP."""
    routed = tuple((f"experts.{name}", number * wide, hidden) for name in ("gate", "up"))
    down = (("experts.down", number * hidden, wide),)
    return (("router", number, hidden), *routed, *down, *(_mlp(hidden, shared) if shared else ()))


def _mamba(hidden: int, inner: int, states: int, rank: int, kernel: int, norms: int = 0) -> Weights:
    """Return the weights of `MambaMixer`; A, D, the convolution and the bias of the step size are vectors."""
    other = inner * (states + kernel + 3) + norms
    return (
        ("in_proj", 2 * inner, hidden),
        ("x_proj", rank + 2 * states, inner),
        ("dt_proj", inner, rank),
        ("out_proj", hidden, inner),
        *_other(other),
    )


def _mamba2(
    hidden: int, inner: int, groups: int, states: int, heads: int, kernel: int, *, norm: int
) -> Weights:
    """Return the weights of `Mamba2Mixer`.

    A single projection computes the gate, input, B, C and step sizes; A, D and biases have one element per head.
    """
    convolved = inner + 2 * groups * states
    other = convolved * (kernel + 1) + 3 * heads + norm
    return (("in_proj", inner + convolved + heads, hidden), ("out_proj", hidden, inner), *_other(other))


def _convolution(hidden: int, kernel: int) -> Weights:
    """Return the weights of `Lfm2ShortConv`."""
    return (("in_proj", 3 * hidden, hidden), ("out_proj", hidden, hidden), *_other(kernel * hidden))


def _gated_delta(config: Config) -> Weights:
    """Return the weights of `Qwen3NextGatedDeltaNet`.

    These are projections for queries, keys, values and gates, a convolution, and a norm per head.
    """
    hidden, heads = count(config, "hidden_size"), count(config, "linear_num_value_heads", 32)
    size = count(config, "linear_value_head_dim", 128)
    keys = count(config, "linear_num_key_heads", 16) * count(config, "linear_key_head_dim", 128)
    values, kernel = heads * size, count(config, "linear_conv_kernel_dim", 4)
    other = (2 * keys + values) * kernel + 2 * heads + size
    rows = 2 * keys + 2 * values + 2 * heads
    return (("in_proj", rows, hidden), ("out_proj", hidden, values), *_other(other))


def _merged(*parts: Weights) -> Weights:
    """Merge parts of a layer; the tensors that are not matrices are combined into one."""
    weights = [weight for part in parts for weight in part if weight[0] != OTHER]
    other = sum(weight[2] for part in parts for weight in part if weight[0] == OTHER)
    return (*weights, *_other(other))


def _kinds(config: Config, layers: int, default: Iterable[str]) -> list[str]:
    """Return `layer_types`, or the layer types that the model class derives by default."""
    kinds = config.get("layer_types", config.get("layers_block_type"))
    if isinstance(kinds, list) and len(kinds) == layers:
        return [str(kind) for kind in kinds]
    return list(default)


# Layers by model type.


def _mamba_layers(config: Config) -> Layers:
    hidden = count(config, "hidden_size", 768)
    inner = count(config, "intermediate_size", 2 * hidden)
    rank = config.get("time_step_rank")
    steps = rank if type(rank) is int and rank > 0 else -(-hidden // 16)
    states, kernel = count(config, "state_size", 16), count(config, "conv_kernel", 4)
    layer = _mamba(hidden, inner, states, steps, kernel)
    return [layer] * count(config, "num_hidden_layers", 32)


def _mamba2_layers(config: Config) -> Layers:
    hidden, heads = count(config, "hidden_size", 4096), count(config, "num_heads", 128)
    inner = count(config, "expand", 2) * hidden
    layer = _mamba2(
        *(hidden, inner, count(config, "n_groups", 8), count(config, "state_size", 128), heads),
        count(config, "conv_kernel", 4),
        norm=inner,
    )
    return [layer] * count(config, "num_hidden_layers", 64)


def _mixer(config: Config, *, has_norm: bool = True, inner: int = 0) -> Weights:
    """Return the weights of a Mamba 2 mixer from the `mamba_*` keys of hybrid models."""
    hidden = count(config, "hidden_size")
    inner = inner or count(config, "mamba_expand", 2) * hidden
    return _mamba2(
        *(hidden, inner, count(config, "mamba_n_groups", 1), count(config, "mamba_d_state", 256)),
        count(config, "mamba_n_heads", 128),
        count(config, "mamba_d_conv", 4),
        norm=inner if has_norm else 0,
    )


def _jamba_layers(config: Config) -> Layers:
    hidden, states = count(config, "hidden_size"), count(config, "mamba_d_state", 16)
    rank = config.get("mamba_dt_rank")
    steps = rank if type(rank) is int and rank > 0 else -(-hidden // 16)
    inner, kernel = count(config, "mamba_expand", 2) * hidden, count(config, "mamba_d_conv", 4)
    mixer = _mamba(hidden, inner, states, steps, kernel, norms=steps + 2 * states)
    wide, number = count(config, "intermediate_size"), count(config, "num_experts", 16)
    periods = count(config, "attn_layer_period", 8), count(config, "expert_layer_period", 2)
    offsets = optional_count(config, "attn_layer_offset"), optional_count(config, "expert_layer_offset")
    return [
        _merged(
            _attention(config) if index % periods[0] == offsets[0] else mixer,
            _experts(hidden, number, wide)
            if number > 1 and index % periods[1] == offsets[1]
            else _mlp(hidden, wide),
        )
        for index in range(count(config, "num_hidden_layers"))
    ]


def _bamba_layers(config: Config) -> Layers:
    layers, listed = count(config, "num_hidden_layers"), config.get("attn_layer_indices")
    numbers = listed if isinstance(listed, list) else []
    mlp = _mlp(count(config, "hidden_size"), count(config, "intermediate_size"))
    kinds = _kinds(config, layers, ("attention" if n in numbers else "mamba" for n in range(layers)))
    return [_merged(_attention(config) if "attention" in kind else _mixer(config), mlp) for kind in kinds]


def _falcon_h1_layers(config: Config) -> Layers:
    hidden, wide = count(config, "hidden_size"), count(config, "intermediate_size")
    inner = optional_count(config, "mamba_d_ssm")
    mixer = _mixer(config, has_norm=config.get("mamba_rms_norm") is True, inner=inner)
    layer = _merged(_attention(config), mixer, _mlp(hidden, wide))
    return [layer] * count(config, "num_hidden_layers")


def _granite_layers(config: Config) -> Layers:
    hidden, layers = count(config, "hidden_size"), count(config, "num_hidden_layers")
    number = optional_count(config, "num_local_experts")
    # GraniteMoe has no MLP of all tokens.
    has_shared = config.get("model_type") == "granitemoehybrid"
    shared = count(config, "shared_intermediate_size", 1024) if has_shared else 0
    mlp = (
        _experts(hidden, number, count(config, "intermediate_size"), shared)
        if number
        else _mlp(hidden, shared)
    )
    kinds = _kinds(config, layers, ["mamba" if has_shared else "attention"] * layers)
    return [_merged(_attention(config) if "attention" in kind else _mixer(config), mlp) for kind in kinds]


def _nemotron_h_layers(config: Config) -> Layers:
    hidden, pattern = count(config, "hidden_size"), config.get("hybrid_override_pattern")
    heads, size = count(config, "mamba_num_heads", 128), count(config, "mamba_head_dim", 64)
    mixer = _mamba2(
        *(hidden, heads * size, count(config, "n_groups", 8), count(config, "ssm_state_size", 128), heads),
        count(config, "conv_kernel", 4),
        norm=heads * size,
    )
    width = count(config, "attention_head_dim", count(config, "head_dim", 128))
    shared = optional_count(config, "moe_shared_expert_intermediate_size")
    number = optional_count(config, "n_routed_experts")
    by_letter = {"M": mixer, "*": _attention(config, width=width)}
    by_letter["-"] = _mlp(hidden, count(config, "intermediate_size"), gated=False)
    if number:
        wide = count(config, "moe_intermediate_size", 1)
        routed = (("experts.up", number * wide, hidden), ("experts.down", number * hidden, wide))
        by_letter["E"] = (("router", number, hidden), *routed, *_mlp(hidden, shared or wide, gated=False))
    names = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}
    if not isinstance(pattern, str):
        pattern = "".join(
            names.get(kind, "-") for kind in _kinds(config, count(config, "num_hidden_layers"), ())
        )
    return [by_letter.get(letter, by_letter["-"]) for letter in pattern]


def _recurrent_gemma_layers(config: Config) -> Layers:
    hidden, wide = count(config, "hidden_size"), count(config, "intermediate_size") // 2
    width, kernel = count(config, "lru_width", hidden), count(config, "conv1d_width", 4)
    heads = count(config, "num_attention_heads")
    # Biases of three projections, the convolution, and two gates with a block for each head.
    other = 2 * width + hidden + (kernel + 1) * width + width + 2 * (width * width // heads + width)
    mixer = (("in_proj", 2 * width, hidden), ("out_proj", hidden, width), *_other(other))
    kinds = config.get("block_types") or config.get("_block_types")
    pattern = kinds if isinstance(kinds, list) and kinds else ["recurrent", "recurrent", "attention"]
    mlp = _merged(_mlp(hidden, wide), _other(2 * wide + hidden))
    return [
        _merged(_attention(config, biases=hidden) if pattern[n % len(pattern)] == "attention" else mixer, mlp)
        for n in range(count(config, "num_hidden_layers"))
    ]


def _lfm2_layers(config: Config) -> Layers:
    hidden, layers = count(config, "hidden_size", 2560), count(config, "num_hidden_layers", 32)
    wide = count(config, "intermediate_size", count(config, "block_ff_dim", 12288))
    is_moe = config.get("model_type") == "lfm2_moe"
    if config.get("block_auto_adjust_ff_dim", not is_moe) is True and not is_moe:
        multiplier = config.get("block_ffn_dim_multiplier")
        factor = (
            multiplier if isinstance(multiplier, (int, float)) and 0 < multiplier <= LARGEST_FACTOR else 1.0
        )
        multiple = count(config, "block_multiple_of", 256)
        wide = multiple * -(-int(factor * int(2 * wide / 3)) // multiple)
    listed = config.get("full_attn_idxs")
    numbers = listed if isinstance(listed, list) else range(layers)
    kinds = _kinds(config, layers, ("full_attention" if n in numbers else "conv" for n in range(layers)))
    size, kernel = hidden // count(config, "num_attention_heads", 32), count(config, "conv_L_cache", 3)
    mixers = {"conv": _convolution(hidden, kernel)}
    dense, number = optional_count(config, "num_dense_layers"), count(config, "num_experts", 32)
    routed = _experts(hidden, number, count(config, "moe_intermediate_size", 1792))
    return [
        _merged(
            mixers.get(kind) or _attention(config, biases=2 * size),
            routed if is_moe and index >= dense else _mlp(hidden, wide),
        )
        for index, kind in enumerate(kinds)
    ]


LARGEST_FACTOR = 64


def _qwen_next_layers(config: Config) -> Layers:
    hidden, layers = count(config, "hidden_size"), count(config, "num_hidden_layers")
    interval = count(config, "full_attention_interval", 4)
    kinds = _kinds(
        config, layers, ("full_attention" if (n + 1) % interval == 0 else "linear" for n in range(layers))
    )
    size = count(config, "head_dim", 256)
    if number := optional_count(config, "num_experts"):
        wide = count(config, "moe_intermediate_size", 512)
        shared = count(config, "shared_expert_intermediate_size", 512)
        mlp = _merged(_experts(hidden, number, wide, shared), _other(hidden))
    else:
        mlp = _mlp(hidden, count(config, "intermediate_size"))
    attention = _attention(config, width=size, biases=2 * size, gated=True)
    return [_merged(attention if kind == "full_attention" else _gated_delta(config), mlp) for kind in kinds]


def _minimax_layers(config: Config) -> Layers:
    hidden, layers = count(config, "hidden_size"), count(config, "num_hidden_layers")
    inner = count(config, "num_attention_heads") * count(config, "head_dim", 128)
    mixer = (("in_proj", 4 * inner, hidden), ("out_proj", hidden, inner), *_other(inner))
    number, wide = count(config, "num_local_experts", 8), count(config, "intermediate_size")
    types = config.get("attn_type_list")
    numbers = (
        types
        if isinstance(types, list) and len(types) == layers
        else [(n + 1) % 2 == 0 for n in range(layers)]
    )
    kinds = _kinds(config, layers, ("full_attention" if kind else "linear" for kind in numbers))
    return [
        _merged(_attention(config) if kind == "full_attention" else mixer, _experts(hidden, number, wide))
        for kind in kinds
    ]


def _first(config: Config, key: str, default: int) -> int:
    """Return a number from the config, or the first element of a list with one number per layer."""
    value = config.get(key)
    return count({key: value[0]}, key) if isinstance(value, list) and value else count(config, key, default)


def _hunyuan_moe_layers(config: Config) -> Layers:
    hidden, wide = count(config, "hidden_size"), count(config, "intermediate_size")
    size = count(config, "head_dim", 128)
    # The experts have `intermediate_size` elements, and so has the MLP of all tokens.
    layer = _merged(
        _attention(config, biases=2 * size), _experts(hidden, _first(config, "num_experts", 1), wide, wide)
    )
    return [layer] * count(config, "num_hidden_layers")


def _ernie_moe_layers(config: Config) -> Layers:
    hidden, wide = count(config, "hidden_size"), count(config, "moe_intermediate_size", 1536)
    number, shared = count(config, "moe_num_experts", 64), optional_count(config, "moe_num_shared_experts")
    first, interval = optional_count(config, "moe_layer_start_index"), count(config, "moe_layer_interval", 1)
    # The correction of the router is a parameter (`moe_statics`).
    routed = _merged(_experts(hidden, number, wide, shared * wide), _other(number))
    layers = count(config, "num_hidden_layers")
    last = config.get("moe_layer_end_index")
    end = last if type(last) is int and last >= 0 else layers - 1
    return [
        _merged(
            _attention(config),
            routed
            if (index + 1) % interval == 0 and first <= index <= end
            else _mlp(hidden, count(config, "intermediate_size")),
        )
        for index in range(layers)
    ]


def _llama4_layers(config: Config) -> Layers:
    hidden, wide = count(config, "hidden_size"), count(config, "intermediate_size", 8192)
    number, step = count(config, "num_local_experts", 16), count(config, "interleave_moe_layer_step", 1)
    listed = config.get("moe_layers")
    layers = count(config, "num_hidden_layers")
    routed = listed if isinstance(listed, list) and listed else range(step - 1, layers, step)
    dense = _mlp(hidden, count(config, "intermediate_size_mlp", 16384))
    return [
        _merged(_attention(config), _experts(hidden, number, wide, wide) if index in routed else dense)
        for index in range(layers)
    ]


def _mllama_layers(config: Config) -> Layers:
    hidden, wide = count(config, "hidden_size"), count(config, "intermediate_size")
    listed = config.get("cross_attention_layers")
    crossed = listed if isinstance(listed, list) else []
    size = hidden // count(config, "num_attention_heads")
    # Norms of queries and keys, and two gates.
    crossing = _attention(config, biases=2 * size + 2)
    return [
        _merged(crossing if index in crossed else _attention(config), _mlp(hidden, wide))
        for index in range(count(config, "num_hidden_layers"))
    ]


def _bitnet_layers(config: Config) -> Layers:
    hidden, wide = count(config, "hidden_size"), count(config, "intermediate_size")
    layer = _merged(_attention(config, biases=hidden), _mlp(hidden, wide), _other(wide))
    return [layer] * count(config, "num_hidden_layers")


def _phimoe_layers(config: Config) -> Layers:
    hidden, wide = count(config, "hidden_size"), count(config, "intermediate_size")
    heads, kv = count(config, "num_attention_heads"), count(config, "num_key_value_heads", 8)
    biases = (hidden + 2 * kv * (hidden // heads) + hidden) if config.get("attention_bias") is True else 0
    # Layer norms have a bias.
    layer = _merged(
        _attention(config, biases=biases + 2 * hidden),
        _experts(hidden, count(config, "num_local_experts", 16), wide),
    )
    return [layer] * count(config, "num_hidden_layers")


def _dbrx_layers(config: Config) -> Layers:
    hidden = count(config, "d_model", 2048)
    attention, experts = config.get("attn_config"), config.get("ffn_config")
    sizes = {
        "hidden_size": hidden,
        "num_attention_heads": count(config, "n_heads", 16),
        "num_key_value_heads": count(attention, "kv_n_heads", 1) if isinstance(attention, Mapping) else 1,
    }
    routed: Config = experts if isinstance(experts, Mapping) else {}
    number, wide = count(routed, "moe_num_experts", 4), count(routed, "ffn_hidden_size", 3584)
    layer = _merged(_attention(sizes), _experts(hidden, number, wide))
    return [layer] * count(config, "n_layers", 24)


def other_weights(config: Config) -> Iterator[int]:
    """Yield the numel of each weight outside the layers, such as shared blocks and biases."""
    kind = config.get("model_type")
    if kind == "zamba2":
        yield _zamba2_shared(config)
    elif kind == "mllama_text_model":  # words that only the embeddings have
        yield 8 * count(config, "hidden_size")
    elif kind == "phimoe":
        yield count(config, "hidden_size") + (
            count(config, "vocab_size") if config.get("lm_head_bias") is True else 0
        )


def _zamba2_layers(config: Config) -> Layers:
    hidden = count(config, "hidden_size", 2560)
    inner = count(config, "mamba_expand", 2) * hidden
    heads = count(config, "n_mamba_heads", 8)
    layer = _mamba2(
        *(hidden, inner, count(config, "mamba_ngroups", 1), count(config, "mamba_d_state", 64), heads),
        count(config, "mamba_d_conv", 4),
        norm=inner,
    )
    return [layer] * count(config, "num_hidden_layers", 54)


def _zamba2_shared(config: Config) -> int:
    """Return the number of weights in the shared `Zamba2HybridLayer` blocks and in the adapter of each layer."""
    hidden, wide = count(config, "hidden_size", 2560), count(config, "intermediate_size", 4 * 2560)
    listed = config.get("hybrid_layer_ids")
    hybrids = len(listed) if isinstance(listed, list) else 0
    blocks, rank = count(config, "num_mem_blocks", 1), count(config, "adapter_rank", 128)
    attention = 3 * 4 * hidden * hidden + 2 * hidden * hidden
    shared = blocks * (attention + 3 * hidden * wide + 3 * hidden)
    adapters = rank * (hidden + 2 * wide)
    if config.get("use_shared_attention_adapter") is True:
        adapters += 3 * rank * 4 * hidden
    return shared + hybrids * (hidden * hidden + blocks * adapters)


LAYER_FUNCTIONS: Mapping[str, Callable[[Config], Layers]] = {
    **dict.fromkeys(("mamba", "falcon_mamba"), _mamba_layers),
    "mamba2": _mamba2_layers,
    "jamba": _jamba_layers,
    "bamba": _bamba_layers,
    "falcon_h1": _falcon_h1_layers,
    **dict.fromkeys(("granitemoehybrid", "granitemoe"), _granite_layers),
    "nemotron_h": _nemotron_h_layers,
    "recurrent_gemma": _recurrent_gemma_layers,
    **dict.fromkeys(("lfm2", "lfm2_moe"), _lfm2_layers),
    **dict.fromkeys(
        ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_5", "qwen3_5_moe"), _qwen_next_layers
    ),
    "minimax": _minimax_layers,
    "hunyuan_v1_moe": _hunyuan_moe_layers,
    "ernie4_5_moe": _ernie_moe_layers,
    "llama4_text": _llama4_layers,
    "mllama_text_model": _mllama_layers,
    "bitnet": _bitnet_layers,
    "phimoe": _phimoe_layers,
    "dbrx": _dbrx_layers,
    "zamba2": _zamba2_layers,
}
"""Function that returns the layers of a model type, by model type."""
