"""Files that a verb draws a picture to."""

from __future__ import annotations

import os

from dsconfig.cli.errors import refuse
from dsconfig.render.matplotlib_output import SUFFIXES

NEEDS_MATPLOTLIB = "--plot needs matplotlib: install `deepspeed-config[plot]`"


def plotted(name: str | None) -> str:
    """The suffix of a picture's file, nothing where none is asked for; another one ends the run."""
    if name is None:
        return ""
    suffix = os.path.splitext(name)[1].lower()
    if suffix not in SUFFIXES:
        refuse(f"--plot {name}: expected a file that ends in {' or '.join(SUFFIXES)}")
    return suffix
