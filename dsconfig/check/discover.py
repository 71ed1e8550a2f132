"""Discovery of the files to check: DeepSpeed configs of a directory, without the files that git ignores."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from dsconfig.core.file_access import OUTSIDE, contents, is_own, may_read, root
from dsconfig.document.file_names import SUFFIXES, is_named_config, is_yaml
from dsconfig.launch.format_table import SCRIPTS

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.document import Document


# Which files to check: those named, and the DeepSpeed configs of a directory, told by their content.
#
# Git's ignore rules hold (`dsconfig.check.discover`). What is hidden or installed is passed over.

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
    from dsconfig.launch.detect_config import describe_other_file, describe_other_object

    if _OF_AUTOTUNER.search(path.replace(os.sep, "/")):
        return False
    data = _in_utf8(data)
    if yaml and is_launch(data):
        return True
    if detect_config.may_contain_config(data) or detect_config.mentions_deepspeed(data):
        document = _document(path, data, yaml=yaml)
        root = _root(document)
        is_other = describe_other_file(document) or describe_other_object(root)
        if not is_other and (detect_config.contains_config(root) or detect_config.is_broken_config(document)):
            return True
    # A name that cannot mean anything else: what is broken or misspelt in it is worth saying.
    named = not yaml and is_named_config(path)
    if not named:
        return False
    root = _root(_document(path, data, yaml=False))
    return not (detect_config.is_mostly_unknown(root) or describe_other_object(root))


def stands_for_config(document: Document | None) -> bool:
    """Whether a text that no parser reads has the name of a config: the job that opens it fails."""
    from dsconfig.launch.detect_config import is_broken

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
        if not detect_config.mentions_deepspeed(data):
            continue
        from dsconfig.document import read_bytes
        from dsconfig.launch.find_jobs import job_of
        from dsconfig.launch.located_config import find_link

        document = read_bytes(data, name, "yaml" if is_yaml(name) else "json")
        if (job := job_of(document)) is not None and job.lookup is not None and job.lookup.path:
            found.setdefault(os.path.realpath(job.lookup.path), []).append(name)
        elif (link := find_link(document)) and link[1].path:
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


# What git knows of a folder: its files, without what ignore rules leave out.
#
# Git itself is asked, since nobody else knows all of its rules and reads its index, by which a tracked file
# is not ignored. It is not shown the repository's own configuration, though, which names programs that git
# starts (`core.fsmonitor`, `core.sshCommand`, `remote.*.uploadpack`): it runs on an empty repository of
# ours, which borrows the index and the ignore rules. So an embedded bare repository is not found either.

_COMMAND = (
    *("-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false", "-c", "core.hooksPath="),
    *("-c", "safe.bareRepository=explicit"),
    # `git init` finds out; a file system that tells no case is the rule on these.
    *("-c", f"core.ignoreCase={str(sys.platform in ('darwin', 'win32')).lower()}"),
)
_ENVIRONMENT = {
    # Should git want to fetch what is missing all the same, no way is open to it.
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
}
_OF_USER = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
"""Variables of git that are passed on: where the user's own configuration is."""
PATIENCE = 30.0
"""Seconds after which git is not waited for: a pipe named `.gitignore` has it wait forever."""
_LONGEST = 4096


class Listing:
    """The files below a folder that git tracks, or would."""

    def __init__(self, folder: str, names: list[str]) -> None:
        base = os.path.join(folder, "")
        self._paths = {base + name for name in names}
        self._inner = {path.rstrip("/") for path in self._paths if path.endswith("/")}
        for name in names:
            while (name := name.rpartition("/")[0]) and base + name not in self._paths:
                self._paths.add(base + name)

    def has(self, path: str) -> bool:
        """Whether the file, or something in the folder, is there."""
        return path in self._paths or path in self._inner

    def ends_at(self, path: str) -> bool:
        """Whether a folder is a repository of its own, into which the listing does not go."""
        return path in self._inner or os.path.lexists(os.path.join(path, ".git"))


