"""Many inputs, for a time: `python -m tests.fuzz.run --minutes 10 [--inputs N] [--guided SHARE] [--seed S]`.

First come inputs led by coverage, where atheris is installed; then, faster without instrumentation, inputs
made from the corpus that these left. Ends in 1 where there is a finding; each is kept under `.fuzz/findings`.
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
from random import Random

from tests.fuzz.choices import decode
from tests.fuzz.material import fresh
from tests.fuzz.record import FOLDER, Record, workshop

MOST_POOLED = 20_000
"""Inputs that did something new, and are worth another look."""


def main() -> int:
    """Run what was asked for, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("files", nargs="*", type=Path)
    add("--minutes", type=float, default=10)
    add("--inputs", type=int, default=0, help="go on until so many were run")
    add("--guided", type=float, default=0.5, help="the share of the time for inputs led by coverage")
    add("--seed", type=int, default=time.time_ns() % 1_000_000)
    args = parser.parse_args()
    if args.files:
        return again(args.files)
    start = time.monotonic()
    record = Record()
    if args.guided and find_spec("atheris"):
        record.add(guided(args.minutes * 60 * args.guided))
    elif args.guided:
        print("atheris is not installed: no inputs led by coverage")
    print(f"seed {args.seed}", flush=True)
    with workshop():
        fast(record, start + args.minutes * 60, args.inputs, Random(args.seed))
    print(record.table(), flush=True)
    return 1 if record.findings else 0


def guided(seconds: float) -> Record:
    """The record of inputs led by coverage; the process that runs them is started again where it dies."""
    total, end = Record(), time.monotonic() + seconds
    while (left := end - time.monotonic()) > 5:
        (FOLDER / "guided.pickle").unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.fuzz.guided", str(left)]
        code = subprocess.run(command, check=False, cwd=FOLDER.parent, stderr=subprocess.DEVNULL).returncode
        total.add(Record.load(FOLDER / "guided.pickle"))
        print(f"{total.inputs:,} inputs led by coverage, {len(total.findings)} findings", flush=True)
        if code:
            total.found(f"the process ended in {code}", b"")
    return total


def fast(record: Record, end: float, most: int, spread: Random) -> None:
    """Inputs without instrumentation until the time is over and so many were run."""
    corpus = FOLDER / "corpus"
    pool = [path.read_bytes() for path in sorted(corpus.iterdir())] if corpus.is_dir() else []
    seen: set[str] = set()
    told = time.monotonic()
    while time.monotonic() < end or record.inputs < most:
        data = fresh(spread, pool)
        like = record.trial(data, "damaged")
        if like is not None and like not in seen and len(data) < 1024:
            seen.add(like)
            if len(pool) < MOST_POOLED:
                pool.append(data)
        if time.monotonic() > told + 60:
            told = time.monotonic()
            print(f"{record.inputs:,} inputs, {len(record.findings)} findings", flush=True)


def again(files: list[Path]) -> int:
    """Run kept inputs, and show what they are and what goes wrong."""
    from tests.fuzz.targets import one

    contents = [path.read_bytes() for path in files]
    wrong = 0
    with workshop():
        for data in contents:
            print(decode(data)._replace(files=()), data[6:], sep="\n")
            try:
                print(one(data))
            except Exception:
                wrong = 1
                traceback.print_exc()
    return wrong


if __name__ == "__main__":
    sys.exit(main())
