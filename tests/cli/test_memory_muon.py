"""`dsconfig memory` with Muon: what it keeps, what it puts together, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Runs
from tests.cli.estimates import config_of, estimate, phases_of

RUN = ("memory", "ds.json", "--model", "llama-2-7b", "--sequence-length", "2048", "--target", "0.19.8")
EMBEDDED = 2 * 32000 * 4096
"""Elements of the two matrices that stay with Adam, by their names."""
NORMS = 65 * 4096


def config(here: Path, stage: int, zero: dict[str, Any] | None = None, **params: Any) -> None:
    muon = {"type": "Muon", "params": {"lr": 1e-3} | params}
    wanted = config_of(stage, **(zero or {})) | {"optimizer": muon}
    (here / "ds.json").write_text(json.dumps(wanted))


def estimated(run: Runs, *argv: str) -> dict[str, Any]:
    return estimate(run, *RUN, *argv)


def term(result: dict[str, Any], name: str, side: str = "rank") -> dict[str, int]:
    return phases_of(result, side)[name]


def test_adam_keeps_two_states_of_names_and_vectors_and_muon_one_of_matrices(run: Runs, here: Path) -> None:
    config(here, 0)
    result = estimated(run, "--world-size", "8")
    rest = EMBEDDED + NORMS
    states = 8 * rest + 4 * (result["parameters"] - rest)
    assert term(result, "optimizer states")["at_rest"] == states


def test_stage_1_keeps_the_momenta_of_whole_matrices_twice(run: Runs, here: Path) -> None:
    config(here, 1)
    result = estimated(run, "--world-size", "1")
    rest = EMBEDDED + NORMS
    states = 8 * rest + 2 * 2 * (result["parameters"] - rest)
    assert term(result, "optimizer states")["at_rest"] == states


def test_what_is_offloaded_is_put_together_on_the_rank(run: Runs, here: Path) -> None:
    config(here, 2, {"offload_optimizer": {"device": "cpu"}})
    result = estimated(run, "--world-size", "8")
    assert term(result, "Muon all-gather buffers")["at_rest"] <= 256 << 20
    assert term(result, "optimizer states", "host")["at_rest"] > 0
    gathered = [call for call in result["communication"]["collectives"] if call["name"] == "all_gather"]
    assert {call["phase"] for call in gathered} == {"step"}
    assert sum(call["calls"] for call in gathered) > 2


@pytest.mark.parametrize(
    ("stage", "zero", "params", "message"),
    [
        (
            3,
            {"reduce_scatter": False, "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme"}},
            {},
            "`zero_optimization.offload_optimizer.device` with Muon is not supported yet",
        ),
        (2, {}, {"per_head_muon": True}, "`optimizer.params.per_head_muon` with Muon is not supported yet"),
    ],
)
def test_what_does_not_go_with_it_is_refused(
    run: Runs, here: Path, stage: int, zero: dict[str, Any], params: dict[str, Any], message: str
) -> None:
    config(here, stage, zero, **params)
    code, out, err = run(*RUN, "--world-size", "8")
    assert (code, out) == (2, "")
    assert message in err


def test_what_deepspeed_refuses_has_no_memory(run: Runs, here: Path) -> None:
    config(here, 3)
    code, out, err = run(*RUN, "--world-size", "8")
    assert (code, out) == (1, "")
    assert "`reduce_scatter` is `true` by default, but Muon at stage 3 requires `false`" in err


@pytest.mark.parametrize(
    ("release", "stage", "message"),
    [
        ("0.17.6", 1, "the optimizer `Muon` is not supported before 0.18.3"),
        ("0.18.9", 3, "the optimizer `Muon` is not supported at stage 3 before 0.19.8"),
        ("0.19.7", 1, "the optimizer `Muon` is not supported from 0.19.0 to 0.19.7"),
    ],
)
def test_other_releases_are_refused(run: Runs, here: Path, release: str, stage: int, message: str) -> None:
    config(here, stage, {"reduce_scatter": False})
    code, _, err = run(*RUN[:-1], release, "--world-size", "8")
    assert code == 2
    assert message in err


def test_up_to_0_18_momenta_are_kept_once_and_stage_0_has_none(run: Runs, here: Path) -> None:
    rest = EMBEDDED + NORMS
    for stage, width in ((0, 0), (1, 2)):
        config(here, stage)
        result = estimated(run, "--world-size", "1", "--target", "0.18.9")
        states = 8 * rest + width * (result["parameters"] - rest)
        assert term(result, "optimizer states")["at_rest"] == states


def test_fit_goes_to_stage_3_without_reduce_scatter(run: Runs, here: Path) -> None:
    config(here, 2)
    code, out, _ = run(*RUN, "--world-size", "8", "--fit", "20GiB")
    assert code == 0
    assert (
        "set `zero_optimization.stage` to 3 and set `zero_optimization.reduce_scatter` to false: up to" in out
    )
    assert "fits 20.00 GiB with these changes" in out


def test_fit_makes_groups_of_matrices_small_where_they_are_offloaded(run: Runs, here: Path) -> None:
    config(here, 3, {"reduce_scatter": False, "offload_optimizer": {"device": "cpu"}})
    code, out, _ = run(*RUN, "--world-size", "8", "--fit", "40GiB")
    assert code == 0
    assert "set `zero_optimization.sub_group_size` to" in out


def test_the_largest_micro_batch_is_found(run: Runs, here: Path) -> None:
    config(here, 2)
    code, out, _ = run(*RUN, "--world-size", "8", "--max", "micro-batch", "--gpu", "80GiB")
    assert code == 0
    assert "fits 80.00 GiB" in out
