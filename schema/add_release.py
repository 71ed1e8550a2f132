"""Add a release to the list of releases: `python -m schema.add_release 0.20.0`, the first step of `make census`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

FILE = Path(__file__).resolve().parents[1] / "dsconfig" / "core" / "releases.py"


def add_release_to_source(text: str, release: str) -> str:
    """Return the source of `dsconfig/core/releases.py` with a release added."""
    series, _, patch = release.rpartition(".")
    match = re.search(rf'^    \("{re.escape(series)}", "(.+)"\),$', text, re.MULTILINE)
    if match is None:
        return text.replace("\n)\nRELEASES", f'\n    ("{series}", "{patch}"),\n)\nRELEASES', 1)
    patches = match[1].split()
    if patch in patches:
        return text
    return f"{text[: match.end(1)]} {patch}{text[match.end(1) :]}"


def main() -> int:
    """Add the release given on the command line unless it is already listed."""
    (release,) = sys.argv[1:]
    FILE.write_text(add_release_to_source(FILE.read_text(encoding="utf-8"), release), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
