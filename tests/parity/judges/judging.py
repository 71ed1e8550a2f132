"""Hands cases to judges in the parity environment, in batches, and collects their verdicts."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from tests.parity import environment
from tests.parity.generators.case import Case
from tests.parity.judges import worker

BATCH = 1500
"""Cases a process judges: importing DeepSpeed costs seconds, a case a millisecond."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one release said of one case; `ok` is None where it did not finish."""

    ok: bool | None
    stage: str
    error: str | None = None
    message: str | None = None
    triplet: tuple[Any, ...] | None = None
    places: tuple[tuple[str, ...], ...] = ()
    raised_at: str = ""
    """The innermost line of DeepSpeed, as `runtime/config.py:239`."""

    @classmethod
    def read(cls, line: dict[str, Any]) -> Verdict:
        """The verdict on a line of the judge."""
        triplet = line["triplet"]
        return cls(
            line["ok"],
            line["stage"],
            line["error"],
            line["message"],
            tuple(triplet) if triplet else None,
            tuple(tuple(place) for place in line["places"]),
            line["raised_at"],
        )


def judge(
    release: str, cases: Sequence[Case], workers: int = 2, program: str = "judge.py"
) -> dict[str, Verdict]:
    """The release's verdict on every case, by the case's id; `program` is the worker that judges."""
    with ThreadPoolExecutor(workers) as pool:
        batches = [cases[start : start + BATCH] for start in range(0, len(cases), BATCH)]
        found = pool.map(lambda batch: _batch(release, batch, program), batches)
        return dict(chain.from_iterable(verdicts.items() for verdicts in found))


def _batch(release: str, cases: Sequence[Case], program: str) -> dict[str, Verdict]:
    """Judges a batch; a case that ends its judge is marked and the rest goes to a new one."""
    verdicts: dict[str, Verdict] = {}
    while left := [case for case in cases if case.id not in verdicts]:
        answers, complaint = _process(release, left, program)
        verdicts.update(answers)
        if not answers and len(left) == len(cases):
            raise RuntimeError(f"DeepSpeed {release} could not be imported:\n{complaint}")
        if len(answers) < len(left):
            verdicts[left[len(answers)].id] = Verdict(None, "config", "Died", complaint[-300:])
    return verdicts


def _process(release: str, cases: Sequence[Case], program: str) -> tuple[dict[str, Verdict], str]:
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        paths = {name: Path(folder) / name for name in ("questions", "answers", "complaints")}
        paths["questions"].write_text("".join(_lines(cases)), encoding="utf-8")
        with (
            paths["questions"].open() as questions,
            paths["answers"].open("w") as answers,
            paths["complaints"].open("w") as complaints,
        ):
            process = subprocess.Popen(
                worker.command(program),
                stdin=questions,
                stdout=answers,
                stderr=complaints,
                cwd=folder,
                env=environment.clean_variables(release),
            )
            try:
                process.wait(180 + len(cases) * 0.2)
            except subprocess.TimeoutExpired:  # stuck where no alarm reaches, in C code
                process.kill()
                process.wait()
        whole = [
            line for line in paths["answers"].read_text("utf-8").splitlines(keepends=True) if line[-1] == "\n"
        ]
        read = [json.loads(line) for line in whole]
        complaint = paths["complaints"].read_text("utf-8", "replace")[-2000:]
        return {line["id"]: Verdict.read(line) for line in read}, complaint


def _lines(cases: Iterable[Case]) -> Iterable[str]:
    for case in cases:
        given = {"text": case.text} if case.text is not None else {"config": case.config}
        yield json.dumps({"id": case.id, "world_size": case.world_size} | given) + "\n"
