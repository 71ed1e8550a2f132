"""A line that counts, where many files are read and someone watches."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

MANY = 50


def tracked(names: Sequence[str]) -> Iterator[str]:
    """The same names. With many files, and stderr a terminal, a line counts while each is worked on."""
    if len(names) < MANY or not sys.stderr.isatty():
        yield from names
        return
    line, total = "", len(names)
    try:
        for number, name in enumerate(names, 1):
            percent = min(100 * number // total, 100)
            if f" {percent}%" not in line:
                line = f"Checking {total} files: {percent}%"
                # The cursor stays in front, so that what is said of a file meanwhile stands over the line.
                print(line, end="\r", file=sys.stderr, flush=True)
            yield name
    finally:
        print(" " * len(line), end="\r", file=sys.stderr, flush=True)
