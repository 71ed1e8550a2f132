"""Files that a reader sees whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path


def atomic_write(path: Path, value: Mapping[str, object]) -> None:
    """Write JSON, and make the folder if there is none; on the disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
