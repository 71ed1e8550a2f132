"""Which version of a consumer a repository requires, or the machine has."""

from __future__ import annotations

import os
import re
from functools import lru_cache

from dsconfig.core.file_bytes import contents
from dsconfig.core.read_boundary import is_own, root
from dsconfig.core.releases import version_installed
from dsconfig.launch.repository import tick

_FILES = (
    r"(?:[\w.-]*requirements[\w.-]*\.txt|constraints[\w.-]*\.txt|pyproject\.toml|setup\.(?:py|cfg)"
    r"|environment[\w.-]*\.ya?ml)"
)
_LARGEST, _MOST = 256 * 1024, 20


def version_of(consumer: str, name: str) -> tuple[str, str] | None:
    """The version with which the config at a path is read, and what says so; None: nothing does.

    What the files of its repository pin counts, the nearest folder first; else what is installed.
    """
    if name and not name.startswith("<"):
        folder = os.path.dirname(os.path.abspath(name))
        top = root(folder)
        while True:
            if (found := _pinned(folder, consumer, tick())) is not None:
                return found
            if top is None or folder in (top, os.path.dirname(folder)):
                break
            folder = os.path.dirname(folder)
    version = _installed(consumer)
    return None if version is None else (version, "as installed")


@lru_cache(maxsize=64)
def _pinned(folder: str, consumer: str, _: int) -> tuple[str, str] | None:
    pin = re.compile(rf"(?m)^[^#\n]*?\b{consumer}(?:\[[\w,\s-]*\])?\s*(?:==|~=|<=)\s*(\d+(?:\.\d+){{0,2}})")
    try:
        names = sorted(
            filter(re.compile(_FILES).fullmatch, os.listdir(folder)), key=lambda each: (len(each), each)
        )
    except OSError:
        return None
    for each in names[:_MOST]:
        path = os.path.join(folder, each)
        if not is_own(path):
            continue
        try:
            text = contents(path, _LARGEST).decode("latin-1")
        except OSError:
            continue
        if found := pin.search(text):
            return found[1], f"of {os.path.relpath(path)}"
    return None


_installed = lru_cache(maxsize=4)(version_installed)
