"""What torch rounds where memory of the host is pinned (no engine on a CPU pins any)."""

from __future__ import annotations

from typing import Any

import pytest

import dsconfig

BASE: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 1,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
}
GIB = 1 << 30
TERM = "pinned memory rounding"


def rounded(section: dict[str, Any], target: str = "0.19.8", **options: Any) -> int:
    found = dsconfig.memory(
        {**BASE, "zero_optimization": section}, model="llama-3-8b", world_size=1, target=target, **options
    )
    return sum(term.bytes for term in found.host.terms if term.name == TERM)


def test_a_block_takes_the_next_power_of_two() -> None:
    parameters, largest = 8_030_261_248, 128_256 * 4096
    section = {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": True}}
    # masters and their gradients take 32 GiB each, half-precision weights 16, the largest gradient 1
    assert rounded(section) == 2 * (32 * GIB - 4 * parameters) + 16 * GIB - 2 * parameters + GIB - 2 * largest


def test_nothing_is_rounded_that_is_not_pinned() -> None:
    section = {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": False}}
    assert rounded(section) == 0
    assert rounded({**section, "stage": 3}) == 0


def test_newer_releases_pin_where_nothing_is_said() -> None:
    section = {"stage": 3, "offload_optimizer": {"device": "cpu"}}
    assert rounded(section, "0.18.9") == 0
    assert rounded(section) > 3 * GIB


def test_releases_before_0_18_3_pin_masters_whatever_the_config_says() -> None:
    section = {"stage": 2, "offload_optimizer": {"device": "cpu"}}
    assert rounded(section, "0.17.6") == 32 * GIB - 4 * 8_030_261_248


@pytest.mark.parametrize("pins", [False, True])
def test_offloaded_parameters_are_always_pinned(pins: bool) -> None:
    section = {"stage": 3, "offload_param": {"device": "cpu", "pin_memory": pins}}
    flat = 16 * GIB - 2 * 8_030_261_248
    assert rounded(section) == flat
    built = rounded(section, zero_init=True)
    assert built > 16 * GIB if pins else built == flat
