"""Estimate the parameters of a model whose layers are unknown, from keys that most `config.json` files have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.memory.models.architecture import Architecture, RepeatedBlock, Tower
from dsconfig.memory.models.encoders_of_composite_models import TEXT_DEFAULTS, towers_of, unmodeled_part
from dsconfig.memory.models.hybrid_layers import LAYER_FUNCTIONS, hybrid_blocks, other_weights
from dsconfig.memory.models.parameter_count import default_length, exact_parameters, has_language_head
from dsconfig.memory.models.validate_config_json import InvalidModelError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

# Names of the same size in the configuration classes of Transformers and Diffusers.

HIDDEN = ("hidden_size", "d_model", "n_embd", "n_embed", "model_dim", "embed_dim", "dim", "inner_dim")
LAYERS = (
    *("num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth", "encoder_layers"),
    "num_encoder_layers",
)
DECODER_LAYERS = ("decoder_layers", "num_decoder_layers")
INTERMEDIATE = (
    *("intermediate_size", "ffn_dim", "d_ff", "n_inner", "ffn_hidden_size", "encoder_ffn_dim", "d_inner"),
    "mlp_hidden_size",
)
HEADS = (
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_heads",
    "attention_heads",
    "encoder_attention_heads",
)
KV_HEADS = ("num_key_value_heads", "multi_query_group_num", "num_kv_heads", "n_head_kv")
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels", "d_kv")
EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts", "n_experts")
EXPERT_SIZE = ("moe_intermediate_size", "expert_ffn_hidden_size", "expert_intermediate_size")
SHARED_SIZE = ("shared_expert_intermediate_size", "shared_intermediate_size")
GATED = ("silu", "swish", "swiglu", "geglu", "reglu", "gated-gelu", "gated-silu")
"""Activation names that imply an MLP with a gate."""
VOCABULARY = ("vocab_size", "padded_vocab_size")
CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k", "top_k_experts")
TEXT = ("text_config", "llm_config", "language_config", "thinker_config")
"""Config sections that hold the language model of a composite model."""
IGNORED = ("talker_config", "code2wav_config", "token2wav_config", "quantization_config")
"""Config sections of parts that are not trained with the language model."""
GROUPS = ("attn_config", "ffn_config")
TIED_TYPES = (
    *(
        "bloom",
        "mpt",
        "falcon",
        "cohere",
        "cohere2",
        "starcoder2",
        "gemma3",
        "gemma3_text",
        "gemma3n",
        "mamba",
    ),
    *("gemma3n_text", "gpt_bigcode", "ernie4_5_moe", "t5", "bart", "whisper", "mbart", "pegasus", "m2m_100"),
    *("falcon_mamba", "recurrent_gemma", "gpt_neo"),
    *("lfm2", "lfm2_moe", "mt5", "zamba2"),
)
"""Model types whose class ties the head by default, so that `config.json` files omit the setting."""
FACTORIZED = ("albert", "electra")
"""Model types whose embeddings are smaller than the hidden size."""
EAGER_TYPES = ("deberta-v2", "deberta", "bloom", "gpt_neo", "mpnet", "mpt")
"""Model types without `sdpa` attention."""
ALWAYS_TIED = ("t5", "mt5", "umt5")
"""Model types whose class ignores `tie_word_embeddings` (Transformers 5)."""
GATED_TYPES = ("modernbert", "dbrx", "jamba", "chatglm", "ministral", "nomic_bert")
"""Model types with a gated MLP that their other keys do not reveal."""
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj")
Weights: TypeAlias = "tuple[tuple[str, int, int], ...]"
UNGATED = ("relu2", "relu", "gelu_new", "gelu_fast", "gelu_python")
LARGEST_SIZE, MOST_LAYERS, MOST_EXPERTS = 1 << 26, 2000, 1 << 12
DEPTH = 4
"""Number of nested config levels that are read, such as `thinker_config.text_config`."""


def generic_architecture(config: Mapping[str, Json]) -> Architecture | None:
    """Return a generic transformer for a language model, or None for other models or if sizes are missing."""
    config = _merge_size_sections(config)
    text = next((config[key] for key in TEXT if isinstance(config.get(key), Mapping)), config)
    if isinstance(text.get("text_config"), Mapping):  # Qwen Omni
        text = text["text_config"]
    text = _merge_size_sections(text)
    hidden, vocabulary = _first_plausible_size(text, HIDDEN), _first_plausible_size(text, VOCABULARY)
    heads = _first_plausible_size(text, HEADS) or max(1, hidden // 64)
    if not hidden or not vocabulary or not _first_plausible_size(text, LAYERS + DECODER_LAYERS, MOST_LAYERS):
        return None
    towers = _towers(config)
    # Encoders whose layers are known are no blocks of weights.
    parts = _without_sections(text) if towers else config
    blocks = tuple(block for block in _blocks_of(parts, DEPTH) if block.name != "embed")
    stack_names = {block.name for block in _transformer_blocks(text)}
    head_dim = _first_plausible_size(text, HEAD_DIM) or max(1, hidden // heads)
    if _first_plausible_size(text, ("kv_lora_rank",)):
        head_dim = (
            _first_plausible_size(text, ("qk_nope_head_dim",))
            + _first_plausible_size(text, ("qk_rope_head_dim",))
            or head_dim
        )
    kv_heads = _first_plausible_size(text, KV_HEADS) or heads
    if not stack_names or heads % kv_heads:
        return None
    experts = _first_plausible_size(text, EXPERTS, MOST_EXPERTS)
    arch = Architecture(
        "generic",
        hidden,
        _first_plausible_size(text, LAYERS, MOST_LAYERS)
        + _first_plausible_size(text, DECODER_LAYERS, MOST_LAYERS),
        _intermediate_size(text, hidden),
        heads,
        kv_heads,
        head_dim,
        vocabulary,
        tie_word_embeddings=not _has_untied_head({**text, **_head_keys(config)}),
        num_experts=experts if experts > 1 else 0,
        num_experts_per_tok=_chosen_experts(text, experts),
        attends_eagerly=text.get("model_type") in EAGER_TYPES,
        has_position_bias=text.get("model_type") in ALWAYS_TIED,
        has_tanh_gelu=_has_tanh_gelu(text),
        moe_intermediate_size=_first_plausible_size(text, EXPERT_SIZE) or _intermediate_size(text, hidden),
        rotary_dim=head_dim if any(key.startswith("rope") or key == "rotary_emb_base" for key in text) else 0,
        weight_blocks=blocks,
        towers=towers,
        unmodeled_part=unmodeled_part(config, towers),
        name=str(config.get("model_type") or "")[:40],
        has_rms_norms=_has_rms_norms(text),
        has_language_head=has_language_head(config),
        default_length=_default_length(text),
        encoder_length=_first_plausible_size(text, ("max_source_positions",))
        if text.get("model_type") == "whisper"
        else 0,
        embedding_size=_first_plausible_size(text, ("embedding_size",))
        if text.get("model_type") in FACTORIZED
        else 0,
    )
    return _with_other_weights(config, text, arch)


def _chosen_experts(text: Mapping[str, Json], experts: int) -> int:
    if text.get("model_type") == "llama4_text":  # every expert gets all tokens (`Llama4TextMoe`)
        return experts
    return min(experts, _first_plausible_size(text, CHOSEN, MOST_EXPERTS) or 2)


def _has_tanh_gelu(text: Mapping[str, Json]) -> bool:
    """Return whether the activation is `NewGELUActivation`, which runs as several operations."""
    named = text.get("hidden_act", text.get("activation_function"))
    return named == "gelu_new" or (named is None and text.get("model_type") in ("gptj", "gpt_neo", "albert"))


def _towers(config: Mapping[str, Json]) -> tuple[Tower, ...]:
    """Return the encoders with known layers; empty if a size is missing or invalid."""
    try:
        towers = towers_of(config)
    except InvalidModelError:
        return ()
    known = all(
        tower.num_layers <= MOST_LAYERS and not tower.hidden_size % tower.num_heads for tower in towers
    )
    return towers if known else ()


def _without_sections(config: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the config of a text model without the sections of other models."""
    return {
        key: value for key, value in config.items() if not isinstance(value, Mapping) or "config" not in key
    }


