"""`dsconfig memory --fit` and `--max`: changes that are enough, none too many, and the largest that fits."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Runs
from tests.cli.estimates import config_of, estimate
from tests.cli.test_memory import CONFIG, GIB, RUN, estimated

pytestmark = pytest.mark.usefixtures("ds_json")


def bound(run: Runs, *argv: str) -> int:
    return int(max(estimated(run, *argv)["rank"]["bound"].values()))


def settings(changes: list[dict[str, Any]]) -> list[str]:
    words = []
    for change in changes:
        words += [f"--set={key}={json.dumps(value)}" for key, value in change["set"].items()]
        words += ["--checkpointing"] if change["checkpointing"] else []
        words += ["--expandable-segments"] if change["expandable_segments"] else []
    return words


@pytest.mark.parametrize("room", [150, 90, 60, 45, 30, 20])
def test_changes_that_fit_are_enough_and_none_of_them_is_too_much(run: Runs, room: int) -> None:
    options = ("--set", "train_micro_batch_size_per_gpu=4", "--sequence-length", "1024")
    code, out, _ = run(*RUN, *options, "--fit", f"{room}GiB", "--margin", "0GiB", "--output-format", "json")
    fit = json.loads(out)["fit"]
    assert (code, fit["fits"]) == (0, True)
    changes = fit["changes"]
    assert bound(run, *options, *settings(changes)) <= room * GIB
    for left_out in changes:
        fewer = [change for change in changes if change is not left_out]
        assert bound(run, *options, *settings(fewer)) > room * GIB


def test_what_fits_as_it_is_and_what_never_does(run: Runs) -> None:
    fits = run(*RUN, "--sequence-length", "2048", "--fit", "2TiB").out
    assert re.fullmatch(
        r"fits 2048.00 GiB without changes; [\d.]+ to [\d.]+ GiB expected in nvidia-smi\n", fits
    )
    headroom = run(*RUN, "--sequence-length", "2048", "--fit", "2TiB", "--margin", "1GiB").out
    assert headroom == "fits 2048.00 GiB without changes, with 1.00 GiB headroom\n"
    code, out, _ = run(*RUN, "--sequence-length", "2048", "--fit", "40b")
    assert (code, "does not fit 40 bytes with all these changes; " in out) == (1, True)
    assert "does not fit 40 bytes with all these changes; " in run(*RUN, "--fit", "40b").out


def test_the_search_and_the_estimate_have_one_verdict(run: Runs, here: Path) -> None:
    """What only fits with a part of its cached blocks released is tight in both."""
    job = (*RUN, "--sequence-length", "2048", "--checkpointing", "--zero-init")
    for size in ("14GiB", "20GiB", "26GiB", "32GiB"):
        fit = json.loads(run(*job, "--fit", size, "-o", "out.json", "--output-format", "json").out)["fit"]
        in_environment = [word for word in settings(fit["changes"]) if word == "--expandable-segments"]
        asked = (*job[2:], *in_environment, "--gpu", size, "--output-format", "json")
        code, out, _ = run("memory", "out.json", *asked)
        assert (fit["verdict"], code) == ("fits", 0)
        assert json.loads(out)["limits"]["gpu_verdict"] == "fits"


def test_no_change_meets_a_known_defect_of_the_release(run: Runs, here: Path) -> None:
    """Releases from 0.15.2 on lose micro-batches at stages 1 and 2 with an offloaded optimizer."""
    config = config_of(1)
    (here / "ds.json").write_text(json.dumps({**config, "gradient_accumulation_steps": 4}))
    job = (*RUN, "--sequence-length", "2048", "--target", "0.16.9", "--fit", "26GiB", "-o", "out.json")
    assert run(*job).code == 0
    found = json.loads(run("check", "out.json", "--target", "0.16.9", "--output-format", "json").out)
    assert not {each["code"] for each in found["files"][0]["diagnostics"]} & {"DSC880", "DSC881"}


@pytest.mark.parametrize("host", [200, 120, 90])
def test_what_is_offloaded_fits_the_host_as_well(run: Runs, here: Path, host: int) -> None:
    limits = ("--fit", "12GiB", "--host", f"{host}GiB", "--margin", "0GiB", "--zero-init")
    code, out, _ = run(*RUN, *limits, "-o", "out.json", "--output-format", "json")
    changes = json.loads(out)["fit"]["changes"]
    assert (code, changes[-1]["host_bound"] <= host * GIB) == (0, True)
    checks = ["--checkpointing"] * any(change["checkpointing"] for change in changes)
    after = ("memory", "out.json", *RUN[2:], "--zero-init", "--margin", "0GiB", *checks)
    assert run(*after, "--gpu", "12GiB", "--host", f"{host}GiB").code == 0
    assert run("check", "out.json").code == 0


def test_it_says_of_the_host_that_it_is_too_small(run: Runs) -> None:
    for host in ("12GiB", "0"):
        code, out, _ = run(*RUN, "--fit", "12GiB", "--host", host, "--margin", "0GiB", "--zero-init")
        assert (code, "the host needs up to " in out) == (1, True)


def test_a_part_that_no_buffer_holds_is_refused(run: Runs) -> None:
    drive = '{"device": "nvme", "nvme_path": "/x", "buffer_size": 1000000}'
    stage = ("--set", "zero_optimization.stage=3", "--set", f"zero_optimization.offload_param={drive}")
    code, _, err = run(*RUN, *stage)
    assert (code, "`zero_optimization.offload_param.buffer_size` is 1,000,000" in err) == (2, True)


def test_the_config_is_written_with_the_changes(run: Runs, here: Path) -> None:
    code, out, _ = run(*RUN, "--fit", "24GiB", "-o", "out.json")
    assert (code, "fits 24.00 GiB with these changes" in out) == (0, True)
    changed = ("memory", "out.json", *RUN[2:])
    assert run(*changed, "--checkpointing", "--gpu", "24GiB", "--margin", "2.75GiB").code == 0
    assert json.loads((here / "out.json").read_text())["bf16"] == CONFIG["bf16"]
    assert run(*RUN, "-o", "out.json").code == 2


@pytest.mark.parametrize(
    ("kind", "option"), [("micro-batch", "--micro-batch"), ("sequence", "--sequence-length")]
)
def test_the_largest_fits_and_one_more_does_not(run: Runs, kind: str, option: str) -> None:
    code, out, _ = run(*RUN, "--gpu", "78GiB", "--margin", "0GiB", "--max", kind, "--output-format", "json")
    result = json.loads(out)["max"]
    assert code == 0
    assert bound(run, option, str(result["value"])) == result["bound"] <= 78 * GIB
    assert bound(run, option, str(result["value"] + 1)) == result["next_bound"] > 78 * GIB


@pytest.mark.parametrize("room", [12, 6])
def test_each_line_has_an_effect(run: Runs, room: int) -> None:
    """A change without an effect of its own is printed with the change that it belongs to, or not at all."""
    host = ("--host", "160GiB", "--output-format", "json")
    wide = ("--model", "llama-3-8b", *RUN[4:])
    fit = json.loads(run("memory", "ds.json", *wide, "--fit", f"{room}GiB", *host).out)["fit"]
    bounds = [(change["bound"], change["host_bound"]) for change in fit["changes"]]
    assert len(bounds) > 3
    assert all(before != after for before, after in pairwise(bounds))


ARGUMENTS = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "bf16": True}


def filled(run: Runs, micro: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The config that `--fit` writes, and the arguments that it asks for, where the Trainer fills "auto"."""
    config = CONFIG | {"train_micro_batch_size_per_gpu": micro, "gradient_accumulation_steps": "auto"}
    Path("auto.json").write_text(json.dumps(config))
    Path("args.json").write_text(json.dumps(ARGUMENTS))
    options = ("--training-args", "args.json", "--consumer", "transformers", "--sequence-length", "8192")
    argv = ("memory", "auto.json", *RUN[2:], *options)
    code, out, _ = run(*argv, "--fit", "60GiB", "-o", "out.json", "--output-format", "json")
    changes = json.loads(out)["fit"]["changes"]
    arguments = dict(ARGUMENTS)
    for change in changes:
        arguments |= change["arguments"]
    Path("args.json").write_text(json.dumps(arguments))
    checks = ["--checkpointing"] * any(change["checkpointing"] for change in changes)
    again = ("memory", "out.json", *argv[2:], *checks)
    after = estimate(run, *again)
    assert (code, after["expected"]["needed"]) == (0, changes[-1]["bound"])
    return json.loads(Path("out.json").read_text()), arguments


def test_what_arguments_fill_changes_in_the_arguments(run: Runs, here: Path) -> None:
    """The Trainer refuses a batch that is written and differs from its arguments."""
    config, arguments = filled(run, "auto")
    assert config["train_micro_batch_size_per_gpu"] == config["gradient_accumulation_steps"] == "auto"
    micro, steps = arguments["per_device_train_batch_size"], arguments["gradient_accumulation_steps"]
    assert micro < 8
    assert micro * steps == 16
    config, arguments = filled(run, 8)
    assert config["train_micro_batch_size_per_gpu"] == arguments["per_device_train_batch_size"] < 8
