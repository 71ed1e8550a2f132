"""Determine kernels, quantization and offloaded checkpoints from options, launch files and `config.json`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, cast

from dsconfig.job.consumers.consumer_versions import split_consumer_spec, version_tuple
from dsconfig.job.consumers.training_args import TRL_CHECKPOINTS_SINCE, trl_memory_defaults
from dsconfig.launch.training_arguments import parse_argument_text
from dsconfig.memory import (
    ACTIVATION_TERMS,
    ASSUMED_CHECKPOINTING,
    ASSUMED_IMAGES,
    ASSUMED_LENGTH,
    ASSUMED_MIXERS,
    RANK,
    UNMODELED_PART,
    FusedKernels,
    NotModelledError,
    Quantization,
    UnmodeledSetting,
    tokens_of_tower,
)

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.memory import Architecture, Loss, MicroBatch

# Losses and kernels.

LOSSES = ("full", "chunked", "fused")
_LIGER = ("use_liger_kernel", "enable_liger_kernel", "use_liger", "use_liger_loss")
"""Switches of the Trainer, LLaMA-Factory and ms-swift that apply all Liger kernels of a model."""
LIGER_MODEL_TYPES = frozenset(
    (
        *("deepseek_v2", "deepseek_v3", "deepseek_v4", "exaone4", "falcon_h1", "gemma", "gemma2", "gemma3"),
        *("gemma3_text", "gemma4", "gemma4_text", "glm4", "glm4v", "glm4v_moe", "gpt_oss", "granite"),
        *("hunyuan_v1_dense", "hunyuan_v1_moe", "internvl", "llama", "llama4", "llama4_text", "llava"),
        *("ministral", "mistral", "mixtral", "mllama", "mllama_text_model", "muse_glimmer", "nemotron"),
        *("olmo2", "olmo3", "paligemma", "phi3", "pixtral", "qwen2", "qwen2_5_vl", "qwen2_5_vl_text"),
        *("qwen2_vl", "qwen2_vl_text", "qwen3", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text"),
        *("qwen3_moe", "qwen3_next", "qwen3_vl", "qwen3_vl_moe", "qwen3_vl_moe_text", "qwen3_vl_text"),
        *("smollm3", "smolvlm"),
    )
)
"""Model types with Liger kernels (liger-kernel 0.8.5 transformers/monkey_patch.py, `MODEL_TYPE_TO_APPLY_LIGER_FN`).

For other types Liger logs that it has no kernels, and changes nothing.
"""
_WITHOUT_FUSED_LOSS = frozenset(("granite", "pixtral"))
"""Model types whose `fused_linear_cross_entropy` is off by default, or missing."""
_LOSS_SWITCHES: Mapping[str, str] = {
    "cut_cross_entropy": "fused",
    "liger_fused_linear_cross_entropy": "fused",
}
"""Axolotl's switches of single kernels."""
_OFFLOADED = ("offload", "offload_disk", "unsloth")
"""Values of Axolotl's `gradient_checkpointing` that keep the inputs of layers on the host."""


def requested_kernels(data: Mapping[str, Json], trainer: str | None, program: str = "") -> FusedKernels:
    """Return the fused kernels requested by training arguments or a launch file.

    `trainer` is the training method, a key of `TRAINERS`, and `program` the program that reads the arguments, such as
    `TRL`.
    """

    def is_on(key: str) -> bool:
        return parse_argument_text(data.get(key)) is True

    has_liger = any(is_on(key) for key in _LIGER)
    loss = next((loss for key, loss in _LOSS_SWITCHES.items() if is_on(key)), "full")
    kind = parse_argument_text(data.get("loss_type"))
    # Preference losses need logits; the fused one of SFT is then left out (LLaMA-Factory's `apply_liger_kernel`), or
    # computes logits because no labels are passed. TRL has fused losses for them, too.
    needs_logits = trainer not in (None, "sft") and program != "TRL" and not is_on("use_liger_loss")
    if has_liger and not needs_logits:
        loss = "fused"
    elif kind == "chunked_nll":  # TRL
        loss = "chunked"
    offloads = parse_argument_text(data.get("gradient_checkpointing")) in _OFFLOADED or is_on(
        "use_unsloth_gc"
    )
    return FusedKernels(
        "fused" if loss == "fused" else "chunked" if loss == "chunked" else "full",
        has_liger or is_on("liger_rms_norm"),
        has_liger or is_on("liger_glu_activation") or is_on("liger_swiglu"),
        offloads,
        has_liger,
    )


def _kernels_of_model(kernels: FusedKernels, kind: Json) -> FusedKernels:
    """Return the kernels available for a model type, dropping Liger's if it does not support the type."""
    if not kernels.is_liger or not isinstance(kind, str):
        return kernels
    if kind not in LIGER_MODEL_TYPES:
        return FusedKernels(offloads_checkpoints=kernels.offloads_checkpoints)
    return kernels._replace(loss="full") if kind in _WITHOUT_FUSED_LOSS else kernels