def _default_length(text: Mapping[str, Json]) -> int:
    try:
        return default_length(text)
    except InvalidModelError:
        return 0


def _exact(config: Mapping[str, Json]) -> int:
    """Return the exact number of parameters, or 0 if it is unknown, or a size is missing or invalid."""
    try:
        return exact_parameters(config)
    except InvalidModelError:
        return 0


def _has_rms_norms(text: Mapping[str, Json]) -> bool:
    kind = text.get("model_type")
    if (
        kind in LAYER_FUNCTIONS
        or kind in ALWAYS_TIED
        or "rms_norm_eps" in text
        or text.get("rmsnorm") is True
    ):
        return True
    return not {"norm_epsilon", "layer_norm_eps", "layer_norm_epsilon"} & text.keys()


def _with_other_weights(
    config: Mapping[str, Json], text: Mapping[str, Json], arch: Architecture
) -> Architecture:
    """Add weights to the layers until they have the exact number of parameters, if it is known."""
    from dsconfig.memory.models.generic_transformer import parameter_count

    try:
        other = sum(other_weights(text))
    except InvalidModelError:
        other = 0
    if exact := _exact(config):
        other = exact - parameter_count(arch)
    if other <= 0:
        return arch
    blocks = (*arch.weight_blocks, RepeatedBlock("other", 1, (("weight", 1, other),)))
    return arch._replace(weight_blocks=blocks)