class Git:
    """Lists folders for as long as git answers. `told`: is told where it does not."""

    def __init__(self, told: Callable[[str], object] = str) -> None:
        self._told = told
        self._answers = True

    def listing(self, folder: str) -> Listing | None:
        """The files that git lists below a folder; None where it knows none, or ignores it as a whole."""
        top = root(os.path.abspath(folder))
        store = None if top is None else _store(top)
        program = _program(top) if top is not None and store is not None and self._answers else None
        if top is None or store is None or program is None:
            return None
        import subprocess
        import tempfile

        try:
            with tempfile.TemporaryDirectory(prefix="dsconfig-") as ours:
                borrowed = _borrow(store, ours)
                for others in (borrowed, {}) if borrowed else ({},):  # an index may be beyond reading
                    done = subprocess.run(
                        [program, *_COMMAND, "ls-files", "-z", "-c", "-o", "--exclude-standard", "--", "."],
                        cwd=folder,
                        env={**_clean(), **_ENVIRONMENT, "GIT_DIR": ours, "GIT_WORK_TREE": top, **others},
                        stdin=subprocess.DEVNULL,
                        capture_output=True,
                        check=False,
                        timeout=PATIENCE,
                    )
                    if done.returncode == 0:
                        break
        except subprocess.TimeoutExpired:
            self._answers = False
            self._told(f"git did not answer in {PATIENCE:g} seconds; what it ignores is checked too")
            return None
        except OSError:
            return None
        names = os.fsdecode(done.stdout).split("\0")[:-1]
        return Listing(folder, names) if done.returncode == 0 and names else None


def _program(top: str) -> str | None:
    """Git, as the search path has it; never one of the repository that it is asked about."""
    name = "git.exe" if os.name == "nt" else "git"
    barred = {_within(top), _within(os.curdir)}
    for folder in os.get_exec_path():
        path = os.path.join(folder, name)
        if not os.path.isabs(folder) or not (os.path.isfile(path) and os.access(path, os.X_OK)):
            continue
        where = _within(folder)
        # All programs are within a file system's root.
        if not any(where.startswith(each) for each in barred if each != os.path.dirname(each)):
            return path
    return None


def _within(folder: str) -> str:
    """The beginning of the real paths of everything in a folder."""
    return os.path.normcase(os.path.join(os.path.realpath(folder), ""))


def _clean() -> dict[str, str]:
    """The environment, without what has git look elsewhere: in a hook, `GIT_DIR` and others are set."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _OF_USER
    }


def _store(top: str) -> str | None:
    """Where a repository is kept; None where there is none, as where `.git` is an empty folder."""
    path = os.path.join(top, ".git")
    path = _led_to(path, r"gitdir: (.*)") or path  # a linked worktree, or a submodule
    return path if os.path.lexists(os.path.join(path, "HEAD")) else None


def _borrow(store: str, ours: str) -> dict[str, str]:
    """Make an empty repository with the ignore rules of another; returns what leads to that one's index."""
    for name in ("objects", "refs", "info"):
        os.mkdir(os.path.join(ours, name))
    shared = _led_to(os.path.join(store, "commondir"), r"(.*)") or store
    config = "[core]\n\trepositoryformatversion = 0\n"
    if re.search(
        rb"(?im)^[ \t]*objectformat\s*=\s*\"?sha256", _read(os.path.join(shared, "config"), _LARGEST)
    ):
        config = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"
    excluded = _read(os.path.join(shared, "info", "exclude"), _LARGEST)
    made = {"HEAD": b"ref: refs/heads/main\n", "config": config.encode(), "info/exclude": excluded}
    for name, data in made.items():
        with open(os.path.join(ours, name), "xb") as file:
            file.write(data)
    index = os.path.join(store, "index")
    try:
        return {"GIT_INDEX_FILE": os.path.abspath(index)} if stat.S_ISREG(os.stat(index).st_mode) else {}
    except OSError:
        return {}


def _led_to(path: str, pattern: str) -> str | None:
    """The folder that a file of one line names."""
    found = re.fullmatch(pattern, os.fsdecode(_read(path, _LONGEST)).rstrip("\r\n"))
    return os.path.join(os.path.dirname(path), found[1]) if found and "\0" not in found[1] else None


def _read(path: str, most: int) -> bytes:
    try:
        return contents(path, most)[:most]
    except (OSError, ValueError):
        return b""
