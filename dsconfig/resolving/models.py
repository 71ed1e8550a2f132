"""The model that is asked about: a shape, a `config.json`, a preset, or a hub's name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dsconfig.sizing.models.named import PRESETS
from dsconfig.sizing.models.shape import Shape
from dsconfig.sizing.refused import NotModelledError

if TYPE_CHECKING:
    from dsconfig.json_types import Json

ModelSource: TypeAlias = "Shape | Mapping[str, Json] | str | os.PathLike[str]"
"""A shape, a `config.json` as a mapping or by its path, or the name of a preset."""
CONFIG = "config.json"
_HUB_NAME = re.compile(r"\w[\w.-]{0,95}/\w[\w.-]{0,95}", re.ASCII)


class Model(NamedTuple):
    """A shape, and what a consumer reads of the `config.json` that it is from."""

    shape: Shape
    config: Mapping[str, Json]


def model_of(source: ModelSource) -> Model:
    """The model.

    Raises:
        NotModelledError: there is no such model, or its family is unknown here.
        OSError: its file cannot be read.
        ValueError: its file holds no JSON object.
    """
    if isinstance(source, Shape):
        return Model(source, {"hidden_size": source.hidden})
    if not isinstance(source, Mapping):
        name = os.fspath(source)
        path = config_at(name)
        if path is None and preset_of(name) is not None:
            shape = PRESETS[str(preset_of(name))]
            return Model(shape, {"hidden_size": shape.hidden})
        if path is None:
            raise NotModelledError(
                f"there is no model `{name}`", f"give a {CONFIG} or one of {', '.join(PRESETS)}"
            )
        from dsconfig.consumers.training_args import read_mapping

        source = read_mapping(path)
    from dsconfig.sizing.models.hugging_face import shape_of

    return Model(shape_of(source), source)


def config_at(name: str) -> str | None:
    """The `config.json` of a model: a file, in a folder, or in the hub's cache on this machine."""
    if "\0" in name or len(name) > 4096:
        return None
    if os.path.isfile(name):
        return name
    if os.path.isdir(name):
        return os.path.join(name, CONFIG)
    return _cached(name) if _HUB_NAME.fullmatch(name) else None


def _cached(name: str) -> str | None:
    """Where `huggingface_hub` has put it (file_download.py, `try_to_load_from_cache`)."""
    home = os.environ.get("HF_HOME") or os.path.join(os.path.expanduser("~"), ".cache", "huggingface")
    cache = os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    folder = os.path.join(cache, "models--" + name.replace("/", "--"))
    try:
        with open(os.path.join(folder, "refs", "main"), encoding="ascii") as file:
            revision = file.read(64).strip()
    except (OSError, ValueError):
        return None
    path = os.path.join(folder, "snapshots", revision, CONFIG)
    return path if revision.isalnum() and os.path.isfile(path) else None


def preset_of(name: str) -> str | None:
    """The preset of this name, or of the hub's name for it."""
    if name in PRESETS:
        return name
    maker, _, last = name.lower().partition("/")
    if maker not in MAKERS:
        return None
    last = re.sub(r"^meta-|-(hf|instruct|chat|base|v\d+(\.\d+)?)(?=-|$)", "", last)
    found = HUB.get(last, last)
    return found if found in PRESETS else None


MAKERS = (
    "meta-llama",
    "mistralai",
    "qwen",
    "openai-community",
    "google",
    "tinyllama",
    "nousresearch",
    "unsloth",
)
"""Who puts models of these shapes on the hub under these names."""
HUB = {
    "vit-base-patch16-224": "vit-base",
    "vit-large-patch16-224": "vit-large",
    "tinyllama-1.1b": "tinyllama-1.1b",
    "llama-3.1-8b": "llama-3-8b",
    "llama-3.1-70b": "llama-3-70b",
    "llama-3.3-70b": "llama-3-70b",
}
"""Last parts of the hub's names, without what tells of training: those of the same shape."""
