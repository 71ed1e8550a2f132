"""Many inputs, for a time: `python -m tests.fuzz.run --minutes 10 [--inputs N] [--jobs N] [--seed S]`.

One process runs inputs led by coverage, where atheris is installed, and others run inputs without
instrumentation. Ends in 1 where there is a finding; each is kept under `.fuzz/findings`.
`python -m tests.fuzz.run FILE...` runs such files again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import traceback
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz.choices import HEADER, decode
from tests.fuzz.record import FOLDER, STOP, Record, workshop
from tests.fuzz.targets import one


def main() -> int:
    """Run what was asked for, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("files", nargs="*", type=Path)
    add("--minutes", type=float, default=10)
    add("--inputs", type=int, default=0, help="go on until so many were run")
    add("--jobs", type=int, default=1, help="processes without instrumentation")
    add("--seed", type=int, default=time.time_ns() % 1_000_000)
    args = parser.parse_args()
    if args.files:
        return again(args.files)
    FOLDER.mkdir(exist_ok=True)
    STOP.unlink(missing_ok=True)
    runners = [Runner("fast", f"fast-{number}", str(args.seed + number)) for number in range(args.jobs)]
    if find_spec("atheris"):
        runners.append(Runner("guided", "guided"))
    else:
        print("atheris is not installed: no inputs led by coverage")
    print(f"seed {args.seed}", flush=True)
    record = watch(runners, time.monotonic() + args.minutes * 60, args.inputs)
    print(record.table(), flush=True)
    return 1 if record.findings else 0


class Runner:
    """A process that runs inputs; where it dies, it is started again."""

    def __init__(self, module: str, name: str, *words: str) -> None:
        self.command = [sys.executable, "-m", f"tests.fuzz.{module}", name, *words]
        self.path = FOLDER / f"{name}.pickle"
        self.total = Record()
        self.start()

    def start(self) -> None:
        self.path.unlink(missing_ok=True)
        with self.path.with_suffix(".log").open("ab") as log:
            self.process = subprocess.Popen(self.command, cwd=FOLDER.parent, stdout=log, stderr=log)

    def record(self) -> Record:
        """What it came to so far."""
        found = Record()
        found.add(self.total)
        found.add(Record.load(self.path))
        return found

    def look_after(self) -> None:
        code = self.process.poll()
        if code is not None:
            self.total.add(Record.load(self.path))
            self.total.found(f"the process ended in {code}", b"")
            self.start()


def watch(runners: list[Runner], end: float, most: int) -> Record:
    """The record of all when the time is over and so many inputs were run."""
    told, record = time.monotonic(), Record()
    while time.monotonic() < end or record.inputs < most:
        time.sleep(5)
        for runner in runners:
            runner.look_after()
        if time.monotonic() > told + 60 or time.monotonic() > end:
            told, record = time.monotonic(), together(runners)
            print(f"{record.inputs:,} inputs, {len(record.findings)} findings", flush=True)
    STOP.touch()
    for runner in runners:
        runner.process.wait()
    return together(runners)


def together(runners: list[Runner]) -> Record:
    """One record of all."""
    record = Record()
    for runner in runners:
        record.add(runner.record())
    return record


def again(files: list[Path]) -> int:
    """Run kept inputs, and show what they are and what goes wrong."""
    contents = [path.read_bytes() for path in files]
    wrong = 0
    with workshop():
        for data in contents:
            print(decode(data)._replace(files=()), data[HEADER:], sep="\n")
            try:
                print(one(data))
            except Exception:
                wrong = 1
                traceback.print_exc()
    return wrong


if __name__ == "__main__":
    sys.exit(main())
