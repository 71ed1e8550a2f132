"""Helpers for tests of `dsconfig memory`: configs, the estimate in JSON, and the terms of it."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.conftest import Runs


def config_of(stage: int, **zero: Any) -> dict[str, Any]:
    """A config that trains in bf16 with AdamW, one sample a rank."""
    return {
        "train_micro_batch_size_per_gpu": 1,
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "zero_optimization": {"stage": stage, **zero},
    }


def estimate(run: Runs, *argv: str, codes: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """The estimate, from a command that ends with one of these codes and has nothing to say on stderr."""
    code, out, err = run(*argv, "--output-format", "json")
    assert (code in codes, err) == (True, ""), out
    result: dict[str, Any] = json.loads(out)
    return result


def phases_of(result: dict[str, Any], side: str = "rank") -> dict[str, dict[str, int]]:
    """Bytes by term and phase, of a rank or of a host."""
    return {term["name"]: term["phases"] for term in result[side]["terms"]}
