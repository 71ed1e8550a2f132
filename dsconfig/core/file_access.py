"""File access: bytes up to a limit, and whether one file may be read because of another."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache

# The bytes of a file: no more than a limit, and nothing that would have to be waited for.
#
# A path is whatever someone typed, or what a folder happens to hold: a pipe that nobody writes to, a device
# without an end, a link to itself.

MAX_SIZE = 2 * 1024 * 1024
"""Longest text that is read, in bytes of a file or code points of a text; more is one `too-large` problem."""
_HANDED = r"/dev/stdin|(?:/dev|/proc/self)/fd/[0-9]+"
"""What this process was given open, as the shell's `<(...)` does: it is read as stdin is, to its end."""
_KINDS = (
    (stat.S_ISFIFO, "is a pipe, not a file; `-` reads stdin"),
    (stat.S_ISSOCK, "is a socket, not a file"),
    (stat.S_ISCHR, "is a device, not a file"),
    (stat.S_ISBLK, "is a device, not a file"),
)
_CHUNK, _MOSTLY = 1 << 20, 1 << 16
unsaved: dict[str, bytes] = {}
"""What stands for the bytes of files, by their real paths: an editor's texts that are not saved yet."""
_FLAGS = sum(getattr(os, flag, 0) for flag in ("O_RDONLY", "O_BINARY", "O_CLOEXEC", "O_NOCTTY", "O_NONBLOCK"))
"""Not even a pipe that took a file's place in the meantime is waited for."""


def contents(path: str | os.PathLike[str], most: int = MAX_SIZE) -> bytes:
    """The file's first `most` + 1 bytes: that there is one more says that it is longer.

    Raises:
        OSError: it cannot be read, or is not a regular file.
    """
    if unsaved and (data := unsaved.get(os.path.realpath(path))) is not None:
        return data[: most + 1]
    with opened(path) as descriptor:
        return read(descriptor, most + 1)


def contents_of(entry: os.DirEntry[str], most: int) -> bytes:
    """The same of a file in a listing, which says what it is: a tree of thousands is read in half the time.

    What an editor has open and did not save is not looked at.

    Raises:
        OSError: it cannot be read, or is not a regular file.
    """
    if not entry.is_file(follow_symlinks=False):
        return contents(entry.path, most)
    descriptor = os.open(entry.path, _FLAGS)
    try:
        begin = os.read(descriptor, _MOSTLY)
        # Only at its end does a file give less than is asked for.
        return begin if len(begin) < _MOSTLY else begin + read(descriptor, most + 1 - _MOSTLY)
    finally:
        os.close(descriptor)


def is_file(path: str) -> bool:
    """Whether there is a file at the path, be it one that an editor has not saved yet."""
    if "\0" in path:  # no file can be called that; `realpath` would raise
        return False
    return os.path.isfile(path) or (bool(unsaved) and os.path.realpath(path) in unsaved)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[int]:
    """A descriptor of a regular file, or of a pipe that this process was given.

    Raises:
        OSError: it cannot be opened, or is anything else.
    """
    name = os.fspath(path)
    handed = name.startswith(("/dev/", "/proc/")) and re.fullmatch(_HANDED, name) is not None
    _check(path, _status(path), handed=handed)  # some devices do something when they are opened
    descriptor = os.open(path, _FLAGS)
    try:
        _check(path, os.fstat(descriptor), handed=handed)
        if handed and hasattr(os, "set_blocking"):
            os.set_blocking(descriptor, True)
        yield descriptor
    except OSError as error:
        error.filename = error.filename or os.fspath(path)
        raise
    finally:
        os.close(descriptor)


def read(descriptor: int, count: int) -> bytes:
    """So many bytes from where the descriptor stands, or all that there are.

    Raises:
        OSError: they cannot be read, or not without waiting for them.
    """
    pieces = []
    try:
        while count > 0 and (piece := os.read(descriptor, min(count, _CHUNK))):
            pieces.append(piece)
            count -= len(piece)
    except BlockingIOError:  # files of the kernel that tell what happens next
        raise OSError(errno.EAGAIN, "has nothing to read yet, and is not waited for") from None
    return b"".join(pieces)


def _status(path: str | os.PathLike[str]) -> os.stat_result:
    try:
        return os.stat(path)
    except FileNotFoundError:
        if os.path.islink(path):
            raise FileNotFoundError(
                errno.ENOENT, "is a link to a file that does not exist", os.fspath(path)
            ) from None
        raise


def _check(path: str | os.PathLike[str], found: os.stat_result, *, handed: bool) -> None:
    if stat.S_ISREG(found.st_mode) or (handed and stat.S_ISFIFO(found.st_mode)):
        return
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory", os.fspath(path))
    said = next((said for is_kind, said in _KINDS if is_kind(found.st_mode)), "is not a file")
    raise OSError(errno.EINVAL, said, os.fspath(path))


# Whether one file may be read because of another: the only place that decides it.
#
# A repository is whatever somebody cloned or unpacked. A link in it, a launch file's `--deepspeed`, a model
# that `"$dsconfig"` names, may lead to `/proc/self/environ` or a private key. So a file that was
# discovered, or that another file names, is read only inside the repository (or folder) of the file that
# leads to it. A file that somebody names as an argument may be anywhere.

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
