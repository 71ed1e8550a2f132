"""Which files to check: those named, and the DeepSpeed configs of a directory, told by their content.

Git's ignore rules hold (`dsconfig.check.git`). What is hidden or installed is passed over.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from dsconfig.check.git import Git, Listing
from dsconfig.core.file_bytes import contents
from dsconfig.core.read_boundary import OUTSIDE, is_own, may_read
from dsconfig.document.file_names import SUFFIXES, is_named_config, is_yaml
from dsconfig.launch.format_table import SCRIPTS

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.document import Document

_LAUNCHES = rb"(?m)^distributed_type\s*:\s*['\"]?DEEPSPEED\b"
_BLOCK = rb"(?m)^deepspeed_config\s*:"
SKIPPED = frozenset(("node_modules", "__pycache__", "site-packages"))
_LARGEST = 1 << 20
"""A larger file is not a config that someone wrote by hand, and not worth reading to find out."""


def configs(
    folder: str,
    excludes: Callable[[str], bool] = lambda _: False,
    note: Callable[[str], object] = str,
    hidden: Callable[[str], object] = str,
) -> Iterator[str]:
    """The DeepSpeed configs below `folder`, in a fixed order.

    Links to folders are not followed. What looks like a config and cannot be read is named too, so that
    reading it says why.

    Args:
        folder: where to look.
        excludes: whether a file or folder is to be passed over.
        note: is told in a line what may not be looked into, or does not answer.
        hidden: is told each hidden folder that is passed over.
    """
    asked = Git(note)
    folders: list[tuple[str, Listing | None]] = [(folder, asked.listing(folder))]
    while folders:
        folder, git = folders.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            note(_closed(folder))
            continue
        if any(entry.name == "pyvenv.cfg" for entry in entries):
            continue
        below: list[tuple[str, Listing | None]] = []
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name in SKIPPED or not (is_folder or may_be_config(entry.name)):
                continue
            if (git and not git.has(entry.path)) or excludes(entry.path):
                continue
            if entry.name.startswith("."):
                if is_folder and entry.name != ".git":
                    hidden(_short(entry.path))
            elif is_folder:
                # What git does not look into is a repository of its own.
                inner = asked.listing(entry.path) if git and git.ends_at(entry.path) else git
                below.append((entry.path, inner))
            elif _is_wanted(entry, note):
                yield _short(entry.path)
        folders += reversed(below)


def _is_wanted(entry: os.DirEntry[str], note: Callable[[str], object]) -> bool:
    """Whether an entry is a config, or is named like one and is not a file, or cannot be told."""
    if entry.is_symlink() and not is_own(entry.path):
        note(f"{_short(entry.path)} is a link to a file that {OUTSIDE}, and is passed over")
        return False
    try:
        is_file = entry.is_file()
    except OSError:  # a link to itself
        return True
    if not is_file:
        return is_named_config(entry.path)
    if is_config(entry.path):
        return True
    if not os.access(entry.path, os.R_OK):
        note(_closed(entry.path))
    return False


def _closed(path: str) -> str:
    return f"{_short(path)} may not be read, and is passed over"


def _short(path: str) -> str:
    return path[2:] if path.startswith("./") else path


def passed_over(path: str) -> bool:
    """Whether a directory's configs are without this file: hidden or installed below here, or a link out."""
    if os.path.realpath(path) != os.path.abspath(path) and not may_read(path, "<here>"):
        return True  # a link, by which it is not this repository's
    folder, name = os.path.split(os.path.relpath(path) if os.path.isabs(path) else os.path.normpath(path))
    return name.startswith(".") or _is_passed_over(folder, os.getcwd())


@cache
def _is_passed_over(folder: str, here: str) -> bool:
    above, name = os.path.split(folder)
    if name in ("", os.pardir):
        return False
    if name.startswith(".") or name in SKIPPED or os.path.lexists(os.path.join(here, folder, "pyvenv.cfg")):
        return True
    return _is_passed_over(above, here)


