"""Detect other software that hides or overwrites the packages `dsconfig` and `elastic`.

Other projects' distributions also have packages of these names, for example `dsconfig`, a tool for control systems.
pip installs two such distributions into the same folder, without a warning, and the later one overwrites files of the
earlier one. A folder `elastic/` on `PYTHONPATH` hides the whole package.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from importlib import util
from importlib.metadata import distributions

DISTRIBUTION = "deepspeed-config"
"""Name of this project's distribution (`project.name` in pyproject.toml)."""
PACKAGES = ("dsconfig", "elastic")


def shadowing_problems(folders: Sequence[str] | None = None) -> Iterator[str]:
    """Yield a sentence for each dsconfig package that another distribution replaces or may replace.

    Args:
        folders: folders with installed distributions; None for those of this process.
    """
    for package in PACKAGES:
        others = sorted(set(_other_owners(package, folders)))
        if others:
            names = ", ".join(f"`{name}`" for name in others)
            yield (
                f"{names} installs a package `{package}` too, and overwrites files of {DISTRIBUTION}; install"
                f" {DISTRIBUTION} in an environment of its own"
            )
    origin = _import_origin("elastic")
    installed = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if origin is not None and os.path.dirname(os.path.dirname(os.path.abspath(origin))) != installed:
        yield (
            f"{os.path.dirname(origin)} hides the package `elastic` of {DISTRIBUTION}; rename that folder, or take it"
            " off PYTHONPATH"
        )


def _other_owners(package: str, folders: Sequence[str] | None) -> Iterator[str]:
    """Yield the names of other distributions that install a package with the given name."""
    installed = distributions() if folders is None else distributions(path=list(folders))
    for distribution in installed:
        header = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
        name = next((line[5:].strip() for line in header.splitlines() if line.startswith("Name:")), "")
        record = f"\n{distribution.read_text('RECORD') or ''}"
        # A distribution that was installed without a wheel only lists its packages.
        packages = (distribution.read_text("top_level.txt") or "").split()
        is_ours = re.sub(r"[-_.]+", "-", name).lower() in ("", DISTRIBUTION)
        if not is_ours and (f"\n{package}/__init__.py," in record or package in packages):
            yield name


def _import_origin(package: str) -> str | None:
    """Return the file that `import` would load for a package, or None if there is none."""
    try:
        spec = util.find_spec(package)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    return spec.origin or next(
        (os.path.join(folder, "") for folder in spec.submodule_search_locations or ()), None
    )
