"""Facts about the model a config trains, where it is known: type, sizes, parameters, experts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from dsconfig.core.file_access import OUTSIDE
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.evaluation.context import Context, SkipRule
from dsconfig.job.model_files import CONFIG_NAME, find_config_json, read_config_json
from dsconfig.job.run_facts import Model as Named

if TYPE_CHECKING:
    from dsconfig.memory.models.architecture import Architecture


# The model that a config trains, where it is known: its kind, its sizes, its parameters.
#
# It is read where a rule asks for it, and no earlier: most configs have none, and most rules need none.


class Weight(NamedTuple):
    """A parameter: its name in the model, as Transformers 5 builds it, and its elements."""

    name: str
    elements: int
    shape: tuple[int, ...]
    linear: bool
    """Whether it is of a linear layer, or of a convolution."""


class Model(NamedTuple):
    """What is known of a model."""

    shown: str
    """How it was named, for messages."""
    config: Mapping[str, Json]
    """What stands in its `config.json`; of one known by its name alone, the `model_type`."""
    shape: Architecture | None
    """None where its sizes are not known."""
    doubt: str = ""
    """Why they are not."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Its type, and that of the language model in it."""
        inner = self.config.get("text_config")
        kinds = (self.config.get("model_type"), inner.get("model_type") if isinstance(inner, dict) else None)
        return tuple(kind for kind in kinds if isinstance(kind, str))


class UnreadableModelError(ValueError):
    """The model cannot be read; the message is one line and names it."""


def elements_if_known(ctx: Context) -> int | None:
    """The number of its parameters; None where it is not known."""
    try:
        return elements(ctx) if is_known(ctx) else None
    except SkipRule:
        return None


def is_known(ctx: Context) -> bool:
    """Whether somebody named a model; what it is, is not looked at yet."""
    return ctx.facts.model is not None


def model(ctx: Context) -> Model:
    """The model.

    Raises:
        SkipRule: there is none, or it cannot be read, which is noted.
    """
    found = ctx.cached(_model)
    if found is None:
        raise SkipRule
    return found


def shape(ctx: Context) -> Architecture:
    """Its sizes.

    Raises:
        SkipRule: they are not known, which is noted.
    """
    found = model(ctx)
    if found.shape is None:
        if ctx.facts.model is not None and ctx.facts.model.is_asked:
            ctx.notes[f"the sizes of {ctx.facts.model.shown} are not known: {found.doubt}"] = None
        raise SkipRule
    return found.shape


def weights(ctx: Context) -> tuple[Weight, ...]:
    """Its parameters, tied ones once.

    Raises:
        SkipRule: its sizes are not known.
    """
    return _weights(shape(ctx))


def largest(ctx: Context) -> Weight:
    """The largest of its parameters, but for experts: they are one tensor in Transformers 5, and many before.

    Raises:
        SkipRule: its sizes are not known.
    """
    return _largest(shape(ctx))


def largest_linear(ctx: Context) -> Weight | None:
    """The largest of its linear layers and convolutions, but for experts.

    Raises:
        SkipRule: its sizes are not known.
    """
    found = [weight for weight in weights(ctx) if weight.linear and ".experts" not in weight.name]
    return max(found, key=lambda weight: weight.elements, default=None)


def elements(ctx: Context) -> int:
    """The number of its parameters.

    Raises:
        SkipRule: its sizes are not known.
    """
    return _total(shape(ctx))


def _model(ctx: Context) -> Model | None:
    named = ctx.facts.model
    if named is None:
        return None
    try:
        return open_model(named)
    except UnreadableModelError as error:
        if named.is_asked:
            ctx.notes[f"nothing is said of the model: {error}"] = None
        return None


def asked_for(model: str | Mapping[str, Json]) -> Named:
    """The model that somebody asks for, which has to be there.

    Raises:
        UnreadableModelError: it cannot be read, or there is none.
    """
    named = Named(model, "as asked for", "argument")
    open_model(named)
    return named