def _head_keys(config: Mapping[str, Json]) -> dict[str, Json]:
    return {key: config[key] for key in ("tie_word_embeddings", "architectures") if key in config}


def _merge_size_sections(config: Mapping[str, Json]) -> Mapping[str, Json]:
    """Merge sections that only group the model's sizes into the config itself (DBRX, MPT)."""
    sections = [config[key] for key in GROUPS if isinstance(config.get(key), Mapping)]
    merged = {**TEXT_DEFAULTS.get(str(config.get("model_type")), {}), **config}
    for section in sections:
        merged = {**section, **merged}
    return merged


def parameter_only_architecture(config: Mapping[str, Json]) -> Architecture | None:
    """Count the parameters of a `config.json` by its common keys; return None if sizes are missing.

    Nested configs (`text_config`, `vision_config`) are included. Biases, norms and unusual modules are not, so the
    count is approximate.
    """
    blocks = tuple(_blocks_of(config, DEPTH))
    if not blocks:
        return None
    counted = sum(block.repeats * rows * columns for block in blocks for _, rows, columns in block.weights)
    if (other := _exact(config) - counted) > 0:
        blocks = (*blocks, RepeatedBlock("other", 1, (("weight", 1, other),)))
    return architecture_of_blocks(blocks, str(config.get("model_type") or "")[:40])


def architecture_of_blocks(blocks: tuple[RepeatedBlock, ...], name: str) -> Architecture:
    """Return an architecture with these weights and no activations."""
    layers = max(block.repeats for block in blocks)
    hidden = max((block.weights[0][-1] for block in blocks), default=1)
    return Architecture("sized", hidden, layers, 0, weight_blocks=blocks, name=name)


