"""Hands trials to real DeepSpeed engines on CPU (`engine_forks`) and collects what became of them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.parity import environment
from tests.parity.judges import worker

LONGEST_BUILD = 1800.0
OPS = {
    "fused_adam": "FusedAdamBuilder",
    "cpu_adam": "CPUAdamBuilder",
    "cpu_adagrad": "CPUAdagradBuilder",
    "cpu_lion": "CPULionBuilder",
}
"""What engines on a CPU compile as they start, a minute or more each, and how DeepSpeed calls it."""
LIMIT = 180.0
"""Seconds for one trial. Nearly all take one or two; the first that needs an op compiles it."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One config for one engine, and the circumstances: `options` are keys of the worker's trial.

    `steps`, `model` (linear, pipeline), `client_optimizer` (a class of torch.optim), `compile`, `dict` (hand
    it a dict, no file), `fp16` (say that the CPU has it), `variables` (of the process).
    """

    id: str
    config: Any
    options: tuple[tuple[str, Any], ...] = ()

    def line(self) -> str:
        return json.dumps({"id": self.id, "config": self.config} | dict(self.options)) + "\n"


@dataclass(frozen=True, slots=True)
class TrialResult:
    """How far an engine came.

    `phase` is start, initialize, train or done; late or died where no answer came.
    """

    ok: bool | None
    phase: str
    error: str | None
    message: str | None

    @property
    def said(self) -> str:
        """What it raised, on one line."""
        text = f"{self.error}: {self.message}" if self.error else self.message or ""
        return " ".join(text.split())


def run(release: str, trials: Sequence[Trial], workers: int = 2) -> dict[str, TrialResult]:
    """What became of every trial, by its id.

    Raises:
        RuntimeError: DeepSpeed could not be imported.
    """
    free_locks()
    build_ops(release)
    batches = [trials[start::workers] for start in range(workers) if trials[start::workers]]
    with ThreadPoolExecutor(workers) as pool:
        done = pool.map(lambda batch: dict(_batch(release, batch)), batches)
        return {id_: result for results in done for id_, result in results.items()}


def build_ops(release: str) -> None:
    """Compile the ops that are not there yet, before anything waits for them."""
    missing = [name for op, name in OPS.items() if not (extensions() / op / f"{op}.so").exists()]
    if missing and environment.order(release) >= (0, 12):
        trial = Trial("build", {}, (("build", missing), ("limit", LONGEST_BUILD)))
        result = dict(_batch(release, [trial]))["build"]
        if not result.ok:
            raise RuntimeError(f"{', '.join(missing)} cannot be compiled here: {result.said[-500:]}")


def extensions() -> Path:
    """Where the compiled ops are kept."""
    return Path(os.environ.get("TORCH_EXTENSIONS_DIR") or environment.home() / "extensions")


def free_locks() -> None:
    """A build that was cut off leaves its lock behind, and the next one would wait for ever."""
    for lock in extensions().rglob("lock"):
        if time.time() - lock.stat().st_mtime > LONGEST_BUILD:
            lock.unlink(missing_ok=True)


def variables(release: str) -> dict[str, str]:
    """The environment of an engine's process."""
    found = environment.clean_variables(release)
    # PATH: for ninja, which builds the ops.
    return found | {
        "DS_ACCELERATOR": "cpu",
        "TORCH_EXTENSIONS_DIR": str(extensions()),
        "PATH": f"{environment.python().parent}{os.pathsep}{found.get('PATH', '')}",
    }


def _batch(release: str, trials: Sequence[Trial]) -> Iterator[tuple[str, TrialResult]]:
    process = subprocess.Popen(
        worker.command("engine_forks.py", str(LIMIT)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=variables(release),
    )
    answers, complaint = process.communicate("".join(trial.line() for trial in trials))
    yield from _answers(answers.splitlines())
    if process.returncode:
        raise RuntimeError(
            f"engines of DeepSpeed {release} ended with {process.returncode}:\n{complaint[-2000:]}"
        )


def _answers(lines: Iterable[str]) -> Iterator[tuple[str, TrialResult]]:
    for line in lines:
        if line.startswith("="):
            said = json.loads(line[1:])
            yield said["id"], TrialResult(said["ok"], said["phase"], said["error"], said["message"])
