"""A key that a fix renames or moves is taken where it arrives, in every release that is checked."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from dsconfig import check
from dsconfig.core.diagnostic import Diagnostic, KeyPath, Move, Rename
from dsconfig.document.edit.operations import carried_out
from tests.fuzz.drafts import strayed

TARGETS = ["0.19.8", "0.16.9", "0.14.5", "0.9.5", "0.6.7", ">=0.14.5,<=0.19.8", ">=0.9.5,<0.16"]
OF_TYPE = ("DSC10", "DSC11")
"""Rules of keys, and of what stands for their values."""


@pytest.mark.parametrize("seed", range(8))
def test_a_key_arrives_where_it_is_taken(seed: int) -> None:
    spread, seen = random.Random(seed), 0
    for _ in range(120):
        config, target = strayed(spread), spread.choice(TARGETS)
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


def test_a_key_that_only_part_of_a_range_knows_is_neither_written_nor_thrown_away() -> None:
    """`datastates_ckpt` came with 0.18.1."""
    config = {"train_batch_size": 8, "datastates_ckp": {}}
    found = [each for each in check(config, target=">=0.14.5,<=0.19.8") if each.path == ("datastates_ckp",)]
    assert [(each.code, each.fix) for each in found] == [("DSC101", None), ("DSC102", None)]
