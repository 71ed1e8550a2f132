"""Write files atomically, without overwriting changes made since the file was read.

The new text is written to a draft beside the file, and the draft then replaces the file in one step: whenever
the process ends, the file contains either the old text or the new one. An interrupted run may leave its draft behind,
which `remove_stale_drafts` removes. A run holds a lock on its draft, which the system releases when the run ends, so
that a draft in use is never taken for an abandoned one.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from dsconfig.core.file_access import open_regular_file, read_descriptor

try:
    import fcntl

    _LOCKS = True
except ImportError:  # Windows
    _LOCKS = False

_DRAFT = re.compile(r"\.dsconfig-draft-[0-9a-f]{16}")
_ABANDONED_AFTER = 86_400
"""Seconds after which a draft is considered abandoned, on systems that do not support locks."""
_PATIENCE = 1.0
"""Seconds for which Windows may deny to replace a file that a virus scanner, indexer or editor has just opened."""


class FileChangedError(OSError):
    """The file was changed after it was read."""

    def __init__(self, path: str) -> None:
        super().__init__(None, "changed while it was being fixed; it is not written", path)


def write_atomically(path: str, data: bytes) -> None:
    """Write data to a file, creating or replacing it.

    Raises:
        OSError: the file cannot be written.
    """
    try:
        before = os.stat(path)
    except FileNotFoundError:
        before = None
    # Write into a pipe or device, never replace it.
    if before is not None and not stat.S_ISREG(before.st_mode):
        _write_into_pipe(path, data, before)
        return
    path = os.path.realpath(path)
    if before is not None:
        _check_replaceable(path, before)
    with _write_draft(path, data, before) as draft:
        _replace_file(draft, path)


def rewrite_if_unchanged(path: str, old: bytes, new: bytes) -> None:
    """Replace the content of a file with `new`, provided that it still is `old`.

    Raises:
        FileChangedError: the file no longer contains `old`.
        OSError: the file cannot be written.
    """
    path = os.path.realpath(path)
    before = _stat_if_unchanged(path, old)
    _check_replaceable(path, before)
    with _write_draft(path, new, before) as draft:
        _stat_if_unchanged(path, old)
        _replace_file(draft, path)


def _replace_file(draft: str, path: str) -> None:
    """Replace a file with its draft; on Windows, wait until no other program has the file open.

    Raises:
        OSError: the file cannot be replaced; `filename` is its path, not that of the draft.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            os.replace(draft, path)
            return
        except OSError as error:
            if not (os.name == "nt" and isinstance(error, PermissionError) and time.monotonic() < deadline):
                raise OSError(error.errno, error.strerror or str(error), path) from None
        time.sleep(_PATIENCE / 20)


def remove_stale_drafts(folder: str) -> None:
    """Remove the drafts that killed processes have left in a folder."""
    with suppress(OSError):
        for name in filter(_DRAFT.fullmatch, os.listdir(folder)):
            with suppress(OSError):
                _remove_if_abandoned(os.path.join(folder, name))


def _remove_if_abandoned(draft: str) -> None:
    status = os.lstat(draft)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        return  # not one of our drafts
    if not _LOCKS:  # Windows does not remove open files, but a draft is closed before it replaces the file
        if time.time() - status.st_mtime > _ABANDONED_AFTER:
            os.unlink(draft)
        return
    descriptor = os.open(draft, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        is_locked = _try_to_lock(descriptor)
        if is_locked or (is_locked is None and time.time() - status.st_mtime > _ABANDONED_AFTER):
            os.unlink(draft)
    finally:
        os.close(descriptor)


def _write_into_pipe(path: str, data: bytes, before: os.stat_result) -> None:
    """Write data into a pipe or device, such as stdout."""
    if stat.S_ISBLK(before.st_mode):
        raise OSError(errno.EINVAL, "is a disk, not a file", path)
    try:
        descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "is a pipe that no process reads from", path) from None
        raise
    try:
        if hasattr(os, "set_blocking"):
            os.set_blocking(descriptor, True)
        _write_all_bytes(descriptor, data)
    finally:
        os.close(descriptor)


def _check_replaceable(path: str, before: os.stat_result) -> None:
    """Raise OSError for a file that is not writable or has several names (hard links).

    Replacing a file would succeed without write permission, and the other names of the file would keep the old text.
    """
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "permission denied", path)
    if not stat.S_IMODE(before.st_mode) & 0o222:  # root passes the check above
        raise PermissionError(errno.EACCES, "is read-only", path)
    if before.st_nlink > 1:
        message = f"has {before.st_nlink} hard links, which replacing it would separate; it is not written"
        raise OSError(errno.EMLINK, message, path)


@contextmanager
def _write_draft(path: str, data: bytes, before: os.stat_result | None) -> Iterator[str]:
    """Write a draft next to the file at `path` and yield its path; remove the draft on an error.

    If the file exists (`before`), the draft gets its mode, owner and attributes.
    """
    descriptor, draft = _create_locked_file(os.path.dirname(path), 0o666 if before is None else 0o600)
    try:
        try:
            _write_all_bytes(descriptor, data)
            if before is not None:
                _copy_ownership(descriptor, path, before)
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


def _create_locked_file(folder: str, mode: int) -> tuple[int, str]:
    """Create a locked draft in a folder; return its file descriptor and path."""
    flags = ("O_WRONLY", "O_CREAT", "O_EXCL", "O_BINARY", "O_CLOEXEC")
    while True:
        draft = os.path.join(folder, f".dsconfig-draft-{os.urandom(8).hex()}")
        try:
            descriptor = os.open(draft, sum(getattr(os, flag, 0) for flag in flags), mode)
        except PermissionError as error:
            message = f"its folder cannot be written: {(error.strerror or '').lower()}"
            raise PermissionError(error.errno, message, folder) from None
        except (FileNotFoundError, NotADirectoryError) as error:
            error.filename = folder
            raise
        if _try_to_lock(descriptor) is not False and os.path.lexists(draft):
            return descriptor, draft
        os.close(descriptor)  # another run swept it before it was locked
        with suppress(OSError):
            os.unlink(draft)


def _try_to_lock(descriptor: int) -> bool | None:
    """Lock an open file; return whether that succeeded, or None if the file system has no locks."""
    if not _LOCKS:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _write_all_bytes(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _copy_ownership(descriptor: int, path: str, before: os.stat_result) -> None:
    """Copy a file's owner, attributes and mode to its draft, as far as permitted."""
    mode = stat.S_IMODE(before.st_mode)
    if not hasattr(os, "fchown"):
        return
    for owner in (before.st_uid, -1):  # only root can change the owner; anyone can use their own groups
        with suppress(OSError):
            os.fchown(descriptor, owner, before.st_gid)
            break
    if os.fstat(descriptor).st_gid != before.st_gid:
        mode = mode & ~0o070 | (mode & 0o007) << 3  # the group permissions were meant for another group
    _copy_attributes(path, descriptor)
    os.fchmod(descriptor, mode)


def _copy_attributes(path: str, descriptor: int) -> None:
    """Copy extended attributes such as access lists, replacing those inherited from the folder."""
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


def _stat_if_unchanged(path: str, old: bytes) -> os.stat_result:
    with open_regular_file(path) as descriptor:
        if read_descriptor(descriptor, len(old) + 1) != old:
            raise FileChangedError(path)
        return os.fstat(descriptor)