TRL_CHUNKS_SINCE: Mapping[str, tuple[int, int]] = {
    "sft": (1, 7),
    "grpo": (1, 14),
    **dict.fromkeys(("dpo", "kto", "rloo"), (1, 15)),
}
"""First release of TRL whose trainer computes its loss in chunks of tokens by default (trl/trainer/*_trainer.py)."""


def add_default_loss_of_trl(
    kernels: FusedKernels, data: Mapping[str, Json], trainer: str | None, version: str | None
) -> tuple[FusedKernels, tuple[UnmodeledSetting, ...]]:
    """Add the loss that a TRL script computes by default, and the setting that decides it if it is unknown.

    `trainer` is the training method, or None for SFT. `version` is the version of TRL, or None if unknown.
    """
    name = trainer or "sft"
    since = TRL_CHUNKS_SINCE.get(name)
    if since is None or kernels.loss != "full" or data.get("loss_type") not in (None, "nll", "sigmoid"):
        return kernels, ()
    if version is None:
        text = f"from {'.'.join(map(str, since))} on, its {name.upper()} loss is computed in chunks, without all logits"
        terms = frozenset(("logits and loss",))
        return kernels, (
            UnmodeledSetting("the version of TRL", text, lowers=frozenset((RANK,)), terms=terms),
        )
    is_explicit = name == "sft" and data.get("loss_type") == "nll" and version_tuple(version) < (1, 15)
    chunks = version_tuple(version) >= since and not is_explicit
    return (kernels._replace(loss="chunked") if chunks else kernels), ()


TRL_CLASSES = {
    "dpo": "DPOConfig",
    "grpo": "GRPOConfig",
    "kto": "KTOConfig",
    "reward": "RewardConfig",
    "rloo": "RLOOConfig",
    "sft": "SFTConfig",
}
"""Class of training arguments of each `trl` command (trl scripts/*.py)."""


def add_default_arguments_of_trl(
    data: Mapping[str, Json], trl_class: str, version: str | None, unknown: Collection[str]
) -> tuple[JsonObject, tuple[UnmodeledSetting, ...]]:
    """Add the defaults of TRL that decide memory, and the setting that would decide them if unknown.

    `version` is that of TRL, None if unknown. `unknown` are arguments that the job sets to an unknown value.
    """
    given = data.keys() | set(unknown)
    defaults = trl_memory_defaults(trl_class, version)
    if not _LENGTHS_OF_TRL.isdisjoint(given):
        defaults.pop("max_length", None)
    defaults = {key: value for key, value in defaults.items() if key not in given}
    if version is not None or "gradient_checkpointing" not in defaults:
        return {**defaults, **data}, ()
    text = f"before {TRL_CHECKPOINTS_SINCE}, activations are not checkpointed by default"
    raised = UnmodeledSetting("the version of TRL", text, raises=frozenset((RANK,)), terms=ACTIVATION_TERMS)
    return {**defaults, **data}, (raised,)


_LENGTHS_OF_TRL = frozenset({"max_length", "max_seq_length"})
"""Arguments of TRL with the maximum length of a sequence, by version."""


MODELED = (
    *_LIGER,
    *_LOSS_SWITCHES,
    "use_unsloth_gc",
    "liger_rms_norm",
    "liger_glu_activation",
    "liger_swiglu",
)
"""Names of the arguments that select kernels."""


# Quantized bases.

NF4_BLOCK, NESTED_BLOCK = 64, 256
"""Number of weights that share a scale in bitsandbytes, and of scales that share one with double quantization."""
KINDS = ("nf4", "nf4-single", "fp4", "int8", "gptq-4", "gptq-8", "awq-4")
"""Values of `--quantize`; `nf4-single` has no double quantization."""
EXPERTS = "+experts"
"""Suffix of a name in `KINDS`, which says that experts are stored packed, too."""
_UNPACKED = ("fp8", "mxfp4", "fbgemm_fp8", "modelopt", "finegrained_fp8")
"""Quantization methods whose weights are converted to bf16 for training."""


def quantization_by_name(name: str) -> Quantization:
    """Return the quantization with a name from `KINDS`, optionally followed by `EXPERTS`.

    Raises:
        ValueError: no quantization has this name.
    """
    if name.endswith(EXPERTS):
        return quantization_by_name(name.removesuffix(EXPERTS))._replace(packs_experts=True)
    if name not in KINDS:
        raise ValueError(
            f"quantize {name[:40]!r}: expected one of {', '.join(KINDS)}, or one followed by `{EXPERTS}`"
        )
    method, _, suffix = name.partition("-")
    if method in ("nf4", "fp4"):
        return bitsandbytes_4bit_quantization(is_nested=suffix != "single")
    if method == "int8":
        return BITSANDBYTES_8BIT
    return grouped_quantization(method, int(suffix))


