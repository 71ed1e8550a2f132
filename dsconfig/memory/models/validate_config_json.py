"""Read and validate values of a Hugging Face `config.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json


class InvalidModelError(NotModelledError):
    """Raised when a value of `config.json` is invalid; the message names the key."""


def count(config: Mapping[str, Json], key: str, default: int = 0) -> int:
    """Read a positive integer from a config.

    Raises:
        InvalidModelError: the value is invalid, or missing without a default.
    """
    value = config.get(key)
    if value is None and default:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        problem = f"is {format_value(value)}" if key in config else "is missing"
        raise InvalidModelError(f"`{key}` in config.json {problem}", "expected an integer above 0")
    return value


def rate(config: Mapping[str, Json], key: str, default: float = 0.1) -> float:
    """Read a number from 0 to 1 from a config.

    Raises:
        InvalidModelError: the value is invalid.
    """
    value = config.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise InvalidModelError(
            f"`{key}` in config.json is {format_value(value)}", "expected a number from 0 to 1"
        )
    return value


def format_value(value: Json) -> str:
    """Format a value as JSON for a message."""
    words = {None: "null", True: "true", False: "false"}
    text = words[value] if value is None or isinstance(value, bool) else str(value)[:40]
    return f"`{text}`"


def rotary_dim(
    config: Mapping[str, Json], size: int, old_key: str = "partial_rotary_factor", default: float = 1
) -> int:
    """Return how many elements of a head are rotated; `old_key` is the key in Transformers 4."""
    # Transformers 5 moved rotary settings to `rope_parameters`; older files use `rope_scaling` or top-level
    # keys.
    for section in (config.get("rope_scaling"), config.get("rope_parameters"), config):
        for key in (old_key, "partial_rotary_factor"):
            if isinstance(section, Mapping) and section.get(key) is not None:
                return int(size * rate(section, key))
    return int(size * default)


def optional_count(config: Mapping[str, Json], key: str) -> int:
    """Read a positive integer, or return 0 if it is absent, null or 0.

    Raises:
        InvalidModelError: the value is invalid.
    """
    value = config.get(key)
    return 0 if value is None or (value == 0 and value is not False) else count(config, key)
