"""Looks for false alarms and for missed crashes: `python -m tests.parity.false_alarms DIR`.

Every config of the directory that the release's own config layer takes goes to a real engine on CPU, at world
size 1, and is checked as without any option: who reads it is found out, and each "auto" that it fills is
filled from default arguments before the engine gets it. An `error` on a config that the engine trains with is
a false alarm; an engine that raises where there is no error is a missed crash, or a limit of this machine (no
CUDA, no async I/O).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsconfig.check.build_job import job_of_document, why_not_config
from dsconfig.check.check import check_document
from dsconfig.check.report import Report
from dsconfig.core.diagnostic import Diagnostic
from dsconfig.core.releases import resolve_target
from dsconfig.document import Document, read_file
from dsconfig.job.consumers import HUGGING_FACE
from dsconfig.job.consumers.accelerate_launch_file import is_launch_file
from dsconfig.job.consumers.autofill import autofill_config
from dsconfig.job.consumers.consumer import BY_NAME
from dsconfig.job.detect_consumer import ConsumerEvidence
from dsconfig.launch.launch_file_formats import detect_launch_format
from tests.parity import environment
from tests.parity.generators.case import Case
from tests.parity.judges import engines, judging
from tests.parity.judges.engines import Trial, TrialResult

SUFFIXES = (".json", ".hjson", ".jsonc", ".yaml", ".yml")
MODEL = {"hidden_size": 64}
"""Of which the model is from whose width buckets are filled."""
ARGUMENTS = {"per_device_train_batch_size": 1, "learning_rate": 1e-4, "max_steps": 100, "warmup_steps": 1}
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
    reader: ConsumerEvidence
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
            data = document.value()
            if (
                isinstance(data, dict)
                and not is_launch_file(data)
                and not (why_not_config(document) or detect_launch_format(data))
            ):
                yield str(path.relative_to(folder)), document


def handed_over(document: Document, reader: ConsumerEvidence) -> dict[str, Any] | None:
    """What DeepSpeed gets from this reader; None where it refuses the config itself: see `loaders`."""
    consumer = BY_NAME[reader.name]
    plain = reader.name == "deepspeed"
    data = document.value() if plain or document.format == "yaml" else document.value("json")
    if not isinstance(data, dict) or not document.is_readable("hjson" if plain else "json"):
        return None
    data = deepcopy(data)
    try:
        filling = autofill_config(data, consumer, 1, ARGUMENTS, MODEL)
    except (ValueError, TypeError, AttributeError):
        return None
    lacks = reader.name in HUGGING_FACE and "zero_optimization" not in data
    return None if lacks or any(message.kind == "refused" for message in filling.messages) else data


def accepted(
    release: str, found: Mapping[str, tuple[Document, ConsumerEvidence, dict[str, Any]]], world_size: int
) -> set[str]:
    """The configs that the release itself takes at this world size, as their reader hands them over."""
    cases = [
        Case(name, "corpus", name, world_size, text=document.text)
        if reader.name == "deepspeed" and document.format == "json"
        else Case(name, "corpus", name, world_size, config=data)
        for name, (document, reader, data) in found.items()
    ]
    return {name for name, verdict in judging.judge(release, cases).items() if verdict.ok}


def outcomes(
    release: str, folder: Path, world_size: int, *, every: int = 1, alarms: bool = False
) -> list[Outcome]:
    """The outcome of every config that the release takes, or of one in so many.

    `alarms`: of those with an error only, so that engines start for these alone.
    """
    found: dict[str, tuple[Document, ConsumerEvidence, dict[str, Any]]] = {}
    for name, document in list(documents(folder))[::every]:
        reader = job_of_document(document).reader
        data = handed_over(document, reader)
        if data is not None:
            found[name] = document, reader, data
    taken = accepted(release, found, world_size)
    reports: dict[str, Report] = {}
    trials = []
    for name, (document, reader, data) in found.items():
        if name in taken:
            report = check_document(document, resolve_target(release), world_size=world_size, consumer=reader)
            if alarms and report.ok:
                continue
            reports[name] = report
            trials.append(Trial(name, data if world_size == 1 else _alone(data), _options(data)))
    print(f"{len(found)} configs, of which {release} takes {len(taken)}; {len(trials)} to train", flush=True)
    results = engines.run(release, trials) if trials else {}
    return [
        Outcome(name, report.reader, tuple(d for d in report if d.severity == "error"), results[name])
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
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only one config in N")
    parser.add_argument("--alarms", action="store_true", help="train only with configs that have an error")
    parser.add_argument("--world-size", type=int, action="append", help="default: 1 and 8")
    options = parser.parse_args(arguments)
    if options.release not in environment.available():
        print(f"run `python -m tests.parity.environment {options.release}` first", file=sys.stderr)
        return 2
    alarms = 0
    for size in options.world_size or (1, 8):
        found = outcomes(options.release, options.folder, size, every=options.every, alarms=options.alarms)
        for outcome in found:
            if outcome.verdict in ("false alarm", "raises, as predicted", "missed crash"):
                print(f"{outcome.verdict}: {outcome.name}, {outcome.reader}")
                for error in outcome.errors:
                    print(f"    here:   {error.code} {error.message}")
                print(f"    engine: {outcome.result.phase}: {outcome.result.said[:300]}")
        counts = Counter(outcome.verdict for outcome in found)
        print(f"world size {size}: {len(found)} configs that {options.release} takes; {dict(counts)}")
        alarms += counts["false alarm"]
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
