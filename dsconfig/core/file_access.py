"""Read files up to a size limit, and decide whether one file may be read because another names it."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache

# Read bytes up to a limit, and never block.
#
# A path can be anything that a user typed or a folder contains: a pipe without a writer, an endless device, a
# link to itself.

MAX_SIZE = 2 * 1024 * 1024
"""Maximum size of a file in bytes, or of a text in code points; anything larger is one `too-large` problem."""
MAX_NOTEBOOK_SIZE = 16 * 1024 * 1024
"""Maximum size of a notebook in bytes, larger than for other files because outputs may contain pictures."""
_HANDED = r"/dev/stdin|(?:/dev|/proc/self)/fd/[0-9]+"
"""Paths of file descriptors passed to this process, as by the shell's `<(...)`: read to the end, like stdin."""
_KINDS = (
    (stat.S_ISFIFO, "is a pipe, not a file; `-` reads stdin"),
    (stat.S_ISSOCK, "is a socket, not a file"),
    (stat.S_ISCHR, "is a device, not a file"),
    (stat.S_ISBLK, "is a device, not a file"),
)
_CHUNK_SIZE, _FIRST_READ = 1 << 20, 1 << 16
unsaved: dict[str, bytes] = {}
"""Unsaved contents of files that are open in an editor, by real path; they replace the bytes on disk."""
_FLAGS = sum(getattr(os, flag, 0) for flag in ("O_RDONLY", "O_BINARY", "O_CLOEXEC", "O_NOCTTY", "O_NONBLOCK"))
"""Flags that keep `open` from blocking, even on a pipe that replaced the file in the meantime."""


def read_contents(path: str | os.PathLike[str], limit: int = MAX_SIZE) -> bytes:
    """Return the first `limit` + 1 bytes of a file; the extra byte shows that the file is longer.

    Raises:
        OSError: the file cannot be read, or is not a regular file.
    """
    if unsaved and (data := unsaved.get(os.path.realpath(path))) is not None:
        return data[: limit + 1]
    with open_regular_file(path) as descriptor:
        return read_descriptor(descriptor, limit + 1)


def read_directory_entry(entry: os.DirEntry[str], limit: int) -> bytes:
    """Read a directory entry of known type, twice as fast as `read_contents` for thousands of files.

    Unsaved contents of an editor are not considered.

    Raises:
        OSError: the file cannot be read, or is not a regular file.
    """
    if not entry.is_file(follow_symlinks=False):
        return read_contents(entry.path, limit)
    descriptor = os.open(entry.path, _FLAGS)
    try:
        head = os.read(descriptor, _FIRST_READ)
        # A short read of a regular file means the end of the file.
        return (
            head if len(head) < _FIRST_READ else head + read_descriptor(descriptor, limit + 1 - _FIRST_READ)
        )
    finally:
        os.close(descriptor)


def is_file(path: str) -> bool:
    """Return whether a file exists at the path, on disk or as unsaved contents of an editor."""
    if "\0" in path:  # invalid in a file name; `realpath` would raise
        return False
    return os.path.isfile(path) or (bool(unsaved) and os.path.realpath(path) in unsaved)


@contextmanager
def open_regular_file(path: str | os.PathLike[str]) -> Iterator[int]:
    """Open a regular file, or a pipe passed to this process, and yield the descriptor.

    Raises:
        OSError: the file cannot be opened, or is neither a regular file nor such a pipe.
    """
    name = os.fspath(path)
    is_inherited = name.startswith(("/dev/", "/proc/")) and re.fullmatch(_HANDED, name) is not None
    _check_file_type(
        path, _file_status(path), is_inherited=is_inherited
    )  # some devices do something when they are opened
    descriptor = os.open(path, _FLAGS)
    try:
        _check_file_type(path, os.fstat(descriptor), is_inherited=is_inherited)
        if is_inherited and hasattr(os, "set_blocking"):
            os.set_blocking(descriptor, True)
        yield descriptor
    except OSError as error:
        error.filename = error.filename or os.fspath(path)
        raise
    finally:
        os.close(descriptor)


def read_descriptor(descriptor: int, count: int) -> bytes:
    """Read `count` bytes from the descriptor, or fewer if the file ends first.

    Raises:
        OSError: the bytes cannot be read, or reading them would block.
    """
    # `os.read` allocates what it is asked for: a mebibyte for each small file would dominate the run time.
    pieces, size = [], _FIRST_READ
    try:
        while count > 0 and (piece := os.read(descriptor, min(count, size))):
            pieces.append(piece)
            count -= len(piece)
            size = _CHUNK_SIZE
    except BlockingIOError:  # kernel files that block until an event
        raise OSError(errno.EAGAIN, "has no data to read yet") from None
    return b"".join(pieces)


def _file_status(path: str | os.PathLike[str]) -> os.stat_result:
    try:
        return os.stat(path)
    except FileNotFoundError:
        if os.path.islink(path):
            raise FileNotFoundError(
                errno.ENOENT, "is a link to a file that does not exist", os.fspath(path)
            ) from None
        raise


def _check_file_type(path: str | os.PathLike[str], status: os.stat_result, *, is_inherited: bool) -> None:
    if stat.S_ISREG(status.st_mode) or (is_inherited and stat.S_ISFIFO(status.st_mode)):
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory", os.fspath(path))
    message = next((message for is_kind, message in _KINDS if is_kind(status.st_mode)), "is not a file")
    raise OSError(errno.EINVAL, message, os.fspath(path))


