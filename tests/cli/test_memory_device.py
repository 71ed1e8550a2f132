"""What `nvidia-smi` is expected to show, and the verdict in the first line with the assumption that decides it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig.memory.caching_allocator import MIB
from dsconfig.memory.device_overhead import DeviceOverhead, DeviceUsage
from tests.cli.conftest import Runs
from tests.cli.estimates import config_of, estimate

CONFIG = config_of(2)
GIVEN = ("--sequence-length", "2048", "--no-checkpointing")
RUN = ("memory", "ds.json", "--model", "llama-2-7b", "--world-size", "8", "--target", "0.19.8")

pytestmark = pytest.mark.usefixtures("ds_json")


def test_the_expected_usage_contains_allocated_cached_and_foreign_memory(run: Runs) -> None:
    result = estimate(run, *RUN, *GIVEN)
    expected, highest = result["expected"], max(result["rank"]["peak"].values())
    assert expected["allocated"] == highest
    assert [term["name"] for term in expected["overheads"]] == ["CUDA context", "NCCL buffers", "workspaces"]
    assert highest < expected["low"] < expected["high"]
    assert expected["allocated"] <= expected["reserved_expandable"] <= expected["reserved"]


def test_one_gpu_has_no_nccl_buffers(run: Runs) -> None:
    single = estimate(run, *RUN[:4], "--world-size", "1", *GIVEN)["expected"]["overheads"]
    assert [term["name"] for term in single] == ["CUDA context", "workspaces"]


@pytest.mark.parametrize(
    ("options", "code", "first", "second"),
    [
        (GIVEN, 0, "Fits: ", ""),
        (
            (),
            2,
            "Tight: ",
            "it fits with what is assumed below, but the sequence length decides: it is not given; pass",
        ),
        ((*GIVEN, "--gpu", "38GiB"), 2, "Tight: ", "the expected range exceeds the GPU"),
        ((*GIVEN, "--gpu", "30GiB"), 1, "Does NOT fit: ", ""),
        (("--sequence-length", "2048", "--gpu", "30GiB"), 2, "Tight: ", "activation checkpointing decides"),
    ],
)
def test_the_first_line_is_the_verdict_and_the_second_what_decides(
    run: Runs, options: tuple[str, ...], code: int, first: str, second: str
) -> None:
    result = run(*RUN, "--gpu", "h100", *options)
    lines = result.out.splitlines()
    assert (result.code, lines[0].startswith(first)) == (code, True), result.out
    assert lines[1].startswith(second)
    assert "expected in nvidia-smi" in lines[0]


def test_fragmentation_can_exhaust_a_gpu_that_holds_all_tensors() -> None:
    """A small block keeps a segment of 64 MiB, so that 70 MiB need another one; a segment that grows has room."""
    sizes = (("x", 64), ("x", -64), ("y", 2), ("z", 70), ("y", -2), ("z", -70))
    events = [(name, size * MIB) for name, size in sizes]
    usage = DeviceUsage(72 * MIB, 72 * MIB, (DeviceOverhead("CUDA context", 0, 10 * MIB, ""),), [], events)
    assert not usage.fits_despite_fragmentation(110 * MIB)
    assert usage.fits_despite_fragmentation(110 * MIB, expandable=True)
    assert usage.fits_despite_fragmentation(150 * MIB)
    assert usage.low() == usage.allocated + usage.cached_at_least
    assert usage.low(72 * MIB) == usage.allocated
    assert usage.high() == usage.unlimited.reserved + 10 * MIB


def test_a_model_that_fits_by_states_alone_is_not_known_to_fit(run: Runs) -> None:
    result = run("memory", "ds.json", "--params", "7B", "--world-size", "8", "--gpu", "h100")
    assert (result.code, result.out.startswith("Unknown: ")) == (2, True)
    assert "only model states are estimated" in result.out
    larger = run("memory", "ds.json", "--params", "70B", "--world-size", "8", "--gpu", "h100")
    assert (larger.code, larger.out.startswith("Does NOT fit: ")) == (1, True)


def test_expandable_segments_cache_less(run: Runs) -> None:
    plain, expandable = (estimate(run, *RUN, *more)["expected"] for more in ((), ("--expandable-segments",)))
    assert expandable["high"] < plain["high"]
    assert (expandable["low"], expandable["reserved"]) == (plain["low"], plain["reserved_expandable"])


def test_the_environment_of_a_launch_file_sets_expandable_segments(run: Runs, here: Path) -> None:
    flags = "--deepspeed ds.json --model_name_or_path llama-3-8b --bf16 True --per_device_train_batch_size 1"
    command = f"deepspeed --num_gpus 8 train.py {flags}"
    (here / "train.py").write_text("from transformers import Trainer\n")
    (here / "ds.json").write_text(json.dumps({key: CONFIG[key] for key in CONFIG if key != "optimizer"}))
    for prefix, is_set in (("", False), ("PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True' ", True)):
        (here / "run.sh").write_text(f"{prefix}{command}\n")
        assumptions = estimate(run, "memory", "run.sh", "--world-size", "8")["assumptions"]
        assert ("torch's allocator has `expandable_segments`" in assumptions) is is_set


def test_the_cheapest_change_is_expandable_segments(run: Runs) -> None:
    expected = estimate(run, *RUN)["expected"]
    room = (expected["high"] + expected["needed"]) // 2
    out = run(*RUN, "--fit", str(room)).out
    assert out.startswith("set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` in the environment: ")
