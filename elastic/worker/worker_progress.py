"""A worker's progress, in a file that its agent reads, and the worker's stacks on request.

The agent requests stacks by a signal that `faulthandler` handles in C, so that a worker answers even if it hangs in a
collective or holds the GIL.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import struct
from typing import NamedTuple

from elastic.worker.worker_lease import lease_clock

SHOW_STACKS = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else signal.SIGTERM
"""Signal that asks a worker for its stacks and has no other use; only a worker with a progress file handles it."""
_FORMAT = struct.Struct("<dqq")


class ReportedStep(NamedTuple):
    """The content of a worker's progress file: its last step and its process ID."""

    at: float
    """Time at which the last step started, by `elastic.worker.worker_lease.lease_clock`."""
    number: int
    process: int


def progress_path(folder: str, round_: int, local_rank: int) -> str:
    """Return the path of a worker's progress file in a round; the file for stacks has `.stacks` appended."""
    return os.path.join(folder, f"progress-{round_}-{local_rank}")


class ProgressFile:
    """The progress file of a worker, as written by the worker."""

    def __init__(self, path: str) -> None:
        self._count = 0
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if hasattr(faulthandler, "register") and SHOW_STACKS != signal.SIGTERM:
            self._stacks = open(f"{path}.stacks", "w", encoding="utf-8")  # noqa: SIM115 - while it lives
            faulthandler.register(SHOW_STACKS, self._stacks, all_threads=True)

    def step(self) -> None:
        """Record the start of a step."""
        self._count += 1
        os.pwrite(self._file, _FORMAT.pack(lease_clock(), self._count, os.getpid()), 0)

    def end(self) -> None:
        """Record that no further steps follow."""
        os.ftruncate(self._file, 0)


def read_progress(path: str) -> ReportedStep | None:
    """Return the last step of a worker, or `None` before its first step and after it has finished."""
    try:
        with open(path, "rb") as file:
            return ReportedStep(*_FORMAT.unpack(file.read()))
    except (OSError, struct.error):
        return None
