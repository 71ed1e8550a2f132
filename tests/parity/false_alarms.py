"""Looks for false alarms and for missed crashes: `python -m tests.parity.false_alarms DIR`.

Every config of the directory that the release's own config layer takes goes to a real engine on CPU, at world
size 1, and is checked. An `error` on a config that the engine trains with is a false alarm; an engine that
raises where there is no error is a missed crash, or this machine's limits (no CUDA, no async I/O).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsconfig.checking.check import check_document
from dsconfig.checking.report import Report
from dsconfig.consumers.launch_file import is_launch_file
from dsconfig.diagnostic import Diagnostic
from dsconfig.document import Document, read_file
from dsconfig.releases import resolve
from tests.parity import environment
from tests.parity.generators.case import Case
from tests.parity.judges import engines, judging
from tests.parity.judges.engines import Trial, TrialResult

SUFFIXES = (".json", ".hjson", ".jsonc")
MACHINE = re.compile(
    r"cuda|nvcc|libaio|async_io|CUDA_HOME|not available on cpu|No module named|FusedLamb|Unable to JIT"
    r"|not supported on your device|AsyncIOBuilder|no answer after|GDS|Please install",
    re.IGNORECASE,
)
"""What an engine says where the machine lacks something."""
SCRIPT = re.compile(r"client provided optimizer")
"""What an engine says of the optimizer that stands in for the script's own."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One config: what is found in it, and what an engine does with it."""

    name: str
    errors: tuple[Diagnostic, ...]
    result: TrialResult

    @property
    def verdict(self) -> str:
        if self.errors and self.result.ok:
            return "false alarm"
        if self.result.ok:
            return "trains, as predicted"
        if MACHINE.search(self.result.said):
            return "limit of this machine"
        if SCRIPT.search(self.result.said):
            return "optimizer of the script"
        return "raises, as predicted" if self.errors else "missed crash"


def documents(folder: Path) -> Iterator[tuple[str, Document]]:
    """The configs of a directory that hold an object."""
    for path in sorted(folder.rglob("*")):
        if path.name.lower().endswith(SUFFIXES):
            document = read_file(path)
            if isinstance(document.value(), dict) and not is_launch_file(document.value()):
                yield str(path.relative_to(folder)), document


def accepted(release: str, found: Sequence[tuple[str, Document]], world_size: int) -> set[str]:
    """The configs that the release itself takes at this world size."""
    cases = [Case(name, "corpus", name, world_size, text=document.text) for name, document in found]
    return {name for name, verdict in judging.judge(release, cases).items() if verdict.ok}


def outcomes(release: str, folder: Path, world_size: int) -> list[Outcome]:
    """The outcome of every config that the release takes."""
    found = list(documents(folder))
    taken = accepted(release, found, world_size)
    reports: dict[str, Report] = {}
    trials = []
    for name, document in found:
        data = document.value()
        if name not in taken or not isinstance(data, dict):
            continue
        reports[name] = check_document(document, resolve(release), world_size=world_size)
        trials.append(Trial(name, data if world_size == 1 else _alone(data), _options(data)))
    results = engines.run(release, trials)
    return [
        Outcome(name, tuple(d for d in report if d.severity == "error"), results[name])
        for name, report in reports.items()
    ]


def _options(data: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Where the config has no optimizer, the script brings one."""
    return (("fp16", True),) if "optimizer" in data else (("client_optimizer", "AdamW"), ("fp16", True))


def _alone(data: dict[str, Any]) -> dict[str, Any]:
    """The config at world size 1: the config layer judged the batch at the size that was asked for."""
    left = {key: value for key, value in data.items() if key != "train_batch_size"}
    return left if "train_micro_batch_size_per_gpu" in left else {**left, "train_micro_batch_size_per_gpu": 1}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison; 0 where there is no false alarm."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity.false_alarms", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--release", default="0.19.8")
    parser.add_argument("--world-size", type=int, action="append", help="default: 1 and 8")
    options = parser.parse_args(arguments)
    if options.release not in environment.available():
        print(f"run `python -m tests.parity.environment {options.release}` first", file=sys.stderr)
        return 2
    alarms = 0
    for size in options.world_size or (1, 8):
        found = outcomes(options.release, options.folder, size)
        for outcome in found:
            if outcome.verdict in ("false alarm", "raises, as predicted", "missed crash"):
                print(f"{outcome.verdict}: {outcome.name}")
                for error in outcome.errors:
                    print(f"    here:   {error.code} {error.message}")
                print(f"    engine: {outcome.result.phase}: {outcome.result.said[:300]}")
        counts = Counter(outcome.verdict for outcome in found)
        print(f"world size {size}: {len(found)} configs that {options.release} accepts; {dict(counts)}")
        alarms += counts["false alarm"]
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