def excluded(path: str, root: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern names the file, a directory above it, or, without a slash, any part of its path."""
    if not patterns:
        return False
    from fnmatch import fnmatch

    parts = os.path.relpath(path, root).replace(os.sep, "/").split("/")
    above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    return any(
        fnmatch(name, pattern.strip("/"))
        for pattern in patterns
        for name in (above if "/" in pattern.strip("/") else [*parts, above[-1]])
    )


def is_config(path: str) -> bool:
    """Whether the file at `path` is a DeepSpeed config, or a launch file that leads to one."""
    return reads_as_config(path, content(path), yaml=is_yaml(path))


def reads_as_config(path: str, data: bytes, *, yaml: bool) -> bool:
    """Whether a text is one, which is the file's at `path`, or will be."""
    from dsconfig.launch import detect_config
    from dsconfig.launch.file_kinds import kind_of, of_keys

    if _OF_AUTOTUNER.search(path.replace(os.sep, "/")):
        return False
    data = _in_utf8(data)
    if yaml and is_launch(data):
        return True
    if detect_config.may_hold(data) or detect_config.may_lead(data):
        document = _document(path, data, yaml=yaml)
        root = _root(document)
        is_other = kind_of(document) or of_keys(root)
        if not is_other and (detect_config.holds_config(root) or detect_config.means_config(document)):
            return True
    # A name that cannot mean anything else: what is broken or misspelt in it is worth saying.
    named = not yaml and is_named_config(path)
    if not named:
        return False
    root = _root(_document(path, data, yaml=False))
    return not (detect_config.mostly_foreign(root) or of_keys(root))


def stands_for_config(document: Document | None) -> bool:
    """Whether a text that no parser reads has the name of a config: the job that opens it fails."""
    from dsconfig.launch.broken_config import is_broken

    return document is not None and is_named_config(document.name) and is_broken(document)


_OF_AUTOTUNER = re.compile(r"(?:^|/)(?:autotuning/config_templates|autotuning_(?:exps|results))/")
"""Folders of what DeepSpeed's autotuner makes configs of, and has made: autotuning/constants.py."""


def may_be_config(name: str) -> bool:
    """Whether a file of this name can be a config, or a launch file that is not a script."""
    return name.lower().endswith(SUFFIXES)


def is_launch(data: bytes) -> bool:
    """Whether a YAML text looks like a launch file of Accelerate for DeepSpeed."""
    return bool(re.search(_LAUNCHES, data) and re.search(_BLOCK, data))


def linked_configs(names: Iterable[str]) -> dict[str, list[str]]:
    """The real paths of the configs that launch files among these name, and which of them name each."""
    from dsconfig.launch import detect_config

    found: dict[str, list[str]] = {}
    for name in names:
        data = content(name) if name.lower().endswith((*SUFFIXES, *SCRIPTS)) else b""
        if not detect_config.may_lead(data):
            continue
        from dsconfig.document import read_bytes
        from dsconfig.launch.find_jobs import job_of
        from dsconfig.launch.located_config import linked

        document = read_bytes(data, name, "yaml" if is_yaml(name) else "json")
        if (job := job_of(document)) is not None and job.place is not None and job.place.path:
            found.setdefault(os.path.realpath(job.place.path), []).append(name)
        elif (link := linked(document)) and link[1].path:
            found.setdefault(os.path.realpath(link[1].path), []).append(name)
    return _grounded(found)


def _grounded(named: dict[str, list[str]]) -> dict[str, list[str]]:
    """Those that a file leads to which none of them names: files that only name each other are left out."""
    grounded: dict[str, list[str]] = {}
    while True:
        new = {
            path: launches
            for path, launches in named.items()
            if path not in grounded
            and any(real in grounded or real not in named for real in map(os.path.realpath, launches))
        }
        if not new:
            return grounded
        grounded |= new


def content(path: str) -> bytes:
    """The file's bytes; empty where it is too large or cannot be read."""
    try:
        size = os.path.getsize(path)
        # Room is made for what is asked for: for every file a mebibyte would take the longest of all.
        data = contents(path, size) if size <= _LARGEST else b""
    except OSError:
        return b""
    return data if len(data) <= _LARGEST else b""


def _in_utf8(data: bytes) -> bytes:
    """The text of UTF-16 or UTF-32, as Windows PowerShell writes it, in UTF-8: DeepSpeed rejects the file."""
    if b"\0" not in data[:4]:
        return data
    from dsconfig.document.reader import wide_encoding

    wide = wide_encoding(data[:1024].decode("latin-1"))
    return data.decode(wide, "replace").encode("utf-8", "replace") if wide else data


def _document(path: str, data: bytes, *, yaml: bool) -> Document:
    from dsconfig.document import read_bytes

    return read_bytes(data, path, "yaml" if yaml else "json")


def _root(document: Document) -> JsonObject:
    """The object at the root of a text; empty where there is none."""
    value = document.value()
    return (
        {key: each for key, each in value.items() if isinstance(key, str)} if isinstance(value, dict) else {}
    )