def bitsandbytes_4bit_quantization(*, is_nested: bool) -> Quantization:
    """Return 4-bit quantization with one scale per block; nested scales are stored in 8 bits."""
    nested = Fraction(1, NF4_BLOCK) + Fraction(4, NF4_BLOCK * NESTED_BLOCK)
    return Quantization("4-bit bitsandbytes", 4, nested if is_nested else Fraction(4, NF4_BLOCK))


BITSANDBYTES_8BIT = Quantization("8-bit bitsandbytes", 8, Fraction(4, 4096))
"""Quantization to 8 bits with one scale for each row."""


def grouped_quantization(method: str, bits: int, group: int = 128) -> Quantization:
    """Return GPTQ or AWQ quantization, with a half-precision scale and a packed offset per group."""
    constants = Fraction(2, group) + Fraction(bits, 8 * group)
    return Quantization(f"{bits}-bit {method.upper()}", bits, constants, saves_dequantized=method == "gptq")


def quantization_of_config(config: Mapping[str, Json]) -> Quantization | None:
    """Return the quantization in a model's `config.json`, or None if absent or if weights are trained unpacked.

    Raises:
        NotModelledError: the method is not supported.
    """
    section = config.get("quantization_config")
    if not isinstance(section, Mapping) or not section:
        return None
    method = str(section.get("quant_method") or "").lower()
    bits = section.get("bits", section.get("w_bit"))
    group = section.get("group_size", section.get("q_group_size"))
    if method in _UNPACKED or (method == "" and "fmt" in section):
        return None
    if section.get("load_in_8bit") is True or section.get("_load_in_8bit") is True:
        return BITSANDBYTES_8BIT
    if method in ("bitsandbytes", "bitsandbytes_4bit") or section.get("load_in_4bit") is True:
        return bitsandbytes_4bit_quantization(is_nested=section.get("bnb_4bit_use_double_quant") is True)
    if method in ("gptq", "awq") and type(bits) is int and bits in (2, 3, 4, 8):
        return grouped_quantization(method, bits, group if type(group) is int and group > 0 else 128)
    raise NotModelledError(
        f"the quantization `{method[:40]}` of its config.json is not supported yet",
        f"pass `--quantize` with one of {', '.join(KINDS)}, or the config.json of the unquantized model",
    )


def requested_quantization(data: Mapping[str, Json]) -> Quantization | None:
    """Return the quantization requested by training arguments or a launch file, or None."""
    values = {key: parse_argument_text(data.get(key)) for key in _KEYS if key in data}
    bits = values.get("quantization_bit", values.get("quant_bits"))
    method = str(values.get("quantization_method", values.get("quant_method", "bitsandbytes"))).lower()
    if bits in (4, 8) and method not in ("bnb", "bitsandbytes"):
        raise NotModelledError(
            f"the quantization method `{method[:40]}` is not supported yet", f"use one of {', '.join(KINDS)}"
        )
    packs_experts = parse_argument_text(data.get("quantize_moe_experts")) is True  # Axolotl
    if values.get("load_in_8bit") is True or bits == 8:
        return BITSANDBYTES_8BIT._replace(packs_experts=packs_experts)
    if values.get("load_in_4bit") is True or bits == 4:
        # LLaMA-Factory, ms-swift and Axolotl quantize the scales too by default, TRL does not.
        default = "use_peft" not in data
        nested = next((values[key] for key in _NESTED if key in values), default)
        return bitsandbytes_4bit_quantization(is_nested=nested is True)._replace(packs_experts=packs_experts)
    return None


_NESTED = ("double_quantization", "bnb_4bit_use_double_quant", "use_bnb_nested_quant")
_KEYS = (
    *(
        "quantization_bit",
        "quant_bits",
        "quantization_method",
        "quant_method",
        "load_in_4bit",
        "load_in_8bit",
    ),
    *_NESTED,
)


def add_features(
    batch: MicroBatch,
    kernels: FusedKernels,
    quantization: Quantization | None,
    loss: str | None,
    quantize: str | None,
    config: Mapping[str, Json],
    arch: Architecture,
) -> MicroBatch:
    """Add kernels and quantization to a micro batch.

    `kernels` and `quantization` come from a launch file or training arguments, `loss` and `quantize` from the user.
    `config` is the `config.json` of the model `arch`, if it has one.

    Raises:
        NotModelledError: a quantized model is trained without adapters, or its quantization is not supported.
        ValueError: no quantization has the requested name.
    """
    named = arch.name or ("llama" if arch.family == "decoder" else arch.family)
    kernels = _kernels_of_model(kernels, config.get("model_type") or named)
    if loss is not None:
        kernels = kernels._replace(loss=cast("Loss", loss))
    if quantize is not None:
        quantization = quantization_by_name(quantize)
    else:
        quantization = quantization or quantization_of_config(config)
    if quantization is not None and batch.adapter is None:
        raise NotModelledError(
            f"a model stored as {quantization.name} is only trained with adapters", "pass `--lora`"
        )
    return batch._replace(kernels=kernels, quantization=quantization)