def open_model(named: Named) -> Model:
    """The model of this name.

    Raises:
        UnreadableModelError: it cannot be read, or there is none.
    """
    if named.is_outside:
        raise UnreadableModelError(f"{named.shown} {OUTSIDE}, and is not read: name it with --model")
    if not isinstance(named.named, str):
        return _described("the model", named.named)
    path = find_config_json(named.named)
    if path is None:
        return _of_name(named.named)
    try:
        state = os.stat(path)
        return _read(path, named.shown, state.st_mtime_ns, state.st_size)
    except OSError as error:
        raise UnreadableModelError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:
        raise UnreadableModelError(f"{path}: {error}") from None


@lru_cache(maxsize=8)
def _read(path: str, shown: str, *_: int) -> Model:
    """The model of a file, for as long as that does not change."""
    return _described(shown, read_config_json(path))


def _described(shown: str, config: Mapping[str, Json]) -> Model:
    from dsconfig.memory.models.from_hf_config import architecture_of

    try:
        return Model(shown, config, architecture_of(config))
    except (ValueError, TypeError) as error:  # `NotModelledError` names what is in the way
        return Model(shown, config, None, str(error))


def _of_name(name: str) -> Model:
    """A model of published sizes."""
    from dsconfig.memory.models.model_zoo import preset_of

    found = preset_of(name)
    if found is None:
        raise UnreadableModelError(
            f"{name[:200]}: no such file, no folder with a {CONFIG_NAME}, no known name"
        )
    return Model(name, {"model_type": found.name}, found)


@lru_cache(maxsize=8)
def _weights(found: Architecture) -> tuple[Weight, ...]:
    from dsconfig.memory.models.registry import weights_of

    made = weights_of(found, 2, False).weights
    return tuple(Weight(weight.name, weight.numel, weight.shape, weight.is_linear) for weight in made)


@lru_cache(maxsize=8)
def _total(found: Architecture) -> int:
    return sum(weight.elements for weight in _weights(found))


@lru_cache(maxsize=8)
def _largest(found: Architecture) -> Weight:
    return max(_weights(found), key=lambda each: 0 if ".experts" in each.name else each.elements)


# Models with experts, as Transformers builds them: which blocks call an expert only where it has tokens.

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
"""By `model_type`, the class of the block that skips experts (transformers 4.57.1, models/*/modeling_*.py).

Not here, since each of their experts is called on every rank, or all are one tensor: OLMoE, FlexOlmo,
GraniteMoE, JetMoE, DBRX, gpt-oss, Llama 4, Qwen3-VL-MoE, NLLB-MoE. From Transformers 5 on none skips any.
"""
DENSE = frozenset(
    (
        *("bert", "bloom", "clip", "distilbert", "roberta", "t5", "vit", "opt"),
        *("gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "starcoder2"),
        *("gemma", "gemma2", "gemma3_text", "llama", "mistral", "phi", "phi3", "qwen2", "qwen3"),
    )
)
"""Types of models that have no experts."""


TENSORS = frozenset(("dbrx", "gpt_oss", "llama4", "llama4_text", "qwen3_vl_moe", "qwen3_vl_moe_text"))
"""Those whose experts are one tensor of three dimensions in Transformers 4, too."""
FUSED = 5
"""The version of Transformers from which on all experts of a layer are one tensor."""


def block_of(found: Model) -> str | None:
    """The class of the block whose experts may be skipped; None where there is none, or it is unknown."""
    return next((BLOCKS[kind] for kind in found.kinds if kind in BLOCKS), None)


def transformers_version(ctx: Context) -> int | None:
    """The first number of the version of Transformers; None where nothing says it."""
    if ctx.consumer == "transformers" and ctx.version is not None:
        found: str | None = ctx.version
    else:
        from dsconfig.launch.requirements import version_of

        pinned = version_of("transformers", ctx.document.name)
        found = pinned and pinned[0]
    return int(found.partition(".")[0]) if found else None


def names(ctx: Context, path: str) -> list[str]:
    """A list of names that may be written as one."""
    value = ctx.value(path)
    if isinstance(value, str):
        return [value]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
