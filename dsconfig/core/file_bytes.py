"""The bytes of a file: no more than a limit, and nothing that would have to be waited for.

A path is whatever someone typed, or what a folder happens to hold: a pipe that nobody writes to, a device
without an end, a link to itself.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager

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
