"""Writing a file: all of it or nothing, and never over what someone else wrote since it was read.

The new text is written to a draft beside the file, which then takes the file's place in one step: whatever
ends the process, and whenever, the file holds the old text or the new. What such an end leaves behind is a
draft, which `sweep` removes. A run holds a lock on its draft, which the system lifts when the run ends, so a
draft that is still being written is never taken for one that was left.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from dsconfig.core.file_access import opened, read

try:
    import fcntl

    _LOCKS = True
except ImportError:  # Windows, where nobody can remove a file that is open
    _LOCKS = False

_DRAFT = re.compile(r"\.dsconfig-draft-[0-9a-f]{16}")
_DEAD_FOR_SURE = 86_400
"""Seconds after which a draft was left behind, on file systems that know no locks."""


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
        _pour(path, data, before)
        return
    path = os.path.realpath(path)
    if before is not None:
        _check_replaceable(path, before)
    with _draft(path, data, before) as draft:
        os.replace(draft, path)


def rewrite(path: str, old: bytes, new: bytes) -> None:
    """Put `new` in the file that held `old`.

    Raises:
        ChangedError: the file does not hold `old` any more.
        OSError: it cannot be written.
    """
    path = os.path.realpath(path)
    before = _checked(path, old)
    _check_replaceable(path, before)
    with _draft(path, new, before) as draft:
        _checked(path, old)
        os.replace(draft, path)


def sweep(folder: str) -> None:
    """Remove the drafts that runs left behind in a folder when they were killed."""
    with suppress(OSError):
        for name in filter(_DRAFT.fullmatch, os.listdir(folder)):
            with suppress(OSError):
                _remove_if_left(os.path.join(folder, name))


def _remove_if_left(draft: str) -> None:
    found = os.lstat(draft)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        return  # nothing that we made
    if not _LOCKS:
        os.unlink(draft)
        return
    descriptor = os.open(draft, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        ours = _lock(descriptor)
        if ours or (ours is None and time.time() - found.st_mtime > _DEAD_FOR_SURE):
            os.unlink(draft)
    finally:
        os.close(descriptor)


def _pour(path: str, data: bytes, before: os.stat_result) -> None:
    """Write into a pipe or device, as into stdout."""
    if stat.S_ISBLK(before.st_mode):
        raise OSError(errno.EINVAL, "is a disk, not a file", path)
    try:
        descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "nobody reads from it", path) from None
        raise
    try:
        if hasattr(os, "set_blocking"):
            os.set_blocking(descriptor, True)
        _fill(descriptor, data)
    finally:
        os.close(descriptor)


def _check_replaceable(path: str, before: os.stat_result) -> None:
    """Refuse to take the place of a file that is not to be written, or that has other names besides.

    Taking its place would need no right to write it; under its other names it would keep its old text.
    """
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "permission denied", path)
    if not stat.S_IMODE(before.st_mode) & 0o222:  # which does not keep root from writing
        raise PermissionError(errno.EACCES, "is read-only", path)
    if before.st_nlink > 1:
        said = f"has {before.st_nlink} names (hard links), which writing it would part; it is left as it is"
        raise OSError(errno.EMLINK, said, path)


@contextmanager
def _draft(path: str, data: bytes, before: os.stat_result | None) -> Iterator[str]:
    """A finished file beside the one whose place it is to take; it is removed if it does not take it.

    It has the mode, the owner and the attributes of the file as it was `before`.
    """
    descriptor, draft = _create(os.path.dirname(path), 0o666 if before is None else 0o600)
    try:
        try:
            _fill(descriptor, data)
            if before is not None:
                _liken(descriptor, path, before)
            os.fsync(descriptor)
            if _LOCKS:
                yield draft  # under its lock
        finally:
            os.close(descriptor)
        if not _LOCKS:
            yield draft
    except BaseException as error:
        if isinstance(error, OSError):
            error.filename = error.filename or path
        with suppress(OSError):
            os.unlink(draft)
        raise


def _create(folder: str, mode: int) -> tuple[int, str]:
    """A new file that is locked: its descriptor and its path."""
    flags = ("O_WRONLY", "O_CREAT", "O_EXCL", "O_BINARY", "O_CLOEXEC")
    while True:
        draft = os.path.join(folder, f".dsconfig-draft-{os.urandom(8).hex()}")
        try:
            descriptor = os.open(draft, sum(getattr(os, flag, 0) for flag in flags), mode)
        except PermissionError as error:
            said = f"its folder cannot be written: {(error.strerror or '').lower()}"
            raise PermissionError(error.errno, said, folder) from None
        except (FileNotFoundError, NotADirectoryError) as error:
            error.filename = folder
            raise
        if _lock(descriptor) is not False and os.path.lexists(draft):
            return descriptor, draft
        os.close(descriptor)  # another run sweeps it, in the moment before it was locked
        with suppress(OSError):
            os.unlink(draft)


def _lock(descriptor: int) -> bool | None:
    """Whether the open file could be locked; None where the file system knows no locks."""
    if not _LOCKS:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _fill(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _liken(descriptor: int, path: str, before: os.stat_result) -> None:
    """Give the draft the owner, attributes and mode of the file, as far as this user may."""
    mode = stat.S_IMODE(before.st_mode)
    if not hasattr(os, "fchown"):
        return
    for owner in (before.st_uid, -1):  # only root can give a file away, but anyone among their own groups
        with suppress(OSError):
            os.fchown(descriptor, owner, before.st_gid)
            break
    if os.fstat(descriptor).st_gid != before.st_gid:
        mode = mode & ~0o070 | (mode & 0o007) << 3  # what the group may was said of another one
    _copy_attributes(path, descriptor)
    os.fchmod(descriptor, mode)


def _copy_attributes(path: str, descriptor: int) -> None:
    """Extended attributes, access lists among them; those that the folder gave to the draft are taken off."""
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):
        kept = os.listxattr(path)
        for name in os.listxattr(descriptor):
            if name not in kept:
                with suppress(OSError):
                    os.removexattr(descriptor, name)
        for name in kept:
            with suppress(OSError):
                os.setxattr(descriptor, name, os.getxattr(path, name))


def _checked(path: str, old: bytes) -> os.stat_result:
    with opened(path) as descriptor:
        if read(descriptor, len(old) + 1) != old:
            raise ChangedError(path)
        return os.fstat(descriptor)
