"""Every retold thread that was answered once stays answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.threads import HALVES, replay, threads

ALL = [
    pytest.param(thread, id=thread["url"].split(".com/")[1]) for half in HALVES for thread in threads(half)
]


@pytest.mark.parametrize("thread", ALL)
def test_answer(empty_repository: Path, thread: dict[str, Any]) -> None:
    assert replay(thread, empty_repository).verdict == thread.get("verdict", "solved")


@pytest.mark.parametrize("thread", ALL)
def test_entry_is_complete(thread: dict[str, Any]) -> None:
    assert {"url", "question", "answer", "expects"} <= thread.keys()
    assert ("error" in thread) != ({"files", "check", "target"} <= thread.keys())
