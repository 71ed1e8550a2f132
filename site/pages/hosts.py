"""Configs in which a key may stand: its own sections switched on, or a config of the tests that has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.model.keyinfo import types_of
from pages import places

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject

MOST = 8
"""Configs of the tests for one section."""


def above(path: str) -> Iterator[str]:
    """The sections that the key stands in, outermost first."""
    words = path.split(".")
    yield from (".".join(words[:end]) for end in range(1, len(words)) if words[end - 1] != "*")


def alone(path: str, value: Json) -> JsonObject:
    """A config with the key; its sections are switched on, and optimizers and schedulers have their type."""
    config: JsonObject = {} if path.startswith("train_") else {"train_batch_size": 8}
    put(config, path.replace("*", "name").split("."), value)
    for section in (*above(path), *([path] if places.is_section(path) else [])):
        key = f"{section}.enabled"
        if key in places.entries() and key != path:
            put(config, key.replace("*", "name").split("."), True)
    if (kind := _type(path)) is not None:
        put(config, [path.partition(".")[0], "type"], kind)
    return config


def _type(path: str) -> str | None:
    """The optimizer or scheduler that has the param."""
    first = path.partition(".")[0].capitalize()
    used = {info.section for info in places.entries()[path]}
    return next((kind.name for kind in types_of(first).values() if kind.params in used), None)


def put(config: JsonObject, words: list[str], value: Json) -> bool:
    """Put a value at a path into a config, for a free name one that is there; False where none is."""
    here: Json = config
    for word in words[:-1]:
        if not isinstance(here, dict):
            return False
        name = next(iter(here), None) if word == "*" else word
        if name is None:
            return False
        here = here.setdefault(name, {})
    if not isinstance(here, dict) or words[-1] == "*":
        return False
    here[words[-1]] = value
    return True


def holding(path: str, release: str) -> Iterator[JsonObject]:
    """Small configs of the tests in which the key stands, those for the release first."""
    if not path:
        return
    found = 0
    word = path.rstrip(".*").rpartition(".")[2]
    for own in (True, False):
        for target, text in places.configs():
            if (target == release) is own and f'"{word}"' in text and found < MOST:
                config = json.loads(text)
                if _holds(config, path.split(".")):
                    found += 1
                    yield config


def shown(path: str, release: str) -> Iterator[JsonObject]:
    """The part around the key of the showcases for a release, then all of them."""
    words = path.split(".")
    for target, config in places.showcases():
        if target == release and _holds(config, words):
            yield _around(config, words)
            yield config


def _around(config: JsonObject, words: list[str]) -> JsonObject:
    """The config without the other objects beside each step of the path."""
    found: JsonObject = {}
    for name, value in config.items():
        if words and words[0] in (name, "*"):
            inner = len(words) > 1 and isinstance(value, dict)
            found[name] = _around(value, words[1:]) if inner and isinstance(value, dict) else value
        elif not isinstance(value, dict):
            found[name] = value
    return found


def _holds(value: Json, words: list[str]) -> bool:
    if not words:
        return True
    if isinstance(value, list):
        return words[0] == "*" and any(_holds(each, words[1:]) for each in value)
    if not isinstance(value, dict):
        return False
    inner = list(value.values()) if words[0] == "*" else [value[words[0]]] if words[0] in value else []
    return any(_holds(each, words[1:]) for each in inner)
