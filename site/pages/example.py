"""An example for each key: a config in which it stands and about which a check has nothing to say."""

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
from dsconfig.model.keyinfo import KeyInfo
from pages import hosts, places

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, Spec

MOST = 24
"""Configs that are tried for a key."""
MILD = {Effect.DEPRECATED, Effect.WASTEFUL}


def of(path: str) -> tuple[str, JsonObject] | None:
    """A release and a config; None where no config with the key was found to be without findings."""
    release = newest(path)
    tried = [json.dumps(config) for config in islice(_candidates(path, release), MOST)]
    for allowed in (set[Effect](), MILD):
        for text in dict.fromkeys(tried):
            if _effects(text, release) <= allowed:
                return release, json.loads(text)
    return None


def newest(path: str) -> str:
    """The newest release that reads the key and does not yet call it deprecated."""
    infos = places.entries()[path]
    last = max(each.last for info in infos for each in info.spans)
    parents = [places.entries()[up][0] for up in hosts.above(path)]
    ends = [min(last, *(info.deprecated - 1 for info in infos)), *(up.spans[-1].last for up in parents)]
    known = [release for release in RELEASES if NUMBERS[release] <= min(ends)]
    return known[-1] if known else LATEST


@cache
def _effects(text: str, release: str) -> frozenset[Effect]:
    return frozenset(found.effect for found in check(text, target=release, consumer="deepspeed"))


def _candidates(path: str, release: str) -> Iterator[JsonObject]:
    """The key alone, then in configs that hold its section, with each value that may tell something."""
    words = path.split(".")
    values = [
        value for info in places.entries()[path] for value in _values(info, info.type_in(NUMBERS[release]))
    ]
    if places.is_section(path) and {} not in values:
        values.insert(0, {})
    for value in values[:4]:
        yield hosts.alone(path, value)
    yield from hosts.shown(path, release)
    yield from hosts.holding(path, release)
    for host in hosts.holding(path.rpartition(".")[0], release):
        for value in values[:2]:
            config = copy.deepcopy(host)
            if hosts.put(config, words, value):
                yield config


def _values(info: KeyInfo, spec: Spec) -> Iterator[Json]:
    """Values other than the default, then that."""
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
