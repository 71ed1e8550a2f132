"""`Ledger`: what a worker of a test did and when, one file a process."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import elastic


class Ledger:
    """A line is on the disk before what it says is done."""

    def __init__(self, folder: Path, session: elastic.Session, **same: Any) -> None:
        name = f"{session.incarnation}-{session.round:04}-{session.rank}-{os.getpid()}.jsonl"
        self._file = open(folder / name, "a")  # noqa: SIM115
        self._same: dict[str, Any] = {
            "incarnation": session.incarnation,
            "round": session.round,
            "rank": session.rank,
            "world": session.world_size,
            "pid": os.getpid(),
            **same,
        }

    def write(self, event: str, **more: Any) -> None:
        line = {"t": time.monotonic(), "event": event, **self._same, **more}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
