"""Model of a memory estimate: dimensions, `config.json`, preset or hub name, and LoRA adapters."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dsconfig.job.model_files import CONFIG, config_at, read
from dsconfig.memory.graph import Adapter
from dsconfig.memory.models.architecture import Architecture
from dsconfig.memory.models.model_zoo import preset_of, similar_names
from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json


# The model that is asked about: a shape, a `config.json`, a preset, or a hub's name.

ModelSource: TypeAlias = "Architecture | Mapping[str, Json] | str | os.PathLike[str]"
"""A shape, a `config.json` as a mapping or by its path, or the name of a preset."""


class Model(NamedTuple):
    """A shape, and what a consumer reads of the `config.json` that it is from."""

    shape: Architecture
    config: Mapping[str, Json]


def of_sizes(
    parameters: int, hidden: int, layers: int, *, heads: int = 0, vocabulary: int = 0
) -> Architecture:
    """A decoder of these sizes.

    Raises:
        ValueError: there is no such model.
    """
    from dsconfig.memory.models.model_zoo import decoder_of_size

    return decoder_of_size(parameters, hidden, layers, heads=heads, vocabulary=vocabulary)


def model_of(source: ModelSource) -> Model:
    """The model.

    Raises:
        NotModelledError: there is no such model, or its family is unknown here.
        OSError: its file cannot be read.
        ValueError: its file holds no JSON object.
    """
    if isinstance(source, Architecture):
        return Model(source, {"hidden_size": source.hidden_size})
    if not isinstance(source, Mapping):
        name = os.fspath(source)
        path = config_at(name)
        if path is None:
            shape = preset_of(name)
            if shape is not None:
                return model_of(shape)
            raise _unknown_degree(name)
        try:
            source = read(path)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    from dsconfig.memory.models.from_hf_config import architecture_of

    return Model(architecture_of(source), source)


def _unknown_degree(name: str) -> NotModelledError:
    """Neither a file nor a known name: what it may have been, and what is taken."""
    where = ", nor is it in the hub's cache on this machine" if name.count("/") == 1 else ""
    likely = similar_names(name)
    meant = f"did you mean {' or '.join(likely)}? If not, " if likely else ""
    return NotModelledError(f"there is no model `{name[:200]}` here{where}", f"{meant}give its {CONFIG}")


# LoRA as it is asked for: `r=16,target=q_proj,v_proj`, or the same as a mapping.

ALL = ("all", "all-linear")
"""Words for every linear layer but the head."""
NAMES = {"r": "r", "rank": "r", "target": "target", "target_modules": "target", "targets": "target"}
NAMES |= {"dropout": "dropout", "lora_dropout": "dropout", "alpha": "alpha", "lora_alpha": "alpha"}
USUAL = frozenset(("q_proj", "v_proj", "c_attn", "query_key_value", "qkv_proj", "query", "value"))
"""PEFT's own targets for the families that are modelled (peft utils/constants.py)."""
LARGEST = 1 << 20
EXPECTED = "expected r=RANK, target=NAME,NAME… or all, dropout=SHARE"


def adapter_of(given: str | Mapping[str, Json]) -> Adapter:
    """The adapter.

    Raises:
        ValueError: it cannot be understood.
    """
    values = _parsed(given) if isinstance(given, str) else dict(given)
    found: dict[str, Json] = {}
    for name, value in values.items():
        if name not in NAMES:
            raise ValueError(f"lora: `{name}` is unknown; {EXPECTED}")
        found[NAMES[name]] = value
    rank, target = _number(found.get("r", 8)), found.get("target")
    if not isinstance(rank, int) or not 1 <= rank <= LARGEST:
        raise ValueError(f"lora: r is `{found.get('r')}`; expected a whole number above 0")
    share = _number(found.get("dropout", 0.0))
    if share is None or not 0 <= share < 1:
        raise ValueError(f"lora: dropout is `{found.get('dropout')}`; expected a share below 1")
    return Adapter(rank, _targets(target), float(share))


def _parsed(text: str) -> dict[str, Json]:
    """`target` takes every word without `=` that follows it."""
    found: dict[str, Json] = {}
    targets: list[Json] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = word.partition("=")
        if equals and NAMES.get(name.strip()) == "target":
            found["target"] = targets
            targets += [part for part in value.split("+") if part]
        elif equals:
            found[name.strip()] = value.strip()
        elif targets:
            targets.append(word)
        else:
            raise ValueError(f"lora: `{word}`; {EXPECTED}")
    return found


def _number(value: Json) -> int | float | None:
    if isinstance(value, str):
        try:
            value = int(value) if value.isdecimal() and len(value) < 20 else float(value)
        except ValueError:
            return None
    return value if type(value) in (int, float) else None


def _targets(value: Json) -> frozenset[str]:
    """Names of layers; none stand for all of them. LLaMA-Factory and Axolotl write several as one word."""
    names = [value] if isinstance(value, str) else value
    if names is None:
        return USUAL
    known = names if isinstance(names, list) else []
    words = {part.strip() for name in known if isinstance(name, str) for part in name.split(",")} - {""}
    if not words or not all(isinstance(name, str) for name in known):
        raise ValueError(f"lora: target is `{value}`; expected names of layers, or all")
    return frozenset() if words & set(ALL) else frozenset(name.rpartition(".")[2] for name in words)
