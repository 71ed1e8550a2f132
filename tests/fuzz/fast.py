"""Inputs without instrumentation, several times as fast: `python -m tests.fuzz.fast NAME SEED`.

They are made from the project's own texts, from the corpus of the inputs led by coverage, and from whatever
had an outcome that none had before. `.fuzz/stop` ends it.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from random import Random

from tests.fuzz.material import fresh
from tests.fuzz.record import FOLDER, Pace, Record, workshop

MOST_POOLED, LARGEST_POOLED = 20_000, 1024
"""Inputs worth another look, and the bytes of one at most."""


def main(name: str, seed: int) -> None:
    """Run inputs until there is the sign to stop."""
    record, spread, pace = Record(), Random(seed), Pace(name)
    pool: list[bytes] = []
    seen: set[str] = set()
    with workshop():
        while True:
            data = fresh(spread, pool)
            like = record.trial(data, "damaged")
            if like is not None and like not in seen and len(data) < LARGEST_POOLED:
                seen.add(like)
                pool.append(data)
            if pace.is_due():
                corpus = (path for path in (FOLDER / "corpus").glob("*") if path.name not in seen)
                for path in corpus:
                    seen.add(path.name)
                    with suppress(FileNotFoundError):  # libFuzzer replaces an input by a smaller one
                        pool.append(path.read_bytes()[:LARGEST_POOLED])
                del pool[:-MOST_POOLED]
                if pace.ends(record):
                    break


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
