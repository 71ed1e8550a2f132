"""A key that a fix renames or moves is taken where it arrives, in every release that is checked."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from dsconfig import check
from dsconfig.checking.patches import carried_out
from dsconfig.diagnostic import Diagnostic, KeyPath, Move, Rename
from dsconfig.json_types import Json, JsonObject
from dsconfig.model.paths import keys

PATHS = [path for path, _ in keys() if "*" not in path]
WORDS = sorted({path[-1] for path in PATHS})
VALUES: list[Json] = [
    *(True, False, None, 0, 1, 2, -1, 0.5, "auto", "cpu", "fp16", "Adam", "3", [], [1], ["a"]),
    *({}, {"enabled": True}, {"enabled": False}, {"device": "cpu"}, {"a": 1}, {"type": "Adam"}),
]
TARGETS = ["0.19.8", "0.16.9", "0.14.5", "0.9.5", "0.6.7", ">=0.14.5,<=0.19.8", ">=0.9.5,<0.16"]
OF_TYPE = ("DSC10", "DSC11")
"""Rules of keys, and of what stands for their values."""


@pytest.mark.parametrize("seed", range(8))
def test_a_key_arrives_where_it_is_taken(seed: int) -> None:
    spread, seen = random.Random(seed), 0
    for _ in range(120):
        config, target = _config(spread), spread.choice(TARGETS)
        report = check(config, target=target)
        for found in report:
            to = _destination(found)
            if to is None or found.fix is None:
                continue
            seen += 1
            after = check(carried_out(config, found.fix.operations), target=target)
            for new in _at(after, to):
                before = (*found.path, *new.path[len(to) :])
                known = any((old.code, old.path) == (new.code, before) for old in report)
                assert known or not new.code.startswith(OF_TYPE), (
                    config,
                    target,
                    found.fix.title,
                    new.message,
                )
    assert seen > 5


def _at(report: object, to: KeyPath) -> Iterator[Diagnostic]:
    """What is found on the way to a key, at it and in it."""
    for found in report:  # type: ignore[attr-defined]
        if found.path and found.path[: len(to)] == to[: len(found.path)]:
            yield found


def _destination(found: Diagnostic) -> KeyPath | None:
    for step in found.fix.operations if found.fix else ():
        if isinstance(step, Rename):
            return (*step.path[:-1], step.name)
        if isinstance(step, Move):
            return step.to
    return None


def _config(spread: random.Random) -> JsonObject:
    config: JsonObject = {"train_batch_size": 8}
    for _ in range(3):
        path = spread.choice(PATHS)
        word = _misspelt(path[-1], spread) if spread.random() < 0.6 else spread.choice(WORDS)
        here: Json = config
        for part in path[:-1] if spread.random() < 0.7 else ():
            here = here.setdefault(part, {})
            if not isinstance(here, dict):
                break
        if isinstance(here, dict) and word:
            here[word] = spread.choice(VALUES)
    return config


def _misspelt(word: str, spread: random.Random) -> str:
    at = spread.randrange(len(word))
    slips = [word[:at] + word[at + 1 :], word[:at] + "t" + word[at:], "_".join(word.split("_")[::-1])]
    return spread.choice([*slips, word.rpartition("_")[0], word])


def test_a_key_that_only_part_of_a_range_knows_is_neither_written_nor_thrown_away() -> None:
    """`datastates_ckpt` came with 0.18.1."""
    config = {"train_batch_size": 8, "datastates_ckp": {}}
    found = [each for each in check(config, target=">=0.14.5,<=0.19.8") if each.path == ("datastates_ckp",)]
    assert [(each.code, each.fix) for each in found] == [("DSC101", None), ("DSC102", None)]
