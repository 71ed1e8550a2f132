"""Progress of a worker in a file that its agent reads, and its stacks on request.

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
"""Signal that nothing else uses; a worker without a progress file does not handle it."""
_FORMAT = struct.Struct("<dqq")


class ReportedStep(NamedTuple):
    """Content of the file."""

    at: float
    """Start of the last step, as `elastic.worker.worker_lease.lease_clock`."""
    number: int
    process: int


def progress_path(folder: str, round_: int, local_rank: int) -> str:
    """Path of the progress file of a worker in a round; its stacks are in the same path with `.stacks`."""
    return os.path.join(folder, f"progress-{round_}-{local_rank}")


class ProgressFile:
    """Worker's side of the progress file."""

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
        """Record that no more steps follow."""
        os.ftruncate(self._file, 0)


def read_progress(path: str) -> ReportedStep | None:
    """Last step of a worker; `None` before the first and after the last."""
    try:
        with open(path, "rb") as file:
            return ReportedStep(*_FORMAT.unpack(file.read()))
    except (OSError, struct.error):
        return None
