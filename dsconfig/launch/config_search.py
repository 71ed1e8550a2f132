"""Where a file is that a launch file names: nobody knows the working directory of the job."""

from __future__ import annotations

import os
import re
import sys

from dsconfig.core.file_bytes import is_file
from dsconfig.core.json_types import NamedTuple
from dsconfig.core.read_boundary import OUTSIDE, is_on_share, may_read, root

_UNKNOWN = r"\$(?:\w+|\{\w+\})/+"


class Place(NamedTuple):
    """Where a name leads to: the path (None: nowhere), and the folders that were tried."""

    path: str | None
    tried: tuple[str, ...]
    outside: str | None = None
    """The file that is there, and may not be read because a launch file names it."""

    @property
    def folder(self) -> str:
        """The folder that the name counts from, in words."""
        return _said(self.tried[-1]) if self.tried else "the file system's root"

    @property
    def folders(self) -> str:
        """All that were tried, in words."""
        return ", ".join(map(_said, self.tried))

    @property
    def why_unread(self) -> str | None:
        """Why the file that is there is not read, as the end of a sentence; None where there is none."""
        if self.outside is None:
            return None
        return f"{OUTSIDE}, and is not read: name {self.outside} itself, too, to have it checked"


def search(written: str, launch: str, inside: str = "") -> Place:
    """The file that a launch file at the path `launch` names, in the folder `inside` of the job's own.

    The current folder is tried first, then the launch file's own and those above it, up to the root of the
    repository. Of a path that begins with a variable, what follows that is searched for.
    """
    if inside and not os.path.isabs(written):
        found = search(os.path.join(inside, written), launch)
        if found.path is not None:
            return found
    if (match := re.match(_UNKNOWN, written)) and "$" not in written[match.end() :]:
        found = search(written[match.end() :], launch)
        return found if found.path is not None else found._replace(path=None)
    if launch.startswith("<"):
        return _at(written, written, launch, (os.curdir,)) or Place(None, (os.curdir,))
    if os.path.isabs(written):
        return _at(written, written, launch, ()) or _of_another_machine(written, launch)
    folder = os.path.dirname(os.path.abspath(launch))
    folders, top = [os.curdir], root(folder)
    while True:
        folders.append(folder)
        if folder == top or top is None or folder == os.path.dirname(folder):
            break
        folder = os.path.dirname(folder)
    tried: list[str] = []
    outside: str | None = None
    for each in folders:
        if os.path.abspath(each) not in map(os.path.abspath, tried):
            tried.append(each)
            path = os.path.normpath(os.path.join(each, written))
            if (there := _at(path, _short(path), launch, tuple(tried))) is None:
                continue
            if there.path is not None:
                return there
            outside = outside or there.outside
    return Place(None, tuple(tried), outside)


def _at(path: str, shown: str, launch: str, tried: tuple[str, ...]) -> Place | None:
    """The file at a path, unless it may not be read; None where there is none."""
    shared = is_on_share(path)
    if not shared and not is_file(path):  # most are not there: to resolve the links of each takes far longer
        return None
    if may_read(path, launch):
        return Place(shown, tried) if not shared or is_file(path) else None
    return Place(None, tried, shown)


def _of_another_machine(written: str, launch: str) -> Place:
    """The file that a path leads to where the repository stands in another folder than here."""
    parts = written.split("/")[2:]
    for at in range(min(len(parts), _PARTS)):
        found = search("/".join(parts[at:]), launch)
        if found.path is not None:
            return found
    return Place(None, ())


_PARTS = 16


def _short(path: str) -> str:
    """The path as it is called from the current folder, where that belongs to the same repository."""
    short, top = os.path.relpath(path), root(os.path.abspath(os.curdir))
    outside = short.startswith(os.pardir) and (
        top is None or not os.path.abspath(path).startswith(top + os.sep)
    )
    return path if outside else short


def installed(pattern: str, name: str) -> str | None:
    """The file of a preset within the installed packages; None where it is not there."""
    if not pattern or not is_name(name):
        return None
    paths = (os.path.join(folder, pattern.format(name)) for folder in sys.path if folder)
    return next((path for path in paths if os.path.isfile(path)), None)


def is_name(written: str) -> bool:
    """Whether this can be the name of a preset."""
    return written.replace("_", "").isalnum()


def _said(folder: str) -> str:
    return "the current folder" if folder == os.curdir else os.path.relpath(folder)
