"""How far a worker has come, in a file that its agent reads; and its stacks, whenever the agent asks.

The agent asks by a signal that `faulthandler` answers in C: a worker that hangs in a collective, or holds the
interpreter's lock, answers too.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import struct
from typing import NamedTuple

from elastic.worker.lease import now

SHOW_STACKS = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else signal.SIGTERM
"""A signal that nobody else uses; a worker that has written no progress does not know it."""
_FORMAT = struct.Struct("<dqq")


class Step(NamedTuple):
    """What the file says."""

    at: float
    """When the last step began, as `elastic.worker.lease.now`."""
    number: int
    process: int


def progress_path(folder: str, round_: int, local_rank: int) -> str:
    """One file for each worker of a round; its stacks are in the file of that name and `.stacks`."""
    return os.path.join(folder, f"progress-{round_}-{local_rank}")


class Progress:
    """The worker's end."""

    def __init__(self, path: str) -> None:
        self._count = 0
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if hasattr(faulthandler, "register") and SHOW_STACKS != signal.SIGTERM:
            self._stacks = open(f"{path}.stacks", "w", encoding="utf-8")  # noqa: SIM115 - while it lives
            faulthandler.register(SHOW_STACKS, self._stacks, all_threads=True)

    def step(self) -> None:
        """A step begins."""
        self._count += 1
        os.pwrite(self._file, _FORMAT.pack(now(), self._count, os.getpid()), 0)

    def end(self) -> None:
        """No more steps will come."""
        os.ftruncate(self._file, 0)


def read_progress(path: str) -> Step | None:
    """The last step of a worker; `None` before the first and after the last."""
    try:
        with open(path, "rb") as file:
            return Step(*_FORMAT.unpack(file.read()))
    except (OSError, struct.error):
        return None
