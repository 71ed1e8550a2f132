"""Whether one file may be read because of another: the only place that decides it.

A repository is whatever somebody cloned or unpacked. A link in it, a launch file's `--deepspeed`, a model
that `"$dsconfig"` names, may lead to `/proc/self/environ` or a private key. So a file that was discovered, or
that another file names, is read only inside the repository (or folder) of the file that leads to it. A file
that somebody names as an argument may be anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache

OUTSIDE = "stands outside of this repository"
_SYSTEM = ("/proc", "/sys", "/dev")
_MEMORY = "/dev/shm"  # a file system like others, where projects are worked on
_named: set[str] = set()
"""Real paths of the files and folders that somebody named as arguments, or opened as workspace folders."""


@cache
def root(folder: str) -> str | None:
    """The root of the repository that an absolute folder belongs to; None where it belongs to none."""
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder


def ask_for(paths: Iterable[str]) -> None:
    """Take these files and folders, and no others, for what somebody named: other files may lead to them."""
    _named.clear()
    _named.update(real for path in paths if (real := _real(path)) is not None)


def _real(path: str) -> str | None:
    """The real path; None of what no file can be called."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return None


def is_own(path: str) -> bool:
    """Whether a discovered file may be read: it is one, or a link that stays inside."""
    return not os.path.islink(path) or may_read(path, path)


def leads_out(path: str) -> bool:
    """Whether a path into the repository of the working folder, or into that folder, is a link out of it."""
    here, real = os.path.realpath(os.curdir), _real(path)
    whole = os.path.normpath(os.path.join(here, path))
    return real is not None and any(
        _contains(home, whole) and not _contains(home, real) for home in _homes(here)
    )


def may_read(path: str, launch: str) -> bool:
    """Whether the file at a path may be read because of the file at `launch`, which leads to it.

    A file that was discovered leads to itself: it may be a link. Whether there is a file is not asked.
    """
    if os.name == "nt" and is_on_share(path) and not is_on_share(os.path.abspath(launch)):
        return False  # even a look at it tells its server who is asking
    real = _real(path)
    if real is None:
        return False
    if real in _named and not os.path.isdir(real):
        return True
    if _is_of_system(real):
        return False
    folder = os.path.realpath(os.curdir if launch.startswith("<") else os.path.dirname(launch) or os.curdir)
    return any(_is_inside(real, home, folder) for home in _homes(folder))


def _homes(folder: str) -> set[str]:
    """The folders that files in a folder belong to: their repository, else those that somebody named."""
    top = root(folder)
    if top is not None:
        return {top}
    homes = {each for each in (os.path.realpath(os.curdir), *_named) if _contains(each, folder)}
    return {folder, *(each for each in homes if each != os.path.dirname(each))}


def _is_inside(real: str, home: str, folder: str) -> bool:
    """Whether a file stands in a home, and is not hidden there: what is private (`.ssh`, `.netrc`) is."""
    if not _contains(home, real):
        return False
    hidden = [part for part in os.path.relpath(real, home).split(os.sep) if part.startswith(".")]
    if ".git" in hidden:  # whose `config` may hold a password
        return False
    if not hidden or (root(folder) == home and not _contains(home, _user())):
        return True
    shared = os.path.commonpath([os.path.dirname(real), folder])
    return not any(part.startswith(".") for part in os.path.relpath(real, shared).split(os.sep))


def _user() -> str:
    return os.path.realpath(os.path.expanduser("~"))


def _contains(folder: str, path: str) -> bool:
    """Whether a path is that of a folder, or within it."""
    folder, path = os.path.normcase(folder), os.path.normcase(path)
    return path == folder or path.startswith(os.path.join(folder, ""))


def _is_of_system(real: str) -> bool:
    """Whether a file is one of the kernel's, which may tell secrets, or never end."""
    return any(_contains(each, real) for each in _SYSTEM) and not _contains(_MEMORY, real)


def is_on_share(path: str) -> bool:
    r"""Whether a path is one of Windows for another machine (`\\server\share`), or a link to it."""
    for _ in range(_LONGEST):
        if path.replace("/", "\\").startswith("\\\\"):
            return not path.startswith("\\\\?\\") or path.startswith("\\\\?\\UNC")
        try:
            path = os.readlink(path)
        except (OSError, ValueError):  # nothing is called by a name with a NUL
            return False
    return True


_LONGEST = 40
"""Links that lead to links: more are a circle."""
