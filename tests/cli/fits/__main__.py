"""Tries many, and prints what does not hold."""

from __future__ import annotations

import io
import os
import random
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout

from dsconfig.cli import main
from tests.cli.conftest import Result
from tests.cli.fits.judge import judge
from tests.cli.fits.trials import trial_of


def run_here(*argv: str) -> Result:
    """The command in this process."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with redirect_stdout(out), redirect_stderr(err):
        code = main(argv)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return Result(code, *texts)


def many(count: int, seed: int) -> int:
    """Try many, print what breaks; returns how many did."""
    broken, ends = 0, dict[str, int]()
    for number in range(seed, seed + count):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            os.mkdir(".git")
            trial = trial_of(random.Random(number))
            try:
                end = judge(trial, run_here).partition("\n")[0]
            except Exception as error:
                broken += 1
                end = "broken"
                print(f"== {number}: {type(error).__name__} {error}\n{trial.text}\n{trial}\n", flush=True)
            ends[end] = ends.get(end, 0) + 1
            os.chdir("/")
        if number % 100 == 99:
            print(f"{number}: {broken} broken", flush=True)
    for end, times in sorted(ends.items(), key=lambda each: -each[1]):
        print(f"{times:6} {end}")
    return broken


if __name__ == "__main__":
    sys.exit(many(*map(int, sys.argv[1:3])) > 0)
