"""Writing a file: all of it or nothing, and never over what someone else wrote since it was read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class ChangedError(OSError):
    """The file is not what was read."""

    def __init__(self, path: str) -> None:
        super().__init__(None, "changed while it was being fixed, and is left as it is", path)


def write(path: str, data: bytes) -> None:
    """Put the data in the file, whether there is one or not.

    Raises:
        OSError: it cannot be written.
    """
    try:
        before = os.stat(path)
    except FileNotFoundError:
        before = None
    if before is not None and not stat.S_ISREG(before.st_mode):  # a pipe or device stays
        with open(path, "wb") as file:
            file.write(data)
        return
    path = os.path.realpath(path)
    with _draft(path, data, before) as draft:
        os.replace(draft, path)


def rewrite(path: str, old: bytes, new: bytes) -> None:
    """Put `new` in the file that held `old`.

    Raises:
        ChangedError: the file does not hold `old` any more.
        OSError: it cannot be written.
    """
    path = os.path.realpath(path)
    if not os.access(path, os.W_OK):  # taking its place would need no right to write it
        raise PermissionError(13, "permission denied", path)
    with _draft(path, new, _checked(path, old)) as draft:
        _checked(path, old)
        os.replace(draft, path)


@contextmanager
def _draft(path: str, data: bytes, before: os.stat_result | None) -> Iterator[str]:
    """A finished file beside the one whose place it is to take; it is removed if it does not take it.

    It has the mode and the owner of the file as it was `before`.
    """
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name[:100]}.{os.getpid()}.dsconfig")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(draft, flags, 0o666 if before is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if before is not None:
            with suppress(OSError):  # only root can give a file away
                _give(draft, before)
            os.chmod(draft, stat.S_IMODE(before.st_mode))
        yield draft
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def _give(path: str, like: os.stat_result) -> None:
    """Give the file the owner of another, where the system has owners."""
    if hasattr(os, "chown") and (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
        os.chown(path, like.st_uid, like.st_gid)


def _checked(path: str, old: bytes) -> os.stat_result:
    with open(path, "rb") as file:
        if file.read(len(old) + 1) != old:
            raise ChangedError(path)
        return os.fstat(file.fileno())
