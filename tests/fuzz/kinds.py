"""The registry of kinds of hostile input, each a function from a size (about the bytes wanted) to a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Kind = Callable[[int], bytes]
KINDS: dict[str, Kind] = {}
"""By name; the part behind the last hyphen is the file's suffix."""


def kind(suffix: str = "json") -> Callable[[Kind], Kind]:
    """Register a kind, under the function's name."""

    def register(make: Kind) -> Kind:
        KINDS[f"{make.__name__.replace('_', ' ')}.{suffix}"] = make
        return make

    return register


def config(**keys: Any) -> bytes:
    return json.dumps({"$dsconfig": {}, "train_batch_size": 8, **keys}).encode()


def object_of(entries: list[str]) -> bytes:
    return ('{"$dsconfig": {}, "train_batch_size": 8,\n' + ",\n".join(entries) + "}").encode()
