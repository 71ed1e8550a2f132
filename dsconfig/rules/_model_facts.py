"""Determine the model that a config trains: its type, sizes, parameters and experts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache

from dsconfig.core.file_access import OUTSIDE
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.evaluation.rule_context import Context, SkipRule
from dsconfig.job.job_facts import NamedModel as Named
from dsconfig.job.model_config_json import CONFIG_NAME, find_config_json, read_config_json

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.memory import Architecture


# Model of a config. It is read lazily: most configs name no model, and most rules need none.


class NamedParameter(NamedTuple):
    """A model parameter, named as in Transformers 5."""

    name: str
    numel: int
    shape: tuple[int, ...]
    linear: bool
    """Whether the parameter belongs to a linear layer or a convolution."""


class TrainedModel(NamedTuple):
    """The model that the config trains."""

    shown: str
    """Name or path of the model, for messages."""
    config: Mapping[str, Json]
    """Content of the model's `config.json`, or only the `model_type` for a preset."""
    shape: Architecture | None
    """Sizes of the model, or None if they are unknown."""
    doubt: str = ""
    """Reason why the sizes of the model are unknown."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The model type, and the type of its nested language model, if any."""
        inner = self.config.get("text_config")
        kinds = (self.config.get("model_type"), inner.get("model_type") if isinstance(inner, dict) else None)
        return tuple(kind for kind in kinds if isinstance(kind, str))


class UnreadableModelError(ValueError):
    """A model cannot be read; the one-line message names it."""


def parameter_count_if_known(ctx: Context) -> int | None:
    """Return the number of the model's parameters, or None if unknown."""
    try:
        return parameter_count(ctx) if has_model(ctx) else None
    except SkipRule:
        return None


def has_model(ctx: Context) -> bool:
    """Return whether the job names a model, without reading it."""
    return ctx.facts.model is not None


def trained_model(ctx: Context) -> TrainedModel:
    """Return the model that the config trains.

    Raises:
        SkipRule: no model is named, or it cannot be read; if the user named it, a note is added.
    """
    opened = ctx.cached(_find_model)
    if opened is None:
        raise SkipRule
    return opened


def model_architecture(ctx: Context) -> Architecture:
    """Return the dimensions of the model that the config trains.

    Raises:
        SkipRule: the sizes are unknown; if the user named the model, a note is added.
    """
    opened = trained_model(ctx)
    if opened.shape is None:
        if ctx.facts.model is not None and ctx.facts.model.is_named_by_user:
            ctx.notes[f"the sizes of {ctx.facts.model.shown} are unknown: {opened.doubt}"] = None
        raise SkipRule
    return opened.shape


def model_parameters(ctx: Context) -> tuple[NamedParameter, ...]:
    """Return the model's parameters, listing tied ones once.

    Raises:
        SkipRule: the sizes are unknown.
    """
    return _list_parameters(model_architecture(ctx))


def largest_parameter(ctx: Context) -> NamedParameter:
    """Return the model's largest parameter other than experts.

    The experts of a layer are one tensor in Transformers 5, but many in earlier versions.

    Raises:
        SkipRule: the sizes are unknown.
    """
    return _find_largest_parameter(model_architecture(ctx))


def largest_linear(ctx: Context) -> NamedParameter | None:
    """Return the largest linear or convolution weight other than experts, or None if there is none.

    Raises:
        SkipRule: the sizes are unknown.
    """
    candidates = [
        weight for weight in model_parameters(ctx) if weight.linear and ".experts" not in weight.name
    ]
    return max(candidates, key=lambda weight: weight.numel, default=None)


def parameter_count(ctx: Context) -> int:
    """Return the number of the model's parameters.

    Raises:
        SkipRule: the sizes are unknown.
    """
    return _count_parameters(model_architecture(ctx))


def _find_model(ctx: Context) -> TrainedModel | None:
    named = ctx.facts.model
    if named is None:
        return None
    try:
        return open_model(named)
    except UnreadableModelError as error:
        if named.is_named_by_user:
            ctx.notes[f"the model was not checked: {error}"] = None
        return None


def requested_model(model: str | Mapping[str, Json]) -> Named:
    """Return the model named by the argument `model`, if it can be read.

    Raises:
        UnreadableModelError: the model does not exist, or cannot be read.
    """
    named = Named(model, "as asked for", "argument")
    open_model(named)
    return named


def open_model(named: Named) -> TrainedModel:
    """Read a model given by name, path or content.

    Raises:
        UnreadableModelError: the model does not exist, or cannot be read.
    """
    if named.is_outside:
        raise UnreadableModelError(f"{named.shown} {OUTSIDE} and was not read; pass it as --model")
    if not isinstance(named.named, str):
        return _model_from_config("the model", named.named)
    path = find_config_json(named.named)
    if path is None:
        return _preset_model(named.named)
    try:
        state = os.stat(path)
        return _read_model_file(path, named.shown, state.st_mtime_ns, state.st_size)
    except OSError as error:
        raise UnreadableModelError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:
        raise UnreadableModelError(f"{path}: {error}") from None


