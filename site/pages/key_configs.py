"""Configs that contain a key: a minimal one, showcases, and configs of the test cases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.model.key_table import types_of_section
from pages import key_entries

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject

MOST = 8
"""Maximum number of test configs for one section."""


def parents(path: str) -> Iterator[str]:
    """The sections that contain the key, outermost first."""
    words = path.split(".")
    yield from (".".join(words[:end]) for end in range(1, len(words)) if words[end - 1] != "*")


def minimal_config(path: str, value: Json) -> JsonObject:
    """A config with the key, its sections enabled, and the type of the optimizer or scheduler."""
    config: JsonObject = {} if path.startswith("train_") else {"train_batch_size": 8}
    set_value(config, path.replace("*", "name").split("."), value)
    for section in (*parents(path), *([path] if key_entries.is_section(path) else [])):
        key = f"{section}.enabled"
        if key in key_entries.entries() and key != path:
            set_value(config, key.replace("*", "name").split("."), True)
    if (kind := _type(path)) is not None:
        set_value(config, [path.partition(".")[0], "type"], kind)
    return config


def _type(path: str) -> str | None:
    """The optimizer or scheduler that has the param."""
    first = path.partition(".")[0].capitalize()
    used = {info.section for info in key_entries.entries()[path]}
    return next((kind.name for kind in types_of_section(first).values() if kind.params in used), None)


def set_value(config: JsonObject, words: list[str], value: Json) -> bool:
    """Set a value by its path, with an existing name for each `*`; False if there is none."""
    section: Json = config
    for word in words[:-1]:
        if not isinstance(section, dict):
            return False
        name = next(iter(section), None) if word == "*" else word
        if name is None:
            return False
        section = section.setdefault(name, {})
    if not isinstance(section, dict) or words[-1] == "*":
        return False
    section[words[-1]] = value
    return True


def configs_with(path: str, release: str) -> Iterator[JsonObject]:
    """Small configs of the tests that contain the key, those for the release first."""
    if not path:
        return
    count = 0
    word = path.rstrip(".*").rpartition(".")[2]
    for for_release in (True, False):
        for target, text in key_entries.clean_configs():
            if (target == release) is for_release and f'"{word}"' in text and count < MOST:
                config = json.loads(text)
                if _contains(config, path.split(".")):
                    count += 1
                    yield config


def showcase_configs(path: str, release: str) -> Iterator[JsonObject]:
    """The showcases of a release that contain the key: first the part around the key, then the whole config."""
    words = path.split(".")
    for target, config in key_entries.showcases():
        if target == release and _contains(config, words):
            yield _around(config, words)
            yield config


def _around(config: JsonObject, words: list[str]) -> JsonObject:
    """The config without objects that are not on the path."""
    part: JsonObject = {}
    for name, value in config.items():
        if words and words[0] in (name, "*"):
            inner = len(words) > 1 and isinstance(value, dict)
            part[name] = _around(value, words[1:]) if inner and isinstance(value, dict) else value
        elif not isinstance(value, dict):
            part[name] = value
    return part


def _contains(value: Json, words: list[str]) -> bool:
    if not words:
        return True
    if isinstance(value, list):
        return words[0] == "*" and any(_contains(each, words[1:]) for each in value)
    if not isinstance(value, dict):
        return False
    inner = list(value.values()) if words[0] == "*" else [value[words[0]]] if words[0] in value else []
    return any(_contains(each, words[1:]) for each in inner)
