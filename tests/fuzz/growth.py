"""How time and memory grow with the input: `python -m tests.fuzz.growth [--verb VERB] [--all] [KIND ...]`.

Prints, for each kind of input, the slowest verb at n, 2n and 4n bytes, and whatever is not linear. Ends in 1
where a run failed, took more than the limit, or grew faster than linearly.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.fuzz import inputs, odd_inputs  # noqa: F401  they register their kinds
from tests.fuzz.kinds import KINDS
from tests.fuzz.measure import VERBS, Outcome, run

SECONDS, MEGABYTES, STEEPEST = 2.0, 100.0, 2.8
"""For 64 KiB, and as many seconds more for each 64 KiB more; at any size; and for twice the input."""
UNIT = 64 * 1024
NOISE = 0.15
"""Seconds below which growth is not judged."""
LINEAR = "linear"


def main() -> int:
    """Measure all that was asked for, and say what is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--size", type=int, default=16 * 1024, help="n, in bytes; 4n is 64 KiB unless given")
    parser.add_argument("--only", action="store_true", help="measure 4n alone: a sweep at one size")
    parser.add_argument("--verb", action="append")
    parser.add_argument("--all", action="store_true", help="print every verb, not only the slowest")
    args = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        (Path(folder) / ".git").mkdir()
        for name in args.kinds or KINDS:
            rows = [_measured(name, verb, args, Path(folder)) for verb in args.verb or VERBS]
            slowest = max(rows, key=lambda row: row.found[-1].seconds)
            for row in rows:
                if args.all or row is slowest or row.word != LINEAR:
                    print(row.text(), flush=True)
            wrong += sum(row.word != LINEAR for row in rows)
    print(f"{wrong} wrong")
    return 1 if wrong else 0


class _Row(NamedTuple):
    """What a verb came to on n, 2n and 4n bytes of a kind."""

    kind: str
    verb: str
    found: list[Outcome]
    size: int

    @property
    def word(self) -> str:
        """`linear`, or what is not as it should be."""
        if fault := next((each.fault for each in self.found if each.fault), ""):
            return fault
        last = self.found[-1]
        if last.seconds > SECONDS * max(1, 4 * self.size / UNIT):
            return "slow"
        if last.megabytes > MEGABYTES:
            return "large"
        steep = any(b.seconds > max(NOISE, a.seconds) * STEEPEST for a, b in pairwise(self.found))
        return "steep" if steep else LINEAR

    def text(self) -> str:
        """The row as it is printed."""
        times = " ".join(f"{each.seconds:6.2f}" for each in self.found)
        return f"{self.kind:42} {self.verb:18} {times} s {self.found[-1].megabytes:6.1f} MB  {self.word}"


def _measured(name: str, verb: str, args: argparse.Namespace, folder: Path) -> _Row:
    path = folder / f"input.{name.rpartition('.')[2]}"
    found: list[Outcome] = []
    for factor in (4,) if args.only else (1, 2, 4):
        path.write_bytes(KINDS[name](args.size * factor))
        found.append(run(verb, path, 60))
    return _Row(name, verb, found, args.size)


if __name__ == "__main__":
    raise SystemExit(main())
