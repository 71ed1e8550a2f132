"""How time and memory grow with the input: `python -m tests.fuzz.growth [--verb VERB] [KIND ...]`.

Prints, for each kind of input, the slowest verb at n, 2n and 4n bytes, and every fault. Ends in 1 where a run
failed, took more than the limit, or grew faster than linearly.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from itertools import pairwise
from pathlib import Path

from tests.fuzz.inputs import KINDS
from tests.fuzz.measure import VERBS, Outcome, run

SECONDS, MEGABYTES, STEEPEST = 2.0, 100.0, 2.8
"""At 64 KiB; the last is the most by which twice the input may multiply the time."""
NOISE = 0.15
"""Seconds below which growth is not judged."""


def main() -> int:
    """Measure all that was asked for, and say what is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--size", type=int, default=16 * 1024)
    parser.add_argument("--verb", action="append")
    args = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        (Path(folder) / ".git").mkdir()
        for name in args.kinds or KINDS:
            for verb in args.verb or VERBS:
                wrong += _row(name, verb, args.size, Path(folder))
    print(f"{wrong} wrong")
    return 1 if wrong else 0


def _row(name: str, verb: str, size: int, folder: Path) -> int:
    path = folder / f"input.{name.rpartition('.')[2]}"
    found: list[Outcome] = []
    for factor in (1, 2, 4):
        path.write_bytes(KINDS[name](size * factor))
        found.append(run(verb, path, 30))
    wrong = _wrong(found)
    times = " ".join(f"{each.seconds:6.2f}" for each in found)
    if wrong or found[-1].seconds > SECONDS / 2:
        print(f"{name:36} {verb:20} {times} s {found[-1].megabytes:7.1f} MB  {wrong}", flush=True)
    return bool(wrong)


def _wrong(found: list[Outcome]) -> str:
    if fault := next((each.fault for each in found if each.fault), ""):
        return fault
    last = found[-1]
    if last.seconds > SECONDS:
        return "slow"
    if last.megabytes > MEGABYTES:
        return "large"
    steep = any(b.seconds > max(NOISE, a.seconds) * STEEPEST for a, b in pairwise(found))
    return "steep" if steep else ""


if __name__ == "__main__":
    raise SystemExit(main())
