"""A key that a fix renames or moves is accepted at its new path, in every checked release."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from dsconfig import check
from dsconfig.core.diagnostic import Diagnostic, KeyPath, MoveKey, RenameKey
from dsconfig.core.releases import NUMBERS
from dsconfig.document.apply_operations import apply_operations_to_value
from dsconfig.model.key_table import child_section, section_view_of_release
from tests.fuzz.drafts import strayed

TARGETS = ["0.19.8", "0.16.9", "0.14.5", "0.9.5", "0.6.7", ">=0.14.5,<=0.19.8", ">=0.9.5,<0.16"]
OF_TYPE = ("DSC10", "DSC11")
"""Rules of keys, and of what stands for their values."""


@pytest.mark.parametrize("seed", range(8))
def test_a_moved_key_is_accepted_at_its_new_path(seed: int) -> None:
    spread, seen = random.Random(seed), 0
    for _ in range(120):
        config, target = strayed(spread), spread.choice(TARGETS)
        report = check(config, target=target)
        for diagnostic in report:
            to = _destination(diagnostic)
            if to is None or diagnostic.fix is None:
                continue
            seen += 1
            after = check(apply_operations_to_value(config, diagnostic.fix.operations), target=target)
            for new in _at(after, to):
                before = (*diagnostic.path, *new.path[len(to) :])
                known = any((old.code, old.path) == (new.code, before) for old in report)
                assert known or not new.code.startswith(OF_TYPE), (
                    config,
                    target,
                    diagnostic.fix.title,
                    new.message,
                )
    assert seen > 5


def _at(report: object, to: KeyPath) -> Iterator[Diagnostic]:
    """What is found on the way to a key, at it and in it."""
    for diagnostic in report:  # type: ignore[attr-defined]
        if diagnostic.path and diagnostic.path[: len(to)] == to[: len(diagnostic.path)]:
            yield diagnostic


def _destination(diagnostic: Diagnostic) -> KeyPath | None:
    for step in diagnostic.fix.operations if diagnostic.fix else ():
        if isinstance(step, RenameKey):
            return (*step.path[:-1], step.name)
        if isinstance(step, MoveKey):
            return step.to
    return None


def test_a_key_of_part_of_the_range_is_neither_written_nor_removed() -> None:
    """`datastates_ckpt` came with 0.18.1."""
    config = {"train_batch_size": 8, "datastates_ckp": {}}
    diagnostics = [
        each for each in check(config, target=">=0.14.5,<=0.19.8") if each.path == ("datastates_ckp",)
    ]
    assert [(each.code, each.fix) for each in diagnostics] == [("DSC101", None), ("DSC102", None)]


def _misspelt(section: str, above: KeyPath = ()) -> Iterator[KeyPath]:
    """A slip in each integer key of a strict section, and of the sections in it."""
    for word, key in section_view_of_release(section, NUMBERS["0.19.8"]).keys.items():
        if (inner := child_section(key.type)) is not None:
            yield from _misspelt(inner, (*above, word))
        elif key.type[0] == "int" and len(word) > 6:
            yield (*above, word[: len(word) // 2] + word[len(word) // 2 + 1 :])


def _fixes(path: KeyPath, number: str, consumer: str) -> list[str]:
    text = number
    for part in reversed(path):
        text = f'{{"{part}": {text}}}'
    report = check(text, target="0.19.8", consumer=consumer)
    return [each.fix.title for each in report if each.path == path and each.fix]


@pytest.mark.parametrize("consumer", ["deepspeed", "transformers", "accelerate", "lightning"])
def test_a_typo_has_a_fix_for_integers_and_floats_alike(consumer: str) -> None:
    """`json.load` reads `1e6` as a float, hjson as an integer; DeepSpeed takes the same number either way."""
    paths = list(_misspelt("ZeroOptimization", ("zero_optimization",)))
    assert ("zero_optimization", "reduce_buket_size") in paths
    for path in paths:
        wanted = _fixes(path, "1000000", consumer)
        assert [_fixes(path, number, consumer) for number in ("1e6", "1000000.0")] == [wanted, wanted], path
