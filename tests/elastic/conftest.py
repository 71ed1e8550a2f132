"""Shared blocks and strategies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from tests.parity.generators.elastic_blocks import PUBLISHED


def whole(block: dict[str, Any], **other: Any) -> dict[str, Any]:
    """A DeepSpeed config around an enabled block."""
    return {**other, "elasticity": {"enabled": True, **block}}


def published(**changes: Any) -> dict[str, Any]:
    """The block that DeepSpeed's own tests publish."""
    return whole({**PUBLISHED, **changes})


@st.composite
def strict_configs(draw: st.DrawFn) -> dict[str, Any]:
    """Configs that `plan` reads without complaint, v0.1 and v0.2, most with at least one world size."""
    cap = draw(st.integers(64, 20000))
    least = draw(st.integers(1, 16))
    block: dict[str, Any] = {
        "max_train_batch_size": cap,
        "micro_batch_sizes": draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)),
        "min_gpus": least,
        "max_gpus": least + draw(st.integers(16, 5000)),
        "prefer_larger_batch": draw(st.booleans()),
        "version": draw(st.sampled_from((0.1, 0.2))),
    }
    if block["version"] == 0.2:
        model = draw(st.sampled_from((1, 2, 4)))
        block |= {"model_parallel_size": model, "num_gpus_per_node": model * draw(st.sampled_from((1, 2, 4)))}
    return whole(block)


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests set what a launcher or scheduler would; nothing comes from outside."""
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.delenv("DEEPSPEED_ELASTICITY_CONFIG", raising=False)
