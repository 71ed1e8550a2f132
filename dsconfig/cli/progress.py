"""A progress bar, where many files are read and someone watches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsconfig.checking.report import Report

MANY = 50


def tracked(reports: Iterator[Report], total: int) -> Iterator[Report]:
    """The same reports. With many files and stderr on a terminal, they are made first, under a bar."""
    if total < MANY or not sys.stderr.isatty():
        return reports
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    # Findings written while the bar is drawn would tear it, so they wait.
    return iter(list(track(reports, "Checking", total=total, console=console, transient=True)))
