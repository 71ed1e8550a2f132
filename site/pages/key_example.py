"""An example for each key: a config that contains it and passes a check."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

from dsconfig.api.check import check
from dsconfig.core.diagnostic import Effect
from dsconfig.core.releases import LATEST, NUMBERS, RELEASES
from dsconfig.model.key_table import KeyInfo
from pages import key_configs, key_entries

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, Spec

MAX_CONFIGS = 24
"""Maximum number of configs that are tried for a key."""
MILD = {Effect.DEPRECATED, Effect.WASTEFUL}


def example(path: str) -> tuple[str, JsonObject] | None:
    """A release and a config; None if every config with the key has diagnostics."""
    release = newest_release(path)
    candidates = [json.dumps(config) for config in islice(_candidates(path, release), MAX_CONFIGS)]
    for allowed in (set[Effect](), MILD):
        for text in dict.fromkeys(candidates):
            if _effects(text, release) <= allowed:
                return release, json.loads(text)
    return None


def newest_release(path: str) -> str:
    """The newest release that reads the key and does not deprecate it."""
    infos = key_entries.entries()[path]
    last = max(each.last for info in infos for each in info.spans)
    parents = [key_entries.entries()[up][0] for up in key_configs.parents(path)]
    ends = [min(last, *(info.deprecated - 1 for info in infos)), *(up.spans[-1].last for up in parents)]
    releases = [release for release in RELEASES if NUMBERS[release] <= min(ends)]
    return releases[-1] if releases else LATEST


@cache
def _effects(text: str, release: str) -> frozenset[Effect]:
    return frozenset(diagnostic.effect for diagnostic in check(text, target=release, consumer="deepspeed"))


def _candidates(path: str, release: str) -> Iterator[JsonObject]:
    """A minimal config, then configs that contain the section, with informative values."""
    steps = path.split(".")
    values = [
        value
        for info in key_entries.entries()[path]
        for value in _values(info, info.type_in(NUMBERS[release]))
    ]
    if key_entries.is_section(path) and {} not in values:
        values.insert(0, {})
    for value in values[:4]:
        yield key_configs.minimal_config(path, value)
    yield from key_configs.showcase_configs(path, release)
    yield from key_configs.configs_with(path, release)
    for parent_config in key_configs.configs_with(path.rpartition(".")[0], release):
        for value in values[:2]:
            config = copy.deepcopy(parent_config)
            if key_configs.set_value(config, steps, value):
                yield config


def _values(info: KeyInfo, spec: Spec) -> Iterator[Json]:
    """Values other than the default, then the default."""
    if spec[0] == "union":
        for arm in spec[1:]:
            yield from _values(info, arm)
    elif spec[0] == "enum":
        yield from (word for word in spec[1:] if word != info.default)
    elif spec[0] == "bool":
        yield info.default is not True
    elif spec[0] in ("int", "float"):
        yield from _numbers(info.default)
    elif spec[0] in ("str", "path"):
        yield from (*info.known, "name")
    elif spec[0] == "list":
        yield from ([each] for inner in spec[1:2] for each in islice(_values(info, inner), 2))
    if info.default is not None:
        yield info.default


def _numbers(default: Json) -> Iterator[Json]:
    if isinstance(default, (int, float)) and not isinstance(default, bool):
        yield from (default * 2, default // 2 if isinstance(default, int) else default / 2)
    yield from (1, 8, 0)
