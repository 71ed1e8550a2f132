"""The model that is asked about: a shape, a `config.json`, a preset, or a hub's name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dsconfig.job.model_files import CONFIG, config_at, read
from dsconfig.memory.models.model_zoo import preset_of, similar
from dsconfig.memory.models.shape import Shape
from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

ModelSource: TypeAlias = "Shape | Mapping[str, Json] | str | os.PathLike[str]"
"""A shape, a `config.json` as a mapping or by its path, or the name of a preset."""


class Model(NamedTuple):
    """A shape, and what a consumer reads of the `config.json` that it is from."""

    shape: Shape
    config: Mapping[str, Json]


def of_sizes(parameters: int, hidden: int, layers: int, *, heads: int = 0, vocabulary: int = 0) -> Shape:
    """A decoder of these sizes.

    Raises:
        ValueError: there is no such model.
    """
    from dsconfig.memory.models.model_zoo import like

    return like(parameters, hidden, layers, heads=heads, vocabulary=vocabulary)


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
        if path is None:
            shape = preset_of(name)
            if shape is not None:
                return model_of(shape)
            raise _unknown(name)
        try:
            source = read(path)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    from dsconfig.memory.models.from_hf_config import shape_of

    return Model(shape_of(source), source)


def _unknown(name: str) -> NotModelledError:
    """Neither a file nor a known name: what it may have been, and what is taken."""
    where = ", nor is it in the hub's cache on this machine" if name.count("/") == 1 else ""
    likely = similar(name)
    meant = f"did you mean {' or '.join(likely)}? If not, " if likely else ""
    return NotModelledError(f"there is no model `{name[:200]}` here{where}", f"{meant}give its {CONFIG}")
