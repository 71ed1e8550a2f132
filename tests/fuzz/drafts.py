"""Configs for the properties: of all releases and consumers; sound, misspelt, misplaced, of a wrong type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import NamedTuple

from dsconfig.core.json_types import Json, JsonObject
from dsconfig.core.releases import LATEST, RELEASES, ReleaseTarget, resolve_target
from dsconfig.job.consumers import CONSUMERS
from dsconfig.model.key_table import iter_keys
from tests.parity.generators import auto
from tests.parity.generators.case import WORLD_SIZES
from tests.parity.generators.cases import generate

PATHS = [path for path, _ in iter_keys() if "*" not in path]
WORDS = sorted({path[-1] for path in PATHS})
VALUES: list[Json] = [
    *(True, False, None, 0, 1, 2, -1, 0.5, "auto", "cpu", "fp16", "Adam", "3", [], [1], ["a"]),
    *({}, {"enabled": True}, {"enabled": False}, {"device": "cpu"}, {"a": 1}, {"type": "Adam"}),
]
OLDEST, POOL = "0.3.16", 240
RANGES = (">=0.14.5,<=0.19.8", ">=0.9.5,<0.16", ">=0.16.9", ">=0.18,<0.19.8")


class Draft(NamedTuple):
    """A config, and how it is looked at."""

    config: Json
    target: str
    consumer: str
    world_size: int | None

    @property
    def chosen(self) -> ReleaseTarget:
        """The target's releases."""
        return resolve_target(self.target)


def drafts(count: int, seed: int) -> Iterator[Draft]:
    """`count` of them; the same arguments give the same ones."""
    spread = Random(f"drafts {seed}")
    releases = [each for each in RELEASES if RELEASES.index(each) >= RELEASES.index(OLDEST)]
    for _ in range(count):
        release = spread.choice((LATEST, LATEST, *spread.choices(releases, k=3)))
        config = _config(spread, release, seed)
        target = spread.choice(RANGES) if spread.random() < 0.15 else release
        consumer = spread.choice(("deepspeed", "deepspeed", *CONSUMERS))
        world_size = spread.choice((None, *WORLD_SIZES)) if spread.random() < 0.7 else None
        yield Draft(config, target, consumer, world_size)


def _config(spread: Random, release: str, seed: int) -> Json:
    kind = spread.random()
    if kind < 0.5:
        return spread.choice(_pool(release, seed % 7))
    if kind < 0.65:
        return auto.generated(spread, trainer=spread.random() < 0.5)[0]
    if kind < 0.8:
        return strayed(spread)
    one = spread.choice(_pool(release, seed % 7))
    other: Json = spread.choice((strayed(spread), spread.choice(_pool(spread.choice(RELEASES[-40:]), 0))))
    return {**one, **other} if isinstance(one, dict) and isinstance(other, dict) else one


@cache
def _pool(release: str, seed: int) -> list[Json]:
    """What the parity suite generates for the release, as far as all formats can say it."""
    found = []
    for case in generate(release, POOL, seed):
        config = case.config
        if case.text is not None:
            try:
                config = json.loads(case.text)
            except ValueError:
                continue
        if _sayable(config):
            found.append(config)
    return found


def _sayable(config: Json) -> bool:
    try:
        json.dumps(config, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError):
        return False
    return isinstance(config, dict)


def strayed(spread: Random) -> JsonObject:
    """Keys misspelt, or at places that are not theirs, with any value."""
    config: JsonObject = {"train_batch_size": 8}
    for _ in range(3):
        path = spread.choice(PATHS)
        word = misspelt(path[-1], spread) if spread.random() < 0.6 else spread.choice(WORDS)
        here: Json = config
        for part in path[:-1] if spread.random() < 0.7 else ():
            here = here.setdefault(part, {})
            if not isinstance(here, dict):
                break
        if isinstance(here, dict) and word:
            here[word] = spread.choice(VALUES)
    return config


def misspelt(word: str, spread: Random) -> str:
    """The word with a letter missing or too many, its parts in another order, or without its last part."""
    at = spread.randrange(len(word))
    slips = [word[:at] + word[at + 1 :], word[:at] + "t" + word[at:], "_".join(word.split("_")[::-1])]
    return spread.choice([*slips, word.rpartition("_")[0], word])
