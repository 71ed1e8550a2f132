"""`dsconfig memory` where the optimizer runs in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Runs
from tests.cli.estimates import config_of, estimate, phases_of

pytestmark = pytest.mark.usefixtures("ds_json")
CONFIG = config_of(3, offload_optimizer={"device": "cpu", "pin_memory": False})
RUN = ("memory", "ds.json", "--model", "llama-3-8b", "--world-size", "8")
SUPER = "zero_optimization.offload_optimizer.super_offload"
BUFFER = "SuperOffload gradient buffer"
PINNED = "pinned memory rounding"


def estimated(run: Runs, *argv: str) -> dict[str, Any]:
    return estimate(run, *RUN, "--target", "0.19.8", *argv)


def on_host(result: dict[str, Any]) -> dict[str, int]:
    return {name: phases.get("at_rest", 0) for name, phases in phases_of(result, "host").items()}


def test_superoffload_keeps_a_buffer_for_the_largest_sub_group_of_each_rank(run: Runs) -> None:
    plain = estimated(run)
    more = estimated(run, "--set", f"{SUPER}=true")
    assert more["rank"]["at_rest"] == plain["rank"]["at_rest"]
    shards = on_host(plain)["master weights"]
    assert on_host(more)[BUFFER] == shards == more["host"]["at_rest"] - plain["host"]["at_rest"]
    small = "zero_optimization.sub_group_size=10000000"
    assert on_host(estimated(run, "--set", f"{SUPER}=true", "--set", small))[BUFFER] < shards / 10


def test_gradients_that_it_shares_stay_pinned_as_well(run: Runs) -> None:
    pins = ("--set", "zero_optimization.offload_optimizer.pin_memory=true")
    plain, more = estimated(run, *pins), estimated(run, *pins, "--set", f"{SUPER}=true")
    moved = on_host(plain)["offloaded gradient partition"]
    assert on_host(more)[PINNED] > on_host(plain)[PINNED] + moved


def test_below_stage_3_it_changes_nothing(run: Runs) -> None:
    second = ("--set", "zero_optimization.stage=2")
    plain, more = estimated(run, *second), estimated(run, *second, "--set", f"{SUPER}=true")
    assert (plain["rank"], plain["host"]) == (more["rank"], more["host"])


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        (["zero_optimization.offload_optimizer.device=none"], "without `device` `cpu`"),
        (
            [
                "zero_optimization.offload_optimizer.device=nvme",
                "zero_optimization.offload_optimizer.nvme_path=/n",
            ],
            "without `device` `cpu`",
        ),
    ],
)
def test_what_deepspeed_cannot_run_is_refused_with_the_reason(
    run: Runs, changes: list[str], messages: str
) -> None:
    code, out, err = run(*RUN, *[x for text in (f"{SUPER}=true", *changes) for x in ("--set", text)])
    assert (code, out) == (2, "")
    assert SUPER in err
    assert messages in err
    assert "Traceback" not in err


def test_an_optimizer_of_the_script_must_be_adam(run: Runs, here: Path) -> None:
    bare = {key: value for key, value in CONFIG.items() if key != "optimizer"}
    (here / "ds.json").write_text(json.dumps(bare))
    code, _, err = run(*RUN, "--set", f"{SUPER}=true", "--optimizer", "lion")
    assert code == 2
    assert "with `lion` is not supported yet: its process only runs Adam" in err


@pytest.mark.parametrize("options", [("--fit", "40GiB"), ("--max", "micro-batch", "--gpu", "80GiB")])
def test_fit_and_max_work_with_it(run: Runs, options: tuple[str, ...]) -> None:
    code, out, err = run(*RUN, "--sequence-length", "2048", "--set", f"{SUPER}=true", *options)
    assert (code, err) == (0, ""), out
