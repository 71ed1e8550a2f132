"""A line that counts, where many files are read and someone watches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsconfig.check.report import Report

MANY = 50


def tracked(reports: Iterator[Report], total: int) -> Iterator[Report]:
    """The same reports. With many files, and stderr a terminal, they are made first while a line counts."""
    if total < MANY or not sys.stderr.isatty():
        return reports
    # Findings written while the line is there would tear it, so they wait.
    return iter(list(_counted(reports, total)))


def _counted(reports: Iterator[Report], total: int) -> Iterator[Report]:
    line = ""
    try:
        for number, report in enumerate(reports, 1):
            # A launch file brings reports of the configs that it names.
            percent = min(100 * number // total, 100)
            if f" {percent}%" not in line:
                line = f"Checking {total} files: {percent}%"
                # The cursor stays in front, so that what is said of a file meanwhile stands over the line.
                print(line, end="\r", file=sys.stderr, flush=True)
            yield report
    finally:
        print(" " * len(line), end="\r", file=sys.stderr, flush=True)
