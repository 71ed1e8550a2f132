"""The repository around a config: its root, and the scripts and launch files that may name the config."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache, lru_cache
from time import monotonic

from dsconfig.document import contents

SCRIPTS = (
    ".sh", ".bash", ".slurm", ".sbatch", ".py", ".yaml", ".yml", ".json", ".ipynb", ".md", ".mk", ".toml",
)  # fmt: skip
"""Ends of the names of files in which a job is launched, set up, or told of."""
NOT_SEARCHED = frozenset(("node_modules", "__pycache__", "site-packages", "wandb", "checkpoints"))
_TELLING = (b"deepspeed", b"DeepSpeed", b"dsconfig")
_MOST_FILES, _LARGEST = 4000, 256 * 1024
"""Beyond these nobody waits for an answer: who reads the config then follows from its content."""


@cache
def root(folder: str) -> str | None:
    """The root of the repository that an absolute folder belongs to; None where it belongs to none."""
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder


def texts(folder: str, *, deep: bool) -> tuple[tuple[str, bytes], ...]:
    """The paths and bytes of the scripts and launch files in a folder that speak of DeepSpeed, or of us.

    `deep`: those in the folders below it, too. What was read a few seconds ago is not read again.
    """
    return _texts(folder, deep, tick())


def tick() -> int:
    """Changes every few seconds: what was found in a tree holds so long."""
    return int(monotonic() / 5)


@lru_cache(maxsize=4)
def _texts(folder: str, deep: bool, _: int) -> tuple[tuple[str, bytes], ...]:
    found = []
    for number, path in enumerate(_scripts(folder, deep=deep)):
        if number >= _MOST_FILES:
            break
        try:
            data = contents(path, _LARGEST)
        except OSError:
            continue
        if any(word in data for word in _TELLING):
            found.append((path, data))
    return tuple(found)


def _scripts(folder: str, *, deep: bool) -> Iterator[str]:
    """Breadth first: what stands near the root is found before the limit is reached."""
    folders = [folder]
    for here in folders:
        try:
            with os.scandir(here) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name in NOT_SEARCHED:
                continue
            if entry.is_dir(follow_symlinks=False):
                folders += [entry.path] * deep
            elif entry.name.endswith(SCRIPTS) or entry.name == "Makefile":
                yield entry.path
