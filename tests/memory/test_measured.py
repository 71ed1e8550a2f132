"""Estimates beside what real DeepSpeed engines were seen to hold (from `tests.parity.memory --write`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig.memory.models.from_hf_config import FAMILIES
from dsconfig.memory.verdict import NotModelledError
from tests.memory.recorded_engines import (
    changed_terms,
    differences,
    expected,
    name_of,
    recorded,
    terms_of,
)
from tests.parity.judges.memory import predict, sent, simulated

MEASURED = recorded()
STOPPED = [
    json.loads(line) for line in (Path(__file__).parent / "stopped.jsonl").read_text("utf-8").splitlines()
]
EXPECTED = expected()
UPDATE = "if the change is intended, run `python -m tests.memory.recorded_engines`"


def test_every_stage_type_and_family_is_there() -> None:
    configs = [case["trial"]["config"] for case in MEASURED]
    assert {config["zero_optimization"]["stage"] for config in configs} == {0, 1, 2, 3}
    kinds = {case["trial"]["model"]["kind"] for case in MEASURED}
    # Transformers has none of these classes, and Kimi K2 is a DeepSeek V3.
    assert kinds == {*FAMILIES, "plain"} - {"internlm2", "internlm3", "kimi_k2", "minicpm", "qwen"}
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


@pytest.mark.parametrize("case", MEASURED, ids=map(name_of, MEASURED))
def test_every_term_of_a_recorded_engine_is_as_expected(case: dict[str, Any]) -> None:
    changed = list(changed_terms(EXPECTED[name_of(case)].terms, terms_of(case)))
    assert not changed, "\n".join([f"estimate of {name_of(case)}", *changed, UPDATE])


@pytest.mark.parametrize("case", MEASURED, ids=map(name_of, MEASURED))
def test_estimates_agree_with_recorded_engines(case: dict[str, Any]) -> None:
    trial, seen = case["trial"], case["measured"]
    prediction = predict(trial, case["release"])
    assert prediction.parameters == seen["parameters"]
    off = differences(case, EXPECTED[name_of(case)].terms)
    assert off == EXPECTED[name_of(case)].off
    # Engines of some hundred bytes more hold the optimizer's step counters.
    assert prediction.at_rest == pytest.approx(seen["at_rest"], rel=0.001, abs=1000)
    for phase, count in seen["peak"].items():
        assert prediction.peak[phase] - count == off[phase], phase
        assert count <= prediction.bound[phase] * 1.01, phase
    if trial["world_size"] > 1:
        assert prediction.calls == sent(seen)


def test_most_recorded_engines_are_estimated_to_the_byte() -> None:
    """At rest within 1 kB (the optimizer counts its steps), and 9 of 10 peaks within 1 %."""
    offs = [(case, EXPECTED[name_of(case)].off) for case in MEASURED]
    at_rest = sorted(abs(off["at rest"]) for _, off in offs)
    assert at_rest[len(at_rest) * 9 // 10] < 1000
    peaks = sorted(
        abs(off[phase]) / count for case, off in offs for phase, count in case["measured"]["peak"].items()
    )
    assert peaks[len(peaks) * 9 // 10] < 0.01


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
