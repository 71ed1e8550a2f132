"""Compares what `dsconfig memory` computes with what real DeepSpeed engines allocate.

`python -m tests.parity.memory --cases 500 --seed 1` builds engines on CPU, one at a time, with random
configs and random models of Transformers without weights, at world sizes from 1 to 512 by torch's fake
process group. It prints the errors by stage and phase, what crosses an upper bound, and whether the
collectives are the same. Not part of `make parity`: it takes some seconds a case. `--write FILE` keeps
trials and measurements, and what is in FILE is not measured again, so that a run can be interrupted;
`--read FILE` compares with those alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dsconfig.memory.verdict import NotModelledError
from tests.parity import environment
from tests.parity.generators.memory import trial
from tests.parity.generators.parts import PARTS
from tests.parity.judges import engines, worker
from tests.parity.judges.estimators import estimates
from tests.parity.judges.memory import Prediction, predict, sent

Case = dict[str, Any]
LIMIT = 300
CLOSE, NEAR, OVER = 0.01, 0.10, 1.01
"""At rest, at the peaks, and above a bound."""


def variables(release: str) -> dict[str, str]:
    """The environment of the measuring process."""
    found = engines.variables(release)
    path = (found["PYTHONPATH"], *map(str, environment.transformers()))
    return found | {"PYTHONPATH": os.pathsep.join(path)}


def measured(release: str, trials: list[Case]) -> Iterator[Case]:
    """Each trial with what its engine was seen to hold.

    Raises:
        RuntimeError: the process that starts the engines ended early; the message shows its last words.
    """
    with tempfile.TemporaryFile() as words:
        process = subprocess.Popen(
            worker.command("memory_engine.py", str(LIMIT)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
            env=variables(release),
        )
        assert process.stdin is not None
        assert process.stdout is not None
        with process:
            with contextlib.suppress(BrokenPipeError), process.stdin:
                process.stdin.writelines(json.dumps(found) + "\n" for found in trials)
            answers = (line for line in process.stdout if line.startswith("="))
            for asked, line in zip(trials, answers, strict=False):
                yield {"release": release, "trial": asked, "measured": json.loads(line[1:])}
        if process.returncode:
            words.seek(0)
            last = words.read()[-1500:].decode(errors="replace")
            raise RuntimeError(f"memory_engine.py ended with {process.returncode}:\n{last}")


class Tally:
    """Errors by stage and phase, and everything that is out of bounds."""

    def __init__(self) -> None:
        self.errors: dict[tuple[int, str], list[tuple[float, str]]] = defaultdict(list)
        self.rest: list[str] = []
        self.over: list[str] = []
        self.sent: list[str] = []
        self.counts: dict[str, int] = defaultdict(int)
        self.others: dict[tuple[str, int], list[float]] = defaultdict(list)
        """Errors of other estimators, and of this one, at the highest peak of a device."""

    def add(self, case: Case) -> None:
        """Compare one engine."""
        asked, seen = case["trial"], case["measured"]
        if seen.get("error") or seen.get("skipped"):
            self.counts["failed" if seen.get("error") else "skipped a step"] += 1
            return
        try:
            found = predict(asked, case["release"])
        except NotModelledError:
            self.counts["not modelled"] += 1
            return
        self.counts["compared"] += 1
        self._compare(found, asked, seen)

    def _compare(self, found: Prediction, asked: Case, seen: Case) -> None:
        stage, name = asked["config"]["zero_optimization"]["stage"], asked["id"]
        off = found.at_rest - seen["at_rest"]
        self.errors[stage, "at rest"].append((off / seen["at_rest"], name))
        if abs(off) > max(CLOSE * seen["at_rest"], 1e6) or found.parameters != seen["parameters"]:
            self.rest.append(name)
        for phase, count in seen["peak"].items():
            if phase not in found.peak:
                continue
            self.errors[stage, phase].append(((found.peak[phase] - count) / count, name))
            if count > found.bound[phase] * OVER:
                self.over.append(f"{name} {phase} {count / found.bound[phase] - 1:+.1%}")
        if "device" in seen:
            most = max(seen["device"].values())
            said = {"dsconfig memory": max(found.device.values())}
            for tool, count in (said | estimates(asked, found.parameters, found.largest)).items():
                self.others[tool, stage].append(count / most - 1)
        if asked["world_size"] > 1 and found.calls != sent(seen):
            self.sent.append(name)

    def lines(self) -> Iterator[str]:
        """The distribution, worst cases, and what is out of bounds."""
        yield ", ".join(f"{count} {what}" for what, count in self.counts.items())
        yield f"{'stage':>5} {'phase':<9}{'n':>5}{'mean':>8}{'p95':>8}  worst"
        for (stage, phase), errors in sorted(self.errors.items()):
            worst = sorted(errors, key=lambda error: -abs(error[0]))
            mean = sum(abs(error) for error, _ in errors) / len(errors)
            high = abs(worst[len(worst) * 5 // 100][0])
            shown = ", ".join(f"{error:+.1%} ({name})" for error, name in worst[:3])
            yield f"{stage:>5} {phase:<9}{len(errors):>5}{mean:>8.2%}{high:>8.2%}  {shown}"
        peaks = sorted(
            abs(error) for key, found in self.errors.items() if key[1] != "at rest" for error, _ in found
        )
        if peaks:
            yield f"all peaks: 95 of 100 within {peaks[len(peaks) * 95 // 100]:.2%}"
        if self.others:
            head = f"{'highest peak of a device, by':<30}{'stage':>5}{'n':>5}"
            yield f"{head}{'least':>9}{'median':>9}{'most':>9}"
        for (tool, stage), off in sorted(self.others.items()):
            least, middle, most = min(off), statistics.median(off), max(off)
            yield f"{tool:<30}{stage:>5}{len(off):>5}{least:>+9.1%}{middle:>+9.1%}{most:>+9.1%}"
        for what, names in (
            ("at rest further off than 1 % and 1 MB", self.rest),
            ("above the bound by more than 1 %", self.over),
            ("other collectives", self.sent),
        ):
            yield f"{what}: {len(names)} {'; '.join(names[:12])}".rstrip()


def main(arguments: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.memory", description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--release", default="0.19.8")
    add("--cases", type=int, default=500)
    add("--seed", type=int, default=0)
    add("--part", choices=tuple(PARTS), help="engines that all have this")
    add("--write", type=Path, help="keep trials and measurements in this file")
    add("--read", type=Path, action="append", default=[], help="compare with measurements that were kept")
    options = parser.parse_args(arguments)
    tally = Tally()
    for case in read(options.read) if options.read else fresh(options):
        tally.add(case)
    print("\n".join(tally.lines()))
    return 1 if tally.rest or tally.over or tally.sent else 0


def fresh(options: argparse.Namespace) -> Iterator[Case]:
    """Engines that are built now, after those that were kept of the same run."""
    try:
        environment.build([options.release])
        environment.build_transformers()
    except (environment.BuildError, OSError) as error:
        sys.exit(f"parity: {error}")
    release = environment.order(options.release)
    asked = []
    for number in range(options.cases):
        source = random.Random(f"{options.seed}-{number}")
        case = trial(source, number, release)
        asked.append(PARTS[options.part](source, case) if options.part else case)
        case["id"] = f"{options.seed}-{case['id']}"
    before = list(read([options.write])) if options.write and options.write.exists() else []
    before = [case for case in before if case["release"] == options.release and case["trial"] in asked]
    yield from before
    there = [case["trial"] for case in before]
    asked = [case for case in asked if case not in there]
    for case in measured(options.release, asked):
        if options.write:
            with options.write.open("a", encoding="utf-8") as file:
                file.write(json.dumps(case) + "\n")
        yield case


def read(paths: list[Path]) -> Iterator[Case]:
    """Measurements that were kept."""
    for path in paths:
        for line in path.read_text("utf-8").splitlines():
            yield json.loads(line)


if __name__ == "__main__":
    sys.exit(main())
