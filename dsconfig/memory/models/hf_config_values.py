"""Values of a model's `config.json`, each of the kind that it has to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.memory.not_modelled import NotModelledError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json


def count(config: Mapping[str, Json], key: str, default: int = 0) -> int:
    """A whole number above 0.

    Raises:
        NotModelledError: it is none, or it is missing and there is no default.
    """
    value = config.get(key)
    if value is None and default:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        said = f"is {shown(value)}" if key in config else "is missing"
        raise NotModelledError(f"`{key}` of the model {said}", "give a whole number above 0")
    return value


def rate(config: Mapping[str, Json], key: str, default: float = 0.1) -> float:
    """A number from 0 to 1.

    Raises:
        NotModelledError: it is none.
    """
    value = config.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise NotModelledError(f"`{key}` of the model is {shown(value)}", "give a number from 0 to 1")
    return value


def shown(value: Json) -> str:
    """A value as a message shows it."""
    words = {None: "null", True: "true", False: "false"}
    text = words[value] if value is None or isinstance(value, bool) else str(value)[:40]
    return f"`{text}`"
