"""A small part of what `python -m tests.fuzz.kill` does."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.kill import COMMAND, Folder, Kill, at_a_moment, duration, every_call, run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes of Unix")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    made = Folder(str(tmp_path), 1)
    made.restore()
    run([*COMMAND[1:], made.path])
    assert made.after(ended=True) == Kill(0, 1, 0, 0, ended=True)
    return made


def harmless(kills: Iterator[Kill]) -> list[Kill]:
    found = list(kills)
    assert {(kill.cut, kill.kept) for kill in found} == {(0, 0)}
    return found


def test_killed_at_each_call_that_writing_makes(folder: Folder) -> None:
    found = harmless(every_call(folder))
    assert len(found) > 20
    assert sum(kill.drafts for kill in found) > 5
    assert {kill.fixed for kill in found} == {0, 1}


def test_killed_at_random_moments(tmp_path: Path, folder: Folder) -> None:
    folder = Folder(folder.path, 4)
    first, end = duration(folder)
    moments = random.Random(0)
    harmless(at_a_moment(folder, moments.uniform(first, end)) for _ in range(4))
