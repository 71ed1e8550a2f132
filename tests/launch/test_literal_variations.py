"""Each way to build a dict in a program leads to the same diagnostics as the dict itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dsconfig import check
from tests.parity.literals import CALL, VARIATIONS

CONFIG: dict[str, Any] = {
    "train_batch_size": 30,
    "train_micro_batch_size_per_gpu": 4,
    "zero_optimization": {"stage": 2, "overlap_com": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
    "fp16": {"enabled": True, "loss_scale": -1},
}


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize("variation", VARIATIONS)
def test_same_diagnostics(variation: Callable[[dict[str, Any], Random], str]) -> None:
    expected = sorted((each.code, each.path) for each in check(CONFIG, target="0.19.8", world_size=4))
    assert expected
    for seed in range(3):
        Path("train.py").write_text(variation(CONFIG, Random(seed)) + CALL)
        report = check("train.py", target="0.19.8", world_size=4)
        assert sorted((each.code, each.path) for each in report) == expected
