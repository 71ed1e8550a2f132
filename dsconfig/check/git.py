"""What git knows of a folder: its files, without what ignore rules leave out.

Git itself is asked, since nobody else knows all of its rules and reads its index, by which a tracked file is
not ignored. It is not shown the repository's own configuration, though, which names programs that git starts
(`core.fsmonitor`, `core.sshCommand`, `remote.*.uploadpack`): it runs on an empty repository of ours, which
borrows the index and the ignore rules. So an embedded bare repository is not found either.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable

from dsconfig.core.file_bytes import contents
from dsconfig.core.read_boundary import root

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
_LARGEST = 1 << 20


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