# Whether one file may be read because of another. Nothing else decides this.
#
# A repository is untrusted: a user cloned or unpacked it. A link in it, a launch file's `--deepspeed` or a
# model named in `"$dsconfig"` can point to `/proc/self/environ` or a private key. A file that was discovered,
# or that another file refers to, is therefore read only within the repository (or folder) of the referring
# file. A file that the user names as an argument can be anywhere.

OUTSIDE = "is outside of this repository"
_SYSTEM = ("/proc", "/sys", "/dev")
_MEMORY = "/dev/shm"  # an ordinary file system, which may hold projects
_named: set[str] = set()
"""Real paths of files and folders that the user named as arguments, or opened as workspace folders."""


@cache
def repository_root(folder: str) -> str | None:
    """Return the root of the repository that contains an absolute folder, or None outside any repository."""
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder


def relative_path(path: str, start: str = os.curdir) -> str:
    """Return a path relative to a folder, or the absolute path if Windows has them on different drives."""
    try:
        return os.path.relpath(path, start)
    except ValueError:
        return os.path.abspath(path)


def is_absolute(path: str) -> bool:
    """Return whether a path is absolute on this machine, or on the Linux machine of a job.

    On Windows, Python 3.13 and newer treat `/data/ds.json` as a relative path.
    """
    return path.startswith("/") or os.path.isabs(path)


def register_named_paths(paths: Iterable[str]) -> dict[str, str]:
    """Register the paths that the user named, replacing earlier ones; return the real path of each valid path.

    A launch file may name a registered file as its config even if that file is outside the repository.
    """
    real_paths = {path: real for path in paths if (real := _real_path(path)) is not None}
    _named.clear()
    _named.update(real_paths.values())
    return real_paths


def _real_path(path: str) -> str | None:
    """Return the real path of a file, or None if the path is not valid."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return None


def may_read_discovered_file(path: str) -> bool:
    """Return whether a discovered file may be read: it is not a link, or links to a file in the repository."""
    return not os.path.islink(path) or may_read_file(path, path)


def is_link_out_of_repository(path: str) -> bool:
    """Return whether a path in the working folder or its repository is a link that leads outside."""
    cwd, real = os.path.realpath(os.curdir), _real_path(path)
    full_path = os.path.normpath(os.path.join(cwd, path))
    return real is not None and any(
        _folder_contains(folder, full_path) and not _folder_contains(folder, real)
        for folder in _allowed_folders(cwd)
    )


def may_read_file(path: str, launch: str) -> bool:
    """Return whether the file at `path` may be read because the file at `launch` names it.

    For a discovered file, both paths are the same, because the file may be a link. The file need not exist.
    """
    if os.name == "nt" and is_on_network_share(path) and not is_on_network_share(os.path.abspath(launch)):
        return False  # opening it would send the user's credentials to the server
    real = _real_path(path)
    if real is None:
        return False
    if real in _named and not os.path.isdir(real):
        return True
    if _is_system_file(real):
        return False
    folder = os.path.realpath(os.curdir if launch.startswith("<") else os.path.dirname(launch) or os.curdir)
    return any(_is_inside_folder(real, home_folder, folder) for home_folder in _allowed_folders(folder))


def _allowed_folders(folder: str) -> set[str]:
    """Return a folder's repository, or else the folder and the user-named folders that contain it."""
    top = repository_root(folder)
    if top is not None:
        return {top}
    homes = {each for each in (os.path.realpath(os.curdir), *_named) if _folder_contains(each, folder)}
    return {folder, *(each for each in homes if each != os.path.dirname(each))}


def _is_inside_folder(real: str, home_folder: str, folder: str) -> bool:
    """Return whether a file is inside a home folder without being a private file such as `.ssh` or `.netrc`."""
    if not _folder_contains(home_folder, real):
        return False
    hidden = [part for part in os.path.relpath(real, home_folder).split(os.sep) if part.startswith(".")]
    if ".git" in hidden:  # `.git/config` may contain a password
        return False
    if not hidden or (
        repository_root(folder) == home_folder and not _folder_contains(home_folder, _home_directory())
    ):
        return True
    common = os.path.commonpath([os.path.dirname(real), folder])
    return not any(part.startswith(".") for part in os.path.relpath(real, common).split(os.sep))


def _home_directory() -> str:
    return os.path.realpath(os.path.expanduser("~"))


def _folder_contains(folder: str, path: str) -> bool:
    """Return whether a path is a folder itself or is inside it."""
    folder, path = os.path.normcase(folder), os.path.normcase(path)
    return path == folder or path.startswith(os.path.join(folder, ""))


def _is_system_file(real: str) -> bool:
    """Return whether the kernel provides the file, which may be endless or contain secrets."""
    return any(_folder_contains(each, real) for each in _SYSTEM) and not _folder_contains(_MEMORY, real)


def is_on_network_share(path: str) -> bool:
    r"""Return whether a path is, or links to, a Windows network share (`\\server\share`)."""
    for _ in range(_MAX_LINKS):
        if path.replace("/", "\\").startswith("\\\\"):
            return not path.startswith("\\\\?\\") or path.startswith("\\\\?\\UNC")
        try:
            path = os.readlink(path)
        except (OSError, ValueError):  # not a link, or an invalid name
            return False
    return True


_MAX_LINKS = 40
"""Maximum length of a chain of links; a longer chain is considered circular."""