def architecture_of_count(parameters: int) -> Architecture:
    """Return an architecture with this many parameters, in layers of a typical size.

    A transformer layer has about 12·h² parameters, and a model has about h/128 layers, where h is the hidden size.
    """
    hidden = max(64, round((128 * parameters / 12) ** (1 / 3) / 64) * 64)
    vocabulary = min(32_000, parameters // (4 * hidden) + 1)
    layers = max(1, min(MOST_LAYERS, hidden // 128))
    rest = parameters - 2 * vocabulary * hidden
    rows, more = divmod(max(rest, 1), layers * 6 * hidden)
    if not rows:  # too small for layers of this size
        return architecture_of_blocks((RepeatedBlock("layers", 1, (("weight", 1, parameters),)),), "")
    blocks = [
        RepeatedBlock("embed", 2, (("tokens", vocabulary, hidden),)),
        RepeatedBlock("layers", layers, tuple((name, rows, hidden) for name in PROJECTIONS)),
    ]
    if more:
        blocks.append(RepeatedBlock("rest", 1, (("weight", 1, more),)))
    return architecture_of_blocks(tuple(blocks), "")


def _first_plausible_size(
    config: Mapping[str, Json], names: tuple[str, ...], limit: int = LARGEST_SIZE
) -> int:
    """Return the first plausible size under one of these keys, or 0 if there is none."""
    for name in names:
        value = config.get(name)
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            value = value[0]
        if type(value) is int and 0 < value <= limit:
            return value
    return 0


def _blocks_of(config: Mapping[str, Json], depth: int) -> Iterator[RepeatedBlock]:
    """Yield the weight blocks of a config, including its nested configs."""
    config = _merge_size_sections(config)
    nested = [
        value
        for key, value in config.items()
        if isinstance(value, Mapping) and "config" in key and key not in IGNORED
    ]
    nested += [config[key] for key in ("encoder", "decoder") if isinstance(config.get(key), Mapping)]
    parts = [block for value in nested if depth for block in _blocks_of(value, depth - 1)]
    text = config.get("text_config")
    # Some composite configs repeat the sizes of their text model (Qwen2-VL).
    if not (isinstance(text, Mapping) and _first_plausible_size(text, LAYERS, MOST_LAYERS)):
        yield from _transformer_blocks(config)
    yield from parts


def _is_modality_encoder(config: Mapping[str, Json]) -> bool:
    """Return whether a config describes an image or audio encoder."""
    return not _first_plausible_size(config, VOCABULARY)


def _transformer_blocks(config: Mapping[str, Json]) -> Iterator[RepeatedBlock]:
    """Yield the embeddings and layers of one transformer."""
    hidden, layers = _first_plausible_size(config, HIDDEN), _first_plausible_size(config, LAYERS, MOST_LAYERS)
    if "depth" in config and _first_plausible_size(
        config, ("embed_dim",)
    ):  # the tower of Qwen2-VL, whose `hidden_size` is the output
        hidden = _first_plausible_size(config, ("embed_dim",))
    heads, head_dim = _first_plausible_size(config, HEADS), _first_plausible_size(config, HEAD_DIM)
    if not hidden and heads and head_dim:  # Diffusers
        hidden = heads * head_dim
    decoder_layers = _first_plausible_size(config, DECODER_LAYERS, MOST_LAYERS)
    if not hidden or not layers + decoder_layers:
        return
    if table := _first_plausible_size(config, ("hidden_size_per_layer_input",)):  # Gemma 3n
        words = _first_plausible_size(config, ("vocab_size_per_layer_input",)) or _first_plausible_size(
            config, VOCABULARY
        )
        yield RepeatedBlock("per_layer_embed", 1, (("tokens", words, layers * table),))
    vocabulary = _first_plausible_size(config, VOCABULARY)
    if vocabulary:
        has_head = _has_untied_head(config)
        yield RepeatedBlock("embed", 1 + has_head, (("tokens", vocabulary, hidden),))
    elif patch := _first_plausible_size(config, ("patch_size",)):
        channels = _first_plausible_size(config, ("num_channels", "in_channels", "in_chans")) or 3
        yield RepeatedBlock("embed", 1, (("patches", hidden, channels * patch * patch),))
    if _is_modality_encoder(config):
        attention = tuple(_attention_projections(config, hidden, heads or max(1, hidden // 64), 0))
        mlp = tuple(_mlp_projections(hidden, _intermediate_size(config, hidden), _is_gated(config)))
        yield RepeatedBlock("tower", layers, attention + mlp)
        return
    try:
        blocks = hybrid_blocks(config)
    except InvalidModelError:
        blocks = ()
    if blocks:
        yield from blocks
        return
    attention = tuple(_attention_projections(config, hidden, heads or max(1, hidden // 64), head_dim))
    if config.get("model_type") == "albert":  # all layers share their weights
        layers = _first_plausible_size(config, ("num_hidden_groups",)) or 1
    yield from _layer_blocks(config, hidden, layers, attention)
    if decoder_layers:  # with cross attention
        width = _first_plausible_size(config, ("decoder_ffn_dim",)) or _intermediate_size(config, hidden)
        mlp = tuple(_mlp_projections(hidden, width, _is_gated(config)))
        yield RepeatedBlock("decoder", decoder_layers, attention * 2 + mlp)


def _has_untied_head(config: Mapping[str, Json]) -> bool:
    """Return whether the output projection has its own weights; `config.json` omits class defaults."""
    is_tied = config.get("tie_word_embeddings")
    if config.get("model_type") in ALWAYS_TIED:
        return False
    if is_tied is None and config.get("model_type") in TIED_TYPES:
        return False
    names = config.get("architectures")
    is_decoder = not isinstance(names, list) or any("CausalLM" in str(name) for name in names)
    return is_tied is False or (is_tied is not True and is_decoder and not config.get("is_encoder_decoder"))


def _layer_blocks(
    config: Mapping[str, Json], hidden: int, layers: int, attention: Weights
) -> Iterator[RepeatedBlock]:
    """Yield the dense layers and the expert layers."""
    gated, width = _is_gated(config), _intermediate_size(config, hidden)
    dense = tuple(_mlp_projections(hidden, width, gated))
    experts = _first_plausible_size(config, EXPERTS, MOST_EXPERTS)
    if experts < 2:
        yield RepeatedBlock("layers", layers, attention + dense)
        return
    expert_width = (
        _first_plausible_size(config, EXPERT_SIZE)
        or _first_plausible_size(config, ("intermediate_size",))
        or width
    )
    shared = expert_width if "intermediate_size_mlp" in config else _first_plausible_size(config, SHARED_SIZE)
    shared = shared or expert_width * _first_plausible_size(
        config, ("n_shared_experts", "num_shared_experts")
    )
    # Experts are one tensor for each projection, and no linear layers (Transformers 5).
    routed = tuple(
        (f"experts.{name.removesuffix('_proj')}", experts * rows, columns)
        for name, rows, columns in _mlp_projections(hidden, expert_width, gated)
    )
    block = attention + routed + (tuple(_mlp_projections(hidden, shared, gated)) if shared else ())
    step = _first_plausible_size(
        config, ("interleave_moe_layer_step", "expert_layer_period", "decoder_sparse_step"), MOST_LAYERS
    )
    if step > 1:
        yield RepeatedBlock("dense_layers", layers - layers // step, attention + dense)
        layers //= step
    first_dense = min(
        layers - 1, _first_plausible_size(config, ("first_k_dense_replace", "num_dense_layers"), MOST_LAYERS)
    )
    if first_dense:
        yield RepeatedBlock("dense_layers", first_dense, attention + dense)
    yield RepeatedBlock("layers", layers - first_dense, (("router", experts, hidden), *block))


def _attention_projections(
    config: Mapping[str, Json], hidden: int, heads: int, head_dim: int
) -> Iterator[tuple[str, int, int]]:
    """Yield the projections of an attention layer, including latent ones (`kv_lora_rank`, DeepSeek)."""
    head_dim = head_dim or max(1, hidden // heads)
    if rank := _first_plausible_size(config, ("kv_lora_rank",)):
        rope = _first_plausible_size(config, ("qk_rope_head_dim",))
        query = heads * (_first_plausible_size(config, ("qk_nope_head_dim",)) + rope)
        values = _first_plausible_size(config, ("v_head_dim",)) or head_dim
        if low_rank := _first_plausible_size(config, ("q_lora_rank",)):
            yield from (("q_a_proj", low_rank, hidden), ("q_b_proj", query, low_rank))
        else:
            yield ("q_proj", query, hidden)
        yield ("kv_a_proj", rank + rope, hidden)
        yield ("kv_b_proj", heads * (query // heads - rope + values), rank)
        yield ("o_proj", hidden, heads * values)
        return
    kv_heads = _first_plausible_size(config, KV_HEADS) or (1 if config.get("multi_query") is True else heads)
    yield ("q_proj", heads * head_dim, hidden)
    yield from ((f"{name}_proj", kv_heads * head_dim, hidden) for name in "kv")
    yield ("o_proj", hidden, heads * head_dim)


def _intermediate_size(config: Mapping[str, Json], hidden: int) -> int:
    if width := _first_plausible_size(config, ("intermediate_size_mlp",)):  # dense layers of Llama 4
        return width
    if width := _first_plausible_size(config, INTERMEDIATE):
        return width
    ratio = config.get("mlp_ratio")
    known = isinstance(ratio, (int, float)) and not isinstance(ratio, bool) and 0 < ratio <= 64
    return max(1, int(hidden * (float(str(ratio)) if known else 4)))


def _is_gated(config: Mapping[str, Json]) -> bool:
    """Return whether the MLP has a gate, as in models with RMS norms."""
    names = [config.get(key) for key in ("hidden_act", "activation_function", "feed_forward_proj")]
    if any(str(name).lower() in UNGATED for name in names):
        return False
    if config.get("model_type") in GATED_TYPES or config.get("rmsnorm") is True:
        return True
    return "rms_norm_eps" in config or any(str(name).lower() in GATED for name in names)


def _mlp_projections(hidden: int, width: int, gated: bool) -> Iterator[tuple[str, int, int]]:
    yield from ((f"{name}_proj", width, hidden) for name in (("gate", "up") if gated else ("up",)))
    yield ("down_proj", hidden, width)
