"""The example with a real engine of DeepSpeed 0.19.8: ZeRO-1 on CPU gains and loses a process and goes on."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.cluster import ROOT, Process, free_port, wait_until
from tests.parity import environment

RELEASE = "0.19.8"
EXAMPLE = ROOT / "examples" / "elastic"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Process]]:
    if RELEASE not in environment.available():
        pytest.skip(f"DeepSpeed {RELEASE} is not built here: `make parity` builds it")
    nodes: list[Process] = []
    yield nodes
    for node in nodes:
        node.end()


@pytest.mark.usefixtures("processes")
def test_example(started: list[Process], tmp_path: Path) -> None:
    endpoint = f"127.0.0.1:{free_port()}"
    command = [str(environment.python()), "-m", "dsconfig", "elastic", "run", "--nnodes", "1:4"]
    command += ["--rdzv-endpoint", endpoint, str(EXAMPLE / "ds_config.json"), str(EXAMPLE / "train.py")]
    command += ["--checkpoints", str(tmp_path / "out"), "--steps", "60", "--pause", "0.2"]
    variables = {
        "PYTHONPATH": f"{environment.import_path(RELEASE)}:{ROOT}",
        "TORCH_EXTENSIONS_DIR": str(environment.home() / "extensions"),
        "PATH": f"{environment.python().parent}:/usr/bin:/bin",
    }

    def start() -> Process:
        started.append(Process(command, tmp_path / f"node-{len(started)}.log", variables))
        return started[-1]

    first = start()
    wait_until(lambda: "step 10 of" in first.text(), 300, f"step 10\n{first.text()[-2000:]}")
    second = start()
    wait_until(lambda: "round 2: step" in first.text(), 120, "a step of both")
    second.signal(signal.SIGKILL, workers=True)
    assert first.wait(150) == 0
    said = re.findall(r"round (\d+): rank 0 of (\d+) goes on at step (\d+)", first.text())
    assert [(round_, world) for round_, world, _ in said] == [("1", "1"), ("2", "2"), ("3", "1")]
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", first.text())]
    steps = [int(step) for step in re.findall(r": step (\d+) of", first.text())]
    assert set(range(10, 61, 10)) <= set(steps)
    last_alone = max(int(step) for step in re.findall(r"round 1: step (\d+) of", first.text()))
    assert int(said[1][2]) == last_alone, "two go on where one had saved for them"
    assert losses[-1] < losses[0]
