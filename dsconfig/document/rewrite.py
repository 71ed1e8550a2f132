"""Writing a file that was read before: all of it or nothing, and never over what someone else wrote since."""

from __future__ import annotations

import os
import stat
from contextlib import suppress


class ChangedError(OSError):
    """The file is not what was read."""

    def __init__(self, path: str) -> None:
        super().__init__(None, "changed while it was being fixed, and is left as it is", path)


def rewrite(path: str, old: bytes, new: bytes) -> None:
    """Put `new` in the file that held `old`, by a new file of the same mode that takes its place.

    A symbolic link stays one: what it leads to is written.

    Raises:
        ChangedError: the file does not hold `old` any more.
        OSError: it cannot be written.
    """
    path = os.path.realpath(path)
    if not os.access(path, os.W_OK):  # taking its place would need no right to write it
        raise PermissionError(13, "permission denied", path)
    before = _checked(path, old)
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name[:100]}.{os.getpid()}.dsconfig")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(new)
            file.flush()
            os.fsync(file.fileno())
        with suppress(OSError):  # only root can give a file away
            _give(draft, before)
        os.chmod(draft, stat.S_IMODE(before.st_mode))
        _checked(path, old)
        os.replace(draft, path)
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
