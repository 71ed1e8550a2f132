"""A config resolved for 0.19.8 starts a real engine of 0.19.8 on CPU and trains with the promised triplet."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import dsconfig
from tests.parity import environment
from tests.parity.judges import ranks

RELEASE = "0.19.8"
BASE: dict[str, Any] = {
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
    "zero_optimization": {"stage": 1},
}
ELASTIC: dict[str, Any] = {
    "elasticity": {
        "enabled": True,
        "max_train_batch_size": 24,
        "micro_batch_sizes": [2, 3],
        "version": 0.1,
        "ignore_non_elastic_batch_info": True,
    },
    "train_batch_size": 7,
}
NODES: dict[str, Any] = {
    "elasticity": {
        "enabled": True,
        "max_train_batch_size": 16,
        "micro_batch_sizes": [1, 2],
        "version": 0.2,
        "num_gpus_per_node": 1,
    }
}


@pytest.fixture(autouse=True)
def needs_environment() -> None:
    if not os.environ.get("DSCONFIG_PARITY_ENGINE"):
        pytest.skip(
            "starts real engines, which takes a minute: `make parity` does, with DSCONFIG_PARITY_ENGINE=1"
        )
    if RELEASE not in environment.available():
        pytest.skip(f"DeepSpeed {RELEASE} is not built here: `make parity` builds it")


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("part", [ELASTIC, NODES, {"train_batch_size": 8}], ids=["v0.1", "v0.2", "plain"])
def test_engine_trains_with_the_promised_triplet(
    part: dict[str, Any], world_size: int, tmp_path: Path
) -> None:
    run = dsconfig.resolve({**BASE, **part}, world_size=world_size, target=RELEASE)
    assert run.check().ok
    config = tmp_path / "resolved.json"
    config.write_text(json.dumps(run.config))
    batch, micro, steps = run.triplet
    for rank, said in enumerate(train(config, world_size)):
        assert said == {
            "triplet": [batch, micro, steps],
            "world_size": world_size,
            "passes": 2 * steps,
            "samples": 2 * batch,
            "finite": True,
            "rank": rank,
        }


def train(config: Path, world_size: int) -> list[dict[str, Any]]:
    """What each rank said at the end."""
    ended = ranks.run(RELEASE, "engine_rank.py", config, world_size)
    for rank in ended:
        assert rank.code == 0, rank.complaint[-3000:]
    return [json.loads(rank.out.splitlines()[-1]) for rank in ended]
