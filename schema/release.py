"""Adds a release to the list of all: `python -m schema.release 0.20.0`, which `make census` begins with."""

from __future__ import annotations

import re
import sys
from pathlib import Path

FILE = Path(__file__).resolve().parents[1] / "dsconfig" / "core" / "releases.py"


def added(text: str, release: str) -> str:
    """The text of `dsconfig/core/releases.py` with the release at the end of its series, or in a new one."""
    series, _, patch = release.rpartition(".")
    found = re.search(rf'^    \("{re.escape(series)}", "(.+)"\),$', text, re.MULTILINE)
    if found is None:
        return text.replace("\n)\nRELEASES", f'\n    ("{series}", "{patch}"),\n)\nRELEASES', 1)
    patches = found[1].split()
    if patch in patches:
        return text
    return f"{text[: found.end(1)]} {patch}{text[found.end(1) :]}"


def main() -> int:
    """Add the release that is named, unless it is there."""
    (release,) = sys.argv[1:]
    FILE.write_text(added(FILE.read_text(encoding="utf-8"), release), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
