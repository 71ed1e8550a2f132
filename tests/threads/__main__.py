"""Replay the threads of one half, or of both, and print what dsconfig answers."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.threads import HALVES, replay, threads


def main() -> None:
    """Print a line per thread, and the number of each verdict."""
    for half in sys.argv[1:] or HALVES:
        verdicts: Counter[str] = Counter()
        for thread in threads(half):
            with tempfile.TemporaryDirectory() as name:
                subprocess.run(["git", "init", "-q", name], check=True)
                os.chdir(name)
                answer = replay(thread, Path(name))
            verdicts[answer.verdict] += 1
            where = thread["url"].removeprefix("https://github.com/")
            print(f"{answer.verdict:7} {where:55} {' '.join(answer.reported)}")
        print(f"{half}: {dict(verdicts)}\n")


if __name__ == "__main__":
    main()
