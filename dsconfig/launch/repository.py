"""The repository around a config: the scripts and launch files that may name the config."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from time import monotonic

from dsconfig.core.file_bytes import contents_of, unsaved
from dsconfig.core.read_boundary import is_own, root

SCRIPTS = (
    ".sh", ".bash", ".slurm", ".sbatch", ".py", ".yaml", ".yml", ".json", ".ipynb", ".md", ".mk", ".toml",
)  # fmt: skip
"""Ends of the names of files in which a job is launched, set up, or told of."""
NOT_SEARCHED = frozenset(("node_modules", "__pycache__", "site-packages", "wandb", "checkpoints"))
_TESTS = frozenset(("test", "tests"))
"""Folders that say who reads a file in them, and of another one only that it is read."""
_MOST_FOLDERS, _MOST_PROGRAMS, _MOST_OTHERS, _LARGEST = 1000, 500, 1000, 256 * 1024
"""Beyond these nobody waits for an answer: who reads the config then follows from its content."""
_MOST_TEXT = 64 << 20
"""Bytes of all texts that are kept; the repository of DeepSpeed itself has 15 MB that speak of it."""
_LONGEST_JSON = 64 * 1024
"""Longer JSON is data, and launches nothing."""


def texts(folder: str, path: str, *, deep: bool) -> tuple[tuple[str, bytes], ...]:
    """The paths and bytes of the scripts and launch files in a folder that speak of DeepSpeed, or of us.

    `path`: the file that is asked about; tests are searched only if it is one of theirs. `deep`: search the
    folders below, too. What was read a few seconds ago is not read again.
    """
    own = not _TESTS.isdisjoint(path.removeprefix(folder).split(os.sep))
    found = _texts(folder, deep, own, tick())
    if not unsaved:
        return found
    return tuple((name, unsaved.get(os.path.realpath(name), data)) for name, data in found)


def tick() -> int:
    """Changes every few seconds: what was found in a tree holds so long, or until somebody says otherwise."""
    return _held[-1] if _held else int(monotonic() / 5)


_held: list[int] = []


def hold() -> None:
    """Whatever was found is looked for again, once: somebody watches the tree, and calls when it changes."""
    _held[:] = [_held[-1] + 1 if _held else -1 << 30]
    root.cache_clear()


@lru_cache(maxsize=4)
def _texts(folder: str, deep: bool, tests: bool, _: int) -> tuple[tuple[str, bytes], ...]:
    found = []
    left, size = {True: _MOST_PROGRAMS, False: _MOST_OTHERS}, 0
    for entry in _scripts(folder, NOT_SEARCHED if tests else NOT_SEARCHED | _TESTS, deep=deep):
        is_program, is_json = entry.name.endswith(".py"), entry.name.endswith(".json")
        if not left[is_program]:
            continue
        if entry.is_symlink() and not is_own(entry.path):
            continue
        left[is_program] -= 1
        try:
            data = contents_of(entry, _LONGEST_JSON if is_json else _LARGEST)
        except OSError:
            continue
        if _tells(data) and not (is_json and len(data) > _LONGEST_JSON):
            size += len(data)
            if size > _MOST_TEXT:
                break
            found.append((entry.path, data))
    return tuple(found)


def _tells(data: bytes) -> bool:
    """Whether a text speaks of DeepSpeed, or of us where it hands us a config: `elastic run`, `rdzv-conf`."""
    if b"deepspeed" in data or b"DeepSpeed" in data:
        return True
    return b"dsconfig" in data and (b"elastic" in data or b"rdzv" in data)


def release() -> None:
    """Nobody watches the tree any more."""
    _held.clear()


def edition(path: str) -> tuple[int, ...]:
    """Changes with what other files than this one may tell: the tree, and what an editor has open."""
    return (tick(), *(hash(data) for name, data in unsaved.items() if name != path and _tells(data)))


def _scripts(folder: str, apart: frozenset[str], *, deep: bool) -> Iterator[os.DirEntry[str]]:
    """Breadth first: what stands near the root is found before a limit is reached. `apart`: are left out."""
    folders = [folder]
    for here in islice(folders, _MOST_FOLDERS):
        try:
            with os.scandir(here) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name in apart:
                continue
            if entry.is_dir(follow_symlinks=False):
                folders += [entry.path] * deep
            elif entry.name.endswith(SCRIPTS) or entry.name == "Makefile":
                yield entry
