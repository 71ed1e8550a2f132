"""Load the model for a memory estimate from sizes, a `config.json`, a preset or a Hub name; parse LoRA settings."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dsconfig.job.model_config_json import CONFIG_NAME, find_config_json, read_config_json
from dsconfig.memory import (
    RANK,
    SAVED_MODULE_ROLES,
    Architecture,
    LoraAdapter,
    NotModelledError,
    UnmodeledSetting,
    preset_of,
    similar_names,
)

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json


# Models.

ModelSource: TypeAlias = "Architecture | Mapping[str, Json] | str | os.PathLike[str]"
"""An architecture, a `config.json` as a mapping or path, or a preset or hub name."""


class ModelWithConfig(NamedTuple):
    """An architecture, and the `config.json` from which consumers read values for it."""

    shape: Architecture
    config: Mapping[str, Json]
    unmodelled: tuple[UnmodeledSetting, ...] = ()
    """Parts of the model that are not known."""
    approximates: str = ""
    """Why the layers are those of a generic transformer."""


def architecture_of_sizes(
    parameters: int, hidden: int, layers: int, *, heads: int = 0, vocabulary: int = 0
) -> Architecture:
    """Return a Llama-like decoder of these sizes.

    Raises:
        ValueError: no model has these sizes.
    """
    from dsconfig.memory import decoder_of_size

    return decoder_of_size(parameters, hidden, layers, heads=heads, vocabulary=vocabulary)


def load_model(source: ModelSource | None, parameters: int | None = None) -> ModelWithConfig:
    """Load a model; `parameters` is its number of parameters, used if its layers are not supported.

    Such a model has an estimate of its states, but not of its activations.

    Raises:
        NotModelledError: the model and its number of parameters are unknown.
        OSError: the model's file cannot be read.
        ValueError: the model's file does not contain a JSON object.
    """
    if isinstance(source, Architecture):
        return ModelWithConfig(source, {"hidden_size": source.hidden_size})
    if source is None:
        if parameters is None:
            raise NotModelledError("no model", "give `model`: its config.json, or a name such as llama-3-8b")
        return _model_of_parameter_count(parameters, {}, "only the number of parameters is given")
    if not isinstance(source, Mapping):
        name = os.fspath(source)
        path = find_config_json(name)
        if path is None:
            shape = preset_of(name)
            if shape is not None:
                return load_model(shape)
            if parameters is not None:
                return _model_of_parameter_count(
                    parameters, {}, f"the config.json of `{name[:100]}` is not on this machine"
                )
            raise _unknown_model_error(name)
        try:
            source = read_config_json(path)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    return _model_of_config(source, parameters)


def with_encoder(model: ModelWithConfig, keys: Mapping[str, Json]) -> ModelWithConfig:
    """Add the image encoder that LLaVA's script gives a text model, described by keys of `config.json`."""
    arch = model.shape
    if not keys or arch.towers or arch.family not in ("decoder", "generic"):
        return model
    from dsconfig.memory import llava_tower

    tower = llava_tower(keys, arch.hidden_size)
    if tower is None:
        return model._replace(shape=arch._replace(unmodeled_part="vision_tower"))
    return model._replace(shape=arch._replace(towers=(tower,)))


def _model_of_config(config: Mapping[str, Json], parameters: int | None) -> ModelWithConfig:
    """Return the model of a `config.json`, with only its parameters if its layers are not supported."""
    from dsconfig.memory import (
        InvalidModelError,
        architecture_of,
        generic_architecture,
        parameter_only_architecture,
    )

    try:
        return ModelWithConfig(architecture_of(config), config)
    except InvalidModelError:
        raise
    except NotModelledError as error:
        if parameters is not None:
            return _model_of_parameter_count(parameters, config, error.what)
        if (shape := generic_architecture(config)) is not None:
            return ModelWithConfig(shape, config, approximates=error.what)
        shape = parameter_only_architecture(config)
        if shape is None:
            raise
        count = "the number of parameters follows from the usual keys of config.json and is approximate"
        text = f"{error.what}. Only model states are estimated: {count}; pass `--params` if you know it"
        return ModelWithConfig(shape, config, (UnmodeledSetting("activations", text, _RANK, _RANK),))


_RANK = frozenset((RANK,))


def _model_of_parameter_count(parameters: int, config: Mapping[str, Json], why: str) -> ModelWithConfig:
    from dsconfig.memory import architecture_of_count

    ways_out = "`--params N --hidden H --layers L` estimates a Llama-like decoder"
    setting = UnmodeledSetting("activations", f"{why}, so only model states are estimated; {ways_out}", _RANK)
    return ModelWithConfig(architecture_of_count(parameters), config, (setting,))