# Lengths of sequences.

_PACKING = ("packing", "neat_packing", "sample_packing", "pad_to_sequence_len", "pad_to_max_length")
"""Arguments with which TRL, LLaMA-Factory, ms-swift and Axolotl give every batch the full length."""


def packs_sequences(data: Mapping[str, Json]) -> bool | None:
    """Return whether all sequences are packed or padded to the full length, or None if that is not set.

    LLaMA-Factory packs in pre-training (hparams/data_args.py and parser.py).
    """
    values = [parse_argument_text(data.get(key)) for key in _PACKING]
    if True in values or (data.get("stage") == "pt" and False not in values):
        return True
    return False if False in values else None


def feature_notes(arch: Architecture, batch: MicroBatch) -> Iterator[str]:
    """Yield the assumptions made about kernels, quantization and images."""
    kernels, quantization = batch.kernels, batch.quantization
    for tower in arch.towers:
        is_trained = batch.trains_towers and not tower.is_frozen
        if batch.adapter is not None:
            is_saved = "vision_tower" in batch.adapter.saved_modules
            is_trained = is_saved or (is_trained and batch.trains_towers_beside_adapters)
        how, count = "trained" if is_trained else "frozen", tokens_of_tower(arch, tower, batch)
        kind = "audio" if tower.is_audio else "images"
        yield f"{count} tokens of a sequence are those of {kind}, whose encoder is {how}"
        if batch.image_tokens is None and count:
            tiles = tower.max_tiles * tower.image_tokens
            size = f", and a large image takes up to {tiles}" if tower.max_tiles > 1 else ""
            yield (
                f"the number of images is not given{size}: the memory expected in nvidia-smi is that of "
                f"sequences with 0 to {batch.sequence_length} such tokens; pass `--image-tokens`"
            )
    if arch.unmodeled_part:
        yield f"{UNMODELED_PART.key} (`{arch.unmodeled_part}`): {UNMODELED_PART.text}"
    if not batch.trains_language_model:
        yield "the language model is frozen"
    if kernels.loss != "full":
        how = "fused with the output projection" if kernels.loss == "fused" else "in chunks of 256 tokens"
        yield f"the loss is computed {how}, without all logits"
    if kernels.fused_norms or kernels.fused_mlp:
        yield "norms and MLPs run as Liger kernels"
    if kernels.offloads_checkpoints:
        yield "inputs of checkpointed layers are kept on the host"
    if quantization is not None:
        layers = "linear layers and experts" if quantization.packs_experts else "linear layers"
        yield f"frozen {layers} are stored as {quantization.name}, all other weights in the model's dtype"


def unmodeled_experts(arch: Architecture, batch: MicroBatch, consumer: str) -> Iterator[UnmodeledSetting]:
    """Yield the differences of other versions of Transformers and PEFT for models with experts.

    `consumer` is the library that loads the config, with its version if known.
    """
    both, (name, version) = frozenset((RANK,)), split_consumer_spec(consumer)
    if not arch.num_experts:
        return
    if name == "transformers" and version is not None and version_tuple(version) < (5,):
        text = "before Transformers 5 experts are separate layers that run one after another"
        yield UnmodeledSetting(f"Transformers {version}", text, both, both, ACTIVATION_TERMS)
    if batch.adapter is not None and not batch.adapter.targets:
        text = "recent releases of PEFT add adapters to experts, too, if all linear layers are targets"
        yield UnmodeledSetting("adapters of experts", text, both)


def assumed_inputs(
    arch: Architecture, batch: MicroBatch, *, gives_length: bool, gives_checkpointing: bool
) -> Iterator[UnmodeledSetting]:
    """Yield the inputs on which the activations depend but which were not given."""
    if arch.family in ("sized", "plain"):
        return
    longest = arch.default_length or arch.max_position_embeddings
    is_longest = bool(arch.image_size) or batch.sequence_length == longest
    if not is_longest and not gives_length:
        yield ASSUMED_LENGTH
    if any(name == "in_proj" for block in arch.weight_blocks for name, _, _ in block.weights):
        yield ASSUMED_MIXERS
    if arch.towers and batch.image_tokens is None:
        yield ASSUMED_IMAGES
    if arch.unmodeled_part:
        key = f"{UNMODELED_PART.key} (`{arch.unmodeled_part}`)"
        yield UNMODELED_PART._replace(key=key)
    if not gives_checkpointing:
        yield ASSUMED_CHECKPOINTING
