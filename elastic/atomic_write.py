"""Files that a reader sees whole or not at all."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_PARTIAL = re.compile(r"\..+\.[0-9a-f]{16}\.partial")
_DEAD_FOR_SURE = 3600
"""Seconds after which a file of a few lines is no longer being written."""


def atomic_write(path: Path, value: Mapping[str, object]) -> None:
    """Write JSON, and make the folder if there is none; on the disk when this returns.

    Writers on several hosts may share the folder: no two use one partial file, and what a killed one left
    behind is removed by a later one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.urandom(8).hex()}.partial")
    try:
        with partial.open("x", encoding="utf-8") as file:
            json.dump(value, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
            now = os.fstat(file.fileno()).st_mtime  # by the clock that stamps the others
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync(path.parent)
    _sweep(path.parent, now)


def _sync(folder: Path) -> None:
    """Have the new name on the disk as well, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with suppress(OSError):  # some file systems have nothing to do here, and say so
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sweep(folder: Path, now: float) -> None:
    for name in filter(_PARTIAL.fullmatch, os.listdir(folder)):
        with suppress(OSError):
            left = folder / name
            if now - left.lstat().st_mtime > _DEAD_FOR_SURE:
                left.unlink()
