"""The example with a real engine of DeepSpeed 0.19.8: ZeRO on CPU loses and gains a process and goes on."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agent.cluster import PATIENCE, ROOT, Process, wait_until
from tests.parity import environment
from tests.ports import free_port

RELEASE = "0.19.8"
EXAMPLE = ROOT / "examples" / "elastic"
OTHER = os.environ.get("DSCONFIG_ENGINE_PYTHON")
"""An interpreter with another release of torch than the parity suite's; DeepSpeed builds its own for it."""
PYTHON = Path(OTHER).absolute() if OTHER else environment.python()
EXTENSIONS = (PYTHON.parents[1] if OTHER else environment.home()) / "extensions"


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    if RELEASE not in environment.available():
        pytest.skip(f"DeepSpeed {RELEASE} is not built here: `make parity` builds it")
    nodes: list[Process] = []
    variables = {
        "PYTHONPATH": f"{environment.import_path(RELEASE)}:{ROOT}",
        "TORCH_EXTENSIONS_DIR": str(EXTENSIONS),
        "PATH": f"{PYTHON.parent}:/usr/bin:/bin",
    }

    def make(stage: int, nnodes: str, endpoint: str, checkpoints: str, *options: str) -> Process:
        config = tmp_path / f"ds_config-{stage}.json"
        text = (EXAMPLE / "ds_config.json").read_text()
        config.write_text(text.replace('"stage": 2', f'"stage": {stage}'))
        command = [str(PYTHON), "-m", "dsconfig", "elastic", "run", "--nnodes", nnodes]
        command += ["--rdzv-endpoint", endpoint, str(config), str(EXAMPLE / "train.py")]
        command += ["--checkpoints", str(tmp_path / checkpoints), *options]
        nodes.append(Process(command, tmp_path / f"node-{len(nodes)}.log", variables))
        return nodes[-1]

    yield make
    for node in nodes:
        node.end()


def losses(*nodes: Process) -> dict[int, float]:
    """The loss of each step, as it was said last: a step after the last checkpoint is done again."""
    values = re.findall(
        r"round (\d+): step (\d+) of \d+, loss ([\d.]+)", "".join(node.text() for node in nodes)
    )
    ordered = sorted((int(round_), int(step), float(loss)) for round_, step, loss in values)
    return {step: loss for _, step, loss in ordered}


def listens(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("stage", [2, 3])
def test_example(start: Start, stage: int) -> None:
    """ZeRO goes from two ranks to one and back: each step has the loss that it would have had."""
    undisturbed = start(stage, "1", "127.0.0.1:0", "undisturbed", "--steps", "40")
    assert undisturbed.wait(400) == 0, undisturbed.text()[-3000:]
    port = free_port()
    endpoint = f"127.0.0.1:{port}"

    def node() -> Process:
        return start(
            stage, "1:2", endpoint, "out", "--steps", "40", "--every", "5", "--pause", str(0.3 * PATIENCE)
        )

    first = node()
    wait_until(lambda: listens(port), 60, "the first node hosts the store, which must not be lost")
    lost = node()
    wait_until(lambda: "step 7 of" in first.text() + lost.text(), 200, f"step 7\n{first.text()[-2000:]}")
    round_ = max(map(int, re.findall(r"round (\d+): rank \d of 2", first.text())))
    lost.signal(signal.SIGKILL, workers=True)
    alone = f"round {round_ + 1}: rank 0 of 1"
    wait_until(lambda: alone in first.text(), 120, "one goes on")
    wait_until(lambda: f"round {round_ + 1}: step" in first.text(), 120, "and makes a step")
    third = node()
    assert [first.wait(200), third.wait(60)] == [0, 0]
    worlds = re.findall(r"round (\d+): rank \d of (\d)", first.text())
    assert [world for number, world in worlds if int(number) >= round_] == ["2", "1", "2"]
    assert losses(first, lost, third) == pytest.approx(losses(undisturbed), rel=1e-5)
    assert len(losses(first, lost, third)) == 40
