"""Estimates beside what real DeepSpeed engines were seen to hold (from `tests.parity.memory --write`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig.memory.models.from_hf_config import FAMILIES
from dsconfig.memory.verdict import NotModelledError
from tests.parity.judges.memory import predict, sent, simulated

FILES = [
    Path(__file__).parent / name
    for name in ("measured.jsonl", "families.jsonl", "tensor.jsonl", "ratio.jsonl")
]
MEASURED = [json.loads(line) for file in FILES for line in file.read_text("utf-8").splitlines()]
STOPPED = [
    json.loads(line) for line in (Path(__file__).parent / "stopped.jsonl").read_text("utf-8").splitlines()
]
SMALL = 1_000_000
"""Bytes that workspaces of a CPU's operations may make out, in models as small as these."""


def test_every_stage_type_and_family_is_there() -> None:
    configs = [case["trial"]["config"] for case in MEASURED]
    assert {config["zero_optimization"]["stage"] for config in configs} == {0, 1, 2, 3}
    kinds = {case["trial"]["model"]["kind"] for case in MEASURED}
    assert kinds == {*FAMILIES, "plain"}
    assert {key for config in configs for key in config} >= {"bf16", "fp16", "torch_autocast", "data_types"}


def test_what_lies_on_a_drive_is_there() -> None:
    sections = [case["trial"]["config"]["zero_optimization"] for case in MEASURED]
    devices = [(name, found[name]["device"]) for found in sections for name in found if "offload" in name]
    assert {("offload_optimizer", "nvme"), ("offload_param", "nvme")} <= set(devices)
    assert {case["release"] for case in MEASURED if "nvme" in case["trial"]["id"]} == {"0.19.8", "0.16.9"}


def test_layers_that_ranks_share_are_there_in_three_releases() -> None:
    found = [case for case in MEASURED if "tensor_parallel" in case["trial"]["config"]]
    assert {case["release"] for case in found} == {"0.19.8", "0.18.9", "0.16.9"}
    assert {case["trial"]["config"]["zero_optimization"]["stage"] for case in found} == {0, 1, 2, 3}


@pytest.mark.parametrize("case", MEASURED, ids=[case["trial"]["id"] for case in MEASURED])
def test_estimates_are_what_engines_hold(case: dict[str, Any]) -> None:
    trial, seen = case["trial"], case["measured"]
    found = predict(trial, case["release"])
    assert found.parameters == seen["parameters"]
    assert found.at_rest == pytest.approx(seen["at_rest"], rel=0.001, abs=1000)
    for phase, count in seen["peak"].items():
        assert found.peak[phase] == pytest.approx(count, rel=0.12, abs=SMALL / 4), phase
        assert count <= found.bound[phase] * 1.01, phase
    if trial["world_size"] > 1:
        assert found.calls == sent(seen)


@pytest.mark.parametrize("case", STOPPED, ids=[case["trial"]["id"] for case in STOPPED])
def test_an_engine_that_stops_is_not_estimated(case: dict[str, Any]) -> None:
    assert case["measured"]["error"]
    with pytest.raises(NotModelledError, match="DeepSpeed stops"):
        predict(case["trial"], case["release"])


@pytest.mark.parametrize("case", MEASURED, ids=[case["trial"]["id"] for case in MEASURED])
def test_nothing_holds_less_than_nothing(case: dict[str, Any]) -> None:
    ledger, _ = simulated(case["trial"], case["release"])
    for peak in ledger.combined.peaks.values():
        assert min(peak.live.values()) >= 0, peak.live
    assert min(ledger.combined.live.values()) >= 0, ledger.combined.live