@lru_cache(maxsize=8)
def _read_model_file(path: str, shown: str, *_: int) -> TrainedModel:
    """Read a model from a file, caching it until the file changes."""
    return _model_from_config(shown, read_config_json(path))


def _model_from_config(shown: str, config: Mapping[str, Json]) -> TrainedModel:
    from dsconfig.memory import architecture_of

    try:
        return TrainedModel(shown, config, architecture_of(config))
    except (ValueError, TypeError) as error:  # `NotModelledError` says what is not supported
        return TrainedModel(shown, config, None, str(error))


def _preset_model(name: str) -> TrainedModel:
    """Return the built-in preset with this name."""
    from dsconfig.memory import preset_of

    preset = preset_of(name)
    if preset is None:
        raise UnreadableModelError(
            f"{name[:200]}: not a file, not a folder with a {CONFIG_NAME}, and not a known model name"
        )
    return TrainedModel(name, {"model_type": preset.name}, preset)


@lru_cache(maxsize=8)
def _list_parameters(shape: Architecture) -> tuple[NamedParameter, ...]:
    from dsconfig.memory import weights_of

    weights = weights_of(shape, 2, False).weights
    return tuple(
        NamedParameter(weight.name, weight.numel, weight.shape, weight.is_linear) for weight in weights
    )


@lru_cache(maxsize=8)
def _count_parameters(shape: Architecture) -> int:
    return sum(weight.numel for weight in _list_parameters(shape))


@lru_cache(maxsize=8)
def _find_largest_parameter(shape: Architecture) -> NamedParameter:
    return max(_list_parameters(shape), key=lambda each: 0 if ".experts" in each.name else each.numel)


# MoE blocks of Transformers that call an expert only if it has tokens.

BLOCKS = {
    "deepseek_v2": "DeepseekV2MoE",
    "deepseek_v3": "DeepseekV3MoE",
    "dots1": "Dots1MoE",
    "ernie4_5_moe": "Ernie4_5_MoeSparseMoeBlock",
    "glm4_moe": "Glm4MoeMoE",
    "glm4v_moe": "Glm4vMoeTextMoE",
    "hunyuan_v1_moe": "HunYuanMoEV1Moe",
    "jamba": "JambaSparseMoeBlock",
    "longcat_flash": "LongcatFlashMoE",
    "minimax": "MiniMaxSparseMoeBlock",
    "mixtral": "MixtralSparseMoeBlock",
    "phimoe": "PhimoeSparseMoeBlock",
    "qwen2_moe": "Qwen2MoeSparseMoeBlock",
    "qwen3_moe": "Qwen3MoeSparseMoeBlock",
    "qwen3_next": "Qwen3NextSparseMoeBlock",
    "switch_transformers": "SwitchTransformersSparseMLP",
}
"""Class of the block that skips idle experts, by `model_type` (transformers 4.57.1, models/*/modeling_*.py).

Models are not listed if every rank calls each of their experts, or if all their experts are one tensor:
OLMoE, FlexOlmo, GraniteMoE, JetMoE, DBRX, gpt-oss, Llama 4, Qwen3-VL-MoE, NLLB-MoE. From Transformers 5 on,
no block skips experts.
"""
DENSE = frozenset(
    (
        *("bert", "bloom", "clip", "distilbert", "roberta", "t5", "vit", "opt"),
        *("gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "starcoder2"),
        *("gemma", "gemma2", "gemma3_text", "llama", "mistral", "phi", "phi3", "qwen2", "qwen3"),
    )
)
"""Model types without experts."""


TENSORS = frozenset(("dbrx", "gpt_oss", "llama4", "llama4_text", "qwen3_vl_moe", "qwen3_vl_moe_text"))
"""Model types whose experts are one 3-D tensor even in Transformers 4."""
FUSED = 5
"""First major version of Transformers in which all experts of a layer are one tensor."""


def sparse_block_of(model: TrainedModel) -> str | None:
    """Return the class of the model's MoE block, in which idle experts are skipped, or None."""
    return next((BLOCKS[kind] for kind in model.kinds if kind in BLOCKS), None)


def transformers_version(ctx: Context) -> int | None:
    """Return the major version of Transformers, or None if unknown."""
    if ctx.consumer == "transformers" and ctx.version is not None:
        version: str | None = ctx.version
    else:
        from dsconfig.launch.requirements import consumer_version

        pinned = consumer_version("transformers", ctx.document.name)
        version = pinned and pinned[0]
    return int(version.partition(".")[0]) if version else None


def string_list(ctx: Context, path: str) -> list[str]:
    """Return the names at `path`, whose value may be a list or a single string."""
    value = ctx.value(path)
    if isinstance(value, str):
        return [value]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
