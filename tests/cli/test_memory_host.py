"""`memory --host` and `check --host-memory` judge a host by the same estimate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Runs
from tests.cli.estimates import config_of, estimate

OFF = {"device": "cpu", "pin_memory": True}
NVME = {"device": "nvme", "nvme_path": "/local_nvme"}
CONFIGS: dict[str, dict[str, Any]] = {
    "stage 2": config_of(2),
    "stage 2, offloaded": config_of(2, offload_optimizer={"device": "cpu"}),
    "stage 1, pinned": config_of(1, offload_optimizer=OFF),
    "accumulating": {**config_of(2, offload_optimizer=OFF), "gradient_accumulation_steps": 4},
    "stage 3, all offloaded": config_of(3, offload_optimizer=OFF, offload_param=OFF),
    "stage 3, parameters": config_of(3, offload_param=OFF),
    "stage 3": config_of(3),
    "a drive": config_of(3, offload_optimizer=NVME, offload_param={**NVME, "buffer_size": 2e8}),
    "the script's optimizer": {
        key: value for key, value in config_of(2, offload_optimizer=OFF).items() if key != "optimizer"
    },
    "Accelerate's": {**config_of(3, offload_optimizer=OFF), "train_micro_batch_size_per_gpu": "auto"},
}
MODEL = ("--model", "qwen2.5-7b", "--world-size", "4")
GIB = 1 << 30


@pytest.mark.parametrize("target", ["0.16.4", "0.18.9", "0.19.8"])
@pytest.mark.parametrize("name", CONFIGS)
def test_check_finds_a_host_too_small_exactly_where_memory_says_so(
    run: Runs, here: Path, name: str, target: str
) -> None:
    (here / "ds.json").write_text(json.dumps(CONFIGS[name]))
    arguments = ("ds.json", *MODEL, "--target", target)
    reader = ("--consumer", "accelerate") if name.startswith("Accelerate") else ()
    memory = ("memory", *arguments, *reader, "--micro-batch", "1")
    bounds = estimate(run, *memory)["host"]["bound"]
    sizes = {
        GIB,
        *(round(share * count) + GIB for count in bounds.values() for share in (0.7, 0.9, 0.98, 1.1)),
    }
    verdicts = set()
    for size in sorted(sizes):
        result = estimate(run, *memory, "--host", str(size), codes=(0, 1, 2))["limits"]["host_verdict"]
        out = run("check", *arguments, *reader, "--host-memory", str(size)).out
        assert ("DSC409" in out) is (result == "does not fit")
        assert ("depends on the script (the initial model copy: " in out) is (result == "unknown")
        verdicts.add(result)
    assert "fits" in verdicts
    assert len(verdicts) > 1


def test_how_a_script_builds_its_model_is_no_reason_to_call_a_host_too_small(run: Runs, here: Path) -> None:
    (here / "ds.json").write_text(json.dumps(CONFIGS["stage 2"]))
    code, out, _ = run("memory", "ds.json", *MODEL, "--target", "0.19.8", "--host", "100GiB")
    assert code == 2
    assert "\nUnknown: needs " in out
    assert (
        "\nthe initial model copy: the script may build the model in half precision, or never on the host\n"
        in out
    )
