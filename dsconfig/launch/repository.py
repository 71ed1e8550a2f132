"""Repository around a config: its scripts and launch files, paths in them, and a budget to read them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from time import monotonic

from dsconfig.core.file_access import (
    OUTSIDE,
    contents_of,
    is_file,
    is_on_share,
    is_own,
    may_read,
    repository_root,
    unsaved,
)
from dsconfig.core.json_types import NamedTuple

# The repository around a config: the scripts and launch files that may name the config.

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
    repository_root.cache_clear()


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


# Where a file is that a launch file names: nobody knows the working directory of the job.

_UNKNOWN = r"\$(?:\w+|\{\w+\})/+"


class Place(NamedTuple):
    """Where a name leads to: the path (None: nowhere), and the folders that were tried."""

    path: str | None
    tried: tuple[str, ...]
    outside: str | None = None
    """The file that is there, and may not be read because a launch file names it."""

    @property
    def folder(self) -> str:
        """The folder that the name counts from, in words."""
        return _said(self.tried[-1]) if self.tried else "the file system's root"

    @property
    def folders(self) -> str:
        """All that were tried, in words."""
        return ", ".join(map(_said, self.tried))

    @property
    def why_unread(self) -> str | None:
        """Why the file that is there is not read, as the end of a sentence; None where there is none."""
        if self.outside is None:
            return None
        return f"{OUTSIDE}, and is not read: name {self.outside} itself, too, to have it checked"


def search(written: str, launch: str, inside: str = "") -> Place:
    """The file that a launch file at the path `launch` names, in the folder `inside` of the job's own.

    The current folder is tried first, then the launch file's own and those above it, up to the root of the
    repository. Of a path that begins with a variable, what follows that is searched for.
    """
    if inside and not os.path.isabs(written):
        found = search(os.path.join(inside, written), launch)
        if found.path is not None:
            return found
    if (match := re.match(_UNKNOWN, written)) and "$" not in written[match.end() :]:
        found = search(written[match.end() :], launch)
        return found if found.path is not None else found._replace(path=None)
    if launch.startswith("<"):
        return _at(written, written, launch, (os.curdir,)) or Place(None, (os.curdir,))
    if os.path.isabs(written):
        return _at(written, written, launch, ()) or _of_another_machine(written, launch)
    folder = os.path.dirname(os.path.abspath(launch))
    folders, top = [os.curdir], repository_root(folder)
    while True:
        folders.append(folder)
        if folder == top or top is None or folder == os.path.dirname(folder):
            break
        folder = os.path.dirname(folder)
    tried: list[str] = []
    outside: str | None = None
    for each in folders:
        if os.path.abspath(each) not in map(os.path.abspath, tried):
            tried.append(each)
            path = os.path.normpath(os.path.join(each, written))
            if (there := _at(path, _short(path), launch, tuple(tried))) is None:
                continue
            if there.path is not None:
                return there
            outside = outside or there.outside
    return Place(None, tuple(tried), outside)


def _at(path: str, shown: str, launch: str, tried: tuple[str, ...]) -> Place | None:
    """The file at a path, unless it may not be read; None where there is none."""
    shared = is_on_share(path)
    if not shared and not is_file(path):  # most are not there: to resolve the links of each takes far longer
        return None
    if may_read(path, launch):
        return Place(shown, tried) if not shared or is_file(path) else None
    return Place(None, tried, shown)


def _of_another_machine(written: str, launch: str) -> Place:
    """The file that a path leads to where the repository stands in another folder than here."""
    parts = written.split("/")[2:]
    for at in range(min(len(parts), _PARTS)):
        found = search("/".join(parts[at:]), launch)
        if found.path is not None:
            return found
    return Place(None, ())


_PARTS = 16


def _short(path: str) -> str:
    """The path as it is called from the current folder, where that belongs to the same repository."""
    short, top = os.path.relpath(path), repository_root(os.path.abspath(os.curdir))
    outside = short.startswith(os.pardir) and (
        top is None or not os.path.abspath(path).startswith(top + os.sep)
    )
    return path if outside else short


def installed(pattern: str, name: str) -> str | None:
    """The file of a preset within the installed packages; None where it is not there."""
    if not pattern or not is_name(name):
        return None
    paths = (os.path.join(folder, pattern.format(name)) for folder in sys.path if folder)
    return next((path for path in paths if os.path.isfile(path)), None)


def is_name(written: str) -> bool:
    """Whether this can be the name of a preset."""
    return written.replace("_", "").isalnum()


def _said(folder: str) -> str:
    return "the current folder" if folder == os.curdir else os.path.relpath(folder)


# What may be spent on reading the scripts and launch files around a config, whose authors nobody knows.
#
# A few hundred bytes of shell can stand for gigabytes, and a regular expression can go back and forth over
# a few dozen for hours. So whatever reads such a text counts what it looks at and what it makes. Where that
# is more than anyone writes the text counts as not read, and a note says so: no part of it is believed.


class SpentError(Exception):
    """A text takes more than may be spent on it. Whoever gives out a budget catches this."""


class Budget:
    """So many steps, of less than 1 µs: characters that are looked at one by one, or eight that are copied.

    `within`: the budget of the folder that the text stands in, which pays as well.
    """

    __slots__ = ("_within", "left", "total")

    def __init__(self, total: int, within: Budget | None = None) -> None:
        self.total = self.left = total
        self._within = within

    @property
    def used(self) -> int:
        """What was spent."""
        return self.total - self.left

    def spend(self, steps: int) -> None:
        """Take the steps off, before they are done.

        Raises:
            SpentError: there are not as many left.
        """
        self.left -= steps
        if self._within is not None:
            self._within.spend(steps)
        if self.left < 0:
            raise SpentError


_LEAST, _EACH = 250_000, 20
"""Of a text of any length, and for each of its characters: scripts in use take 4 to 8 for each."""
FOLDER = 10_000_000
"""Of all texts around one config: those of a thousand scripts that name it."""


def of_text(length: int, within: Budget | None = None) -> Budget:
    """The budget of a script or launch file of so many characters; no text has more than its folder."""
    return Budget(min(_LEAST + _EACH * length, FOLDER), within)


# Whether somebody makes leaves of a model's modules for stage 3, outside of the config.

PROGRAMS = frozenset(("LLaMA-Factory", "Axolotl", "ms-swift"))
"""Programs that do so for every model with experts that they know.

Sources: LLaMA-Factory model/model_utils/moe.py:add_z3_leaf_module; Axolotl
loaders/model.py:_set_z3_leaf_modules; ms-swift model/register.py:_deepspeed_set_z3_leaf_modules.
"""
_WORDS = (b"set_z3_leaf_module", b"_z3_leaf", b"deepspeed_moe_layer_cls_names", b"set_moe_leaf_modules")
"""DeepSpeed's own call, and Accelerate's setting (utils/dataclasses.py, `moe_layer_cls_names`)."""


def are_set(name: str) -> bool:
    """Whether a script or a launch file in the repository of a config sets them."""
    if name.startswith("<") or not name:
        return False
    path = os.path.abspath(name)
    folder = os.path.dirname(path)
    top = repository_root(folder)
    return any(
        word in data for _, data in texts(top or folder, path, deep=top is not None) for word in _WORDS
    )
