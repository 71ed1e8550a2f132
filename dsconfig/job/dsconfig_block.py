"""What a config says of itself, in its block `"$dsconfig"`: its reader, release, world size and model.

"$dsconfig": {"consumer": "transformers", "target": "0.16.9", "world-size": 8, "model": "llama/config.json"}
"""

from __future__ import annotations

from collections.abc import Mapping

from dsconfig.consumers.consumer_versions import EXPECTED as EXPECTED_CONSUMER
from dsconfig.consumers.consumer_versions import is_known
from dsconfig.core.json_types import NamedTuple

KEY = "$dsconfig"
EXPECTED: Mapping[str, str] = {
    "consumer": EXPECTED_CONSUMER,
    "target": "a release or a range of releases as a string",
    "world-size": "a whole number above 0",
    "model": "the path of its config.json or a name, as a string",
}
"""The keys of the block that say how the config is read, and what each takes."""


class Declared(NamedTuple):
    """What the block says; None where it is silent, or not understood."""

    consumer: str | None = None
    target: str | None = None
    world_size: int | None = None
    model: str | None = None


def declared(data: object) -> Declared:
    """What a config says of itself."""
    block = data.get(KEY) if isinstance(data, Mapping) else None
    if not isinstance(block, Mapping):
        return Declared()
    return Declared(*(block.get(key) if fits(key, block.get(key)) else None for key in EXPECTED))


def has_block(data: object) -> bool:
    """Whether a config says how its batch grows with its GPUs, as `dsconfig elastic run` needs."""
    return isinstance(data, Mapping) and "elasticity" in data


def fits(key: str, value: object) -> bool:
    """Whether a value is of the form that the key takes."""
    match key:
        case "consumer":
            return is_known(value)
        case "target":
            return isinstance(value, str)
        case "model":
            return isinstance(value, str) and value != ""
        case _:
            return type(value) is int and value > 0