def _unknown_model_error(name: str) -> NotModelledError:
    """Return the error for a name that is neither a file nor a known model."""
    where = ", nor in the hub's cache on this machine" if name.count("/") == 1 else ""
    likely = similar_names(name)
    suggestion = f"did you mean {' or '.join(likely)}? If not, " if likely else ""
    size = re.search(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)(b|m)(?![a-z0-9])", name.lower())
    params = f"{size[1]}{size[2].upper()}" if size else "7B"
    return NotModelledError(
        f"unknown model `{name[:200]}`: no such file or preset{where}",
        f"{suggestion}pass its {CONFIG_NAME}, or `--params {params}` for model states without activations",
    )


# LoRA settings: `r=16,target=q_proj,v_proj`, or a mapping.

ALL = ("all", "all-linear")
"""LoRA targets that stand for every linear layer except the head."""
NAMES = {"r": "r", "rank": "r", "target": "target", "target_modules": "target", "targets": "target"}
NAMES |= {"dropout": "dropout", "lora_dropout": "dropout", "alpha": "alpha", "lora_alpha": "alpha"}
NAMES |= dict.fromkeys(("save", "modules_to_save"), "save")
USUAL = frozenset(("q_proj", "v_proj", "c_attn", "query_key_value", "qkv_proj", "query", "value"))
"""PEFT's default LoRA targets for the supported model families (peft utils/constants.py)."""
LARGEST = 1 << 20
EXPECTED = "expected r=RANK, target=NAME,NAME… or all, dropout=FRACTION, save=embed_tokens+lm_head"


def parse_lora_settings(lora: str | Mapping[str, Json]) -> LoraAdapter:
    """Parse LoRA settings.

    Raises:
        ValueError: the settings are invalid.
    """
    values = _parse_key_values(lora) if isinstance(lora, str) else dict(lora)
    settings: dict[str, Json] = {}
    for name, value in values.items():
        if name not in NAMES:
            raise ValueError(f"lora: `{name}` is unknown; {EXPECTED}")
        settings[NAMES[name]] = value
    rank, target = _parse_number(settings.get("r", 8)), settings.get("target")
    if not isinstance(rank, int) or not 1 <= rank <= LARGEST:
        raise ValueError(f"lora: r is `{settings.get('r')}`; expected an integer above 0")
    dropout = _parse_number(settings.get("dropout", 0.0))
    if dropout is None or not 0 <= dropout < 1:
        raise ValueError(f"lora: dropout is `{settings.get('dropout')}`; expected a fraction below 1")
    saved = split_module_names(settings.get("save"))
    if saved is None or not saved <= SAVED_MODULE_ROLES.keys():
        roles = sorted(set(SAVED_MODULE_ROLES.values()))
        raise ValueError(f"lora: save is `{settings['save']}`; expected some of {', '.join(roles)}")
    roles_of_saved = frozenset(SAVED_MODULE_ROLES[name] for name in saved)
    return LoraAdapter(rank, _target_layers(target), float(dropout), saved_modules=roles_of_saved)


def split_module_names(value: Json) -> set[str] | None:
    """Return the last components of the module names in a list or text, or None for any other value."""
    entries = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(entry, str) for entry in entries):
        return None
    words = {word for entry in entries for word in str(entry).replace("+", " ").replace(",", " ").split()}
    return {word.rpartition(".")[2] for word in words}


def _parse_key_values(text: str) -> dict[str, Json]:
    """Parse LoRA settings written as text, in which `target` and `save` also take the words without `=` after them."""
    settings: dict[str, Json] = {}
    targets: list[Json] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = word.partition("=")
        if equals and NAMES.get(name.strip()) in ("target", "save"):
            targets = []
            settings[NAMES[name.strip()]] = targets
            targets += [part for part in value.split("+") if part]
        elif equals:
            settings[name.strip()] = value.strip()
        elif targets:
            targets.append(word)
        else:
            raise ValueError(f"lora: `{word}`; {EXPECTED}")
    return settings


def _parse_number(value: Json) -> int | float | None:
    if isinstance(value, str):
        try:
            value = int(value) if value.isdecimal() and len(value) < 20 else float(value)
        except ValueError:
            return None
    return value if type(value) in (int, float) else None


def _target_layers(value: Json) -> frozenset[str]:
    """Return the names of the target layers, or an empty set for all.

    LLaMA-Factory and Axolotl separate them by commas. PEFT takes a text as a regular expression of the whole name.
    """
    names = [value] if isinstance(value, str) else value
    if names is None:
        return USUAL
    entries = names if isinstance(names, list) else []
    words = {part.strip() for name in entries if isinstance(name, str) for part in name.split(",")} - {""}
    words = {part for word in words for part in _alternatives(word)}
    if not words or not all(isinstance(name, str) for name in entries):
        raise ValueError(f"lora: target is `{value}`; expected layer names, or all")
    return frozenset() if words & set(ALL) else frozenset(name.rpartition(".")[2] for name in words)


def _alternatives(pattern: str) -> list[str]:
    """Return the names at the end of a regular expression such as `.*self_attn.(q_proj|k_proj)`, or the pattern."""
    last = pattern.removesuffix(")").rpartition("(")[2]
    return last.split("|") if pattern.endswith(")") and "(" in pattern else [pattern]
