"""Write JSON files atomically; defines the type of JSON values."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

_PARTIAL = re.compile(r"\..+\.[0-9a-f]{16}\.partial")
_STALE_AFTER = 3600
"""Age in seconds above which no process can still be writing a partial file."""


def atomic_write(path: Path, value: Mapping[str, object]) -> None:
    """Write `value` to `path` as JSON, atomically and durably, creating a missing parent folder.

    Writers on several hosts may share the folder: each writer uses its own partial file, and removes stale partial
    files of killed writers.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.urandom(8).hex()}.partial")
    try:
        with partial.open("x", encoding="utf-8") as file:
            json.dump(value, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
            now = os.fstat(
                file.fileno()
            ).st_mtime  # the clock of the file system, which also stamps the other files
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)
    _remove_stale_files(path.parent, now)


def _sync_directory(folder: Path) -> None:
    """Flush a directory's entries to disk if the system supports it."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with suppress(OSError):  # not supported by some file systems
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove_stale_files(folder: Path, now: float) -> None:
    for name in filter(_PARTIAL.fullmatch, os.listdir(folder)):
        with suppress(OSError):
            partial = folder / name
            if now - partial.lstat().st_mtime > _STALE_AFTER:
                partial.unlink()


Json: TypeAlias = Any
"""Value of a JSON config or message."""
