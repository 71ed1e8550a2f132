"""Looks for false alarms, and for crashes unseen: `python -m tests.parity.false_alarms DIR`.

Every config of the directory that the release's own config layer takes goes to a real engine on CPU, at world
size 1, and is checked. An `error` on a config that the engine trains with is a false alarm; an engine that
raises where there is no error is a crash unseen, or this machine's (no CUDA, no async I/O).
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
from tests.parity.judges.engines import Job, Ride

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
    ride: Ride

    @property
    def verdict(self) -> str:
        if self.errors and self.ride.ok:
            return "false alarm"
        if self.ride.ok:
            return "trains, as said"
        if MACHINE.search(self.ride.said):
            return "the machine's"
        if SCRIPT.search(self.ride.said):
            return "the script's"
        return "raises, as said" if self.errors else "crash unseen"


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


def census(release: str, folder: Path, world_size: int) -> list[Outcome]:
    """The outcome of every config that the release takes."""
    found = list(documents(folder))
    taken = accepted(release, found, world_size)
    reports: dict[str, Report] = {}
    jobs = []
    for name, document in found:
        data = document.value()
        if name not in taken or not isinstance(data, dict):
            continue
        reports[name] = check_document(document, resolve(release), world_size=world_size)
        jobs.append(Job(name, data if world_size == 1 else _alone(data), _options(data)))
    rides = engines.run(release, jobs)
    return [
        Outcome(name, tuple(d for d in report if d.severity == "error"), rides[name])
        for name, report in reports.items()
    ]


def _options(data: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Where the config has no optimizer, the script brings one."""
    return (("fp16", True),) if "optimizer" in data else (("client_optimizer", "AdamW"), ("fp16", True))


def _alone(data: dict[str, Any]) -> dict[str, Any]:
    """The config at world size 1: the config layer judged the batch at the size that was asked for."""
    left = {key: value for key, value in data.items() if key not in ("train_batch_size",)}
    return left if "train_micro_batch_size_per_gpu" in left else {**left, "train_micro_batch_size_per_gpu": 1}


def main(arguments: Sequence[str] | None = None) -> int:
    """Take the census; 0 where there is no false alarm."""
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
        outcomes = census(options.release, options.folder, size)
        for outcome in outcomes:
            if outcome.verdict in ("false alarm", "raises, as said", "crash unseen"):
                print(f"{outcome.verdict}: {outcome.name}")
                for error in outcome.errors:
                    print(f"    here:   {error.code} {error.message}")
                print(f"    engine: {outcome.ride.phase}: {outcome.ride.said[:300]}")
        counts = Counter(outcome.verdict for outcome in outcomes)
        print(f"world size {size}: {len(outcomes)} configs that {options.release} takes; {dict(counts)}")
        alarms += counts["false alarm"]
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
