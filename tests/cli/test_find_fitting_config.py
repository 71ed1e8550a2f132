"""`dsconfig init --model`: what it writes is what `check` accepts and `memory` says fits, by the same numbers."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dsconfig.cli.find_fitting_config import detect_local_gpus

from .conftest import Runs

TARGET = ("--target", "0.19.8")
CONSUMERS = ("deepspeed", "transformers", "accelerate", "lightning")
JOBS = {
    "plenty": ("llama-3-8b", "8", "h100"),
    "offload": ("llama-3-8b", "2", "t4"),  # without bfloat16, too
    "one": ("gpt2", "1", "16GB"),
}


def planned(run: Runs, job: str, *options: str) -> tuple[int, str]:
    model, size, gpu = JOBS[job]
    code, out, err = run("init", "--model", model, "--world-size", size, "--gpu", gpu, *TARGET, *options)
    assert not err
    return code, out


@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.parametrize("job", JOBS)
def test_memory_says_that_it_fits_and_check_finds_nothing(
    here: Path, run: Runs, job: str, consumer: str
) -> None:
    code, out = planned(run, job, "--consumer", consumer)
    assert code == 0
    (needed,) = re.findall(r"^- Micro batch \d+ needs ([\d.]+) GiB per GPU", out, re.MULTILINE)
    (again,) = re.findall(r"^check it again: dsconfig (.+)$", out, re.MULTILINE)
    result = run(*shlex.split(again), *TARGET)
    assert result.code == 0, result
    assert re.match(rf"Fits: [\d.]+ to {re.escape(needed)} GiB expected in nvidia-smi; ", result.out)
    assert (
        run("check", "ds_config.json", "--model", JOBS[job][0], "--world-size", JOBS[job][1], *TARGET).code
        == 0
    )
    script = (here / "launch.sh").read_text()
    subprocess.run(["sh", "-n", "launch.sh"], cwd=here, check=True)
    assert f"up to {needed} GiB per GPU" in script
    if consumer != "lightning":  # it takes the config in Python
        assert run("check", "launch.sh", *TARGET).code == 0
    assert ("fp16" in json.loads((here / "ds_config.json").read_text())) == (job != "plenty")


def test_levels_are_tried_from_the_fastest_on(here: Path, run: Runs) -> None:
    code, out = planned(run, "offload", "--consumer", "transformers", "--host", "1TiB")
    assert code == 0
    tried = [line.split("  ")[1] for line in out.splitlines() if line.startswith("  ")]
    assert tried[:3] == ["ZeRO 2", "ZeRO 2, activation checkpointing", "ZeRO 3"]
    assert out.count("does not fit") + out.count("GiB  tight") == len(tried) - 1
    assert "--fp16 true" in (here / "launch.sh").read_text()
    assert "- fp16, because t4 has no bfloat16.\n" in out
    config = json.loads((here / "ds_config.json").read_text())
    assert config["zero_optimization"]["offload_optimizer"]["device"] == "nvme"


def test_nothing_is_written_where_nothing_fits(here: Path, run: Runs) -> None:
    code, out = planned(run, "offload", "--offload", "none")
    assert code == 1
    assert "No level fits: ZeRO 3, activation checkpointing needs " in out
    ranks = re.search(r"What would help: (\d+) GPUs, --offload auto, --lora ", out)
    assert ranks
    assert not [name for name in os.listdir(here) if not name.startswith(".")]
    assert (
        run(
            "init",
            "--model",
            "llama-3-8b",
            "--world-size",
            ranks[1],
            "--gpu",
            "t4",
            "--offload",
            "none",
            *TARGET,
        ).code
        == 0
    )


def test_a_node_with_too_little_memory_is_no_place_for_offload(run: Runs) -> None:
    code, out = planned(run, "offload", "--host", "32GiB")
    assert code == 1
    assert "fits, but the node needs up to " in out


def test_stdout_gets_only_the_config(here: Path, run: Runs) -> None:
    done = run("init", "-", "--model", "gpt2", "--world-size", "1", "--gpu", "h100", *TARGET)
    assert done.code == 0
    assert json.loads(done.out)["zero_optimization"]["stage"] == 2
    assert "ZeRO 2" in done.err
    assert not (here / "launch.sh").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "gpt2", "--gpu", "h100"], "--world-size is missing, and this machine has no NVIDIA GPU"),
        (["--model", "gpt2"], "--world-size and --gpu are missing, "),
        (["--gpu", "h100"], "--model is missing: "),
        (["--model", "gpt2", "--preset", "zero3"], "--preset and --model exclude each other"),
        (["--model", "no-such-model", "--gpu", "h100", "--world-size", "1"], "unknown model `no-such-model`"),
        (
            ["--model", "gpt2", "--gpu", "h100", "--world-size", "1", "--consumer", "elastic"],
            "expected one of deepspeed, ",
        ),
    ],
)
def test_what_is_missing_is_named(
    here: Path, run: Runs, options: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsconfig.cli.find_fitting_config.detect_local_gpus", lambda: (0, ""))
    code, out, err = run("init", *options, *TARGET)
    assert (code, out) == (2, "")
    assert message in err


def test_existing_files_stay(here: Path, run: Runs) -> None:
    (here / "launch.sh").write_text("mine")
    job = ("--model", "gpt2", "--world-size", "1", "--gpu", "h100", *TARGET)
    assert "launch.sh already exists" in run("init", *job).err
    assert not (here / "ds_config.json").exists()
    assert run("init", *job, "--force").code == 0
    assert (here / "launch.sh").read_text() != "mine"


def test_the_gpus_of_the_machine_are_the_default(
    here: Path, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        (here / "gpus" / f"0000:{number}").mkdir(parents=True)
        (here / "gpus" / f"0000:{number}" / "information").write_text(
            "Model: \t\t NVIDIA A100-SXM4-80GB\nIRQ: 1\n"
        )
    found = detect_local_gpus(str(here / "gpus"))
    assert found == (4, "NVIDIA A100-SXM4-80GB")
    monkeypatch.setattr("dsconfig.cli.find_fitting_config.detect_local_gpus", lambda: found)
    done = run("init", "x.json", "--model", "gpt2", "--yes", *TARGET)
    assert "gpt2 on 4 GPUs (NVIDIA A100-SXM4-80GB) with deepspeed" in done.out
    (here / "gpus" / "0000:0" / "information").write_text("Model: Tesla T4\n")
    assert detect_local_gpus(str(here / "gpus")) == (0, "")
    assert detect_local_gpus(str(here / "none")) == (0, "")


def test_without_a_terminal_nothing_is_asked(here: Path, run: Runs) -> None:
    assert run("init", *TARGET).out == "wrote ds_config.json for DeepSpeed 0.19.8\n"
    assert run("init", "a.json", "--yes", "--consumer", "accelerate", *TARGET).out.startswith("wrote a.json")


# -- On a terminal -----------------------------------------------------------------------------------------


def answered(folder: Path, *answers: str, options: tuple[str, ...] = ()) -> str:
    """Output of `dsconfig init` on a terminal on which these answers are typed."""
    import pty
    import select

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "dsconfig", "init", *TARGET, *options]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env={**os.environ, "COLUMNS": "200"}
    )
    os.close(theirs)
    output, left, end = b"", list(answers), time.monotonic() + 60
    while time.monotonic() < end:
        if not select.select([ours], [], [], 0.1)[0]:
            continue
        try:
            output += os.read(ours, 4096)
        except OSError:  # the process has ended
            break
        if left and output.endswith(b": "):
            os.write(ours, f"{left.pop(0)}\n".encode())
    os.close(ours)
    process.wait(timeout=60)
    return output.decode().replace("\r\n", "\n")


def test_questions_have_defaults_and_are_asked_again(here: Path) -> None:
    out = answered(here, "no-such-model", "gpt2", "transformers", "zero", "2", "h100", "")
    assert "unknown model `no-such-model`" in out
    assert "expected a whole number above 0, got `zero`" in out
    assert "gpt2 on 2 GPUs (h100) with transformers" in out
    assert "torchrun --nproc-per-node 2" in (here / "launch.sh").read_text()


def test_the_questions_fit_80_columns(here: Path) -> None:
    out = answered(here, "gpt2", "deepspeed", "2", "h100", "")
    questions = [line.partition("]: ")[0] for line in out.splitlines() if "]: " in line]
    assert len(questions) >= 2
    assert all(len(question) <= 76 for question in questions), questions


def test_what_is_given_is_not_asked(here: Path) -> None:
    out = answered(
        here, "", options=("--model", "gpt2", "--world-size", "2", "--gpu", "h100", "--offload", "none")
    )
    assert out.count("]: ") == 1
    assert "gpt2 on 2 GPUs (h100) with deepspeed" in out


def test_without_a_model_a_preset_is_written(here: Path) -> None:
    assert answered(here, "").endswith("wrote ds_config.json for DeepSpeed 0.19.8\n")
