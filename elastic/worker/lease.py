"""The lease under which the workers of a round run: a moment on this host's clock, in a file with one flag.

The agent renews it after each heartbeat that the store has taken; a worker looks at it in each step and in a
thread of its own.  It ends before the other nodes may form a group without this one, so that a frozen node,
or one that was cut off, never trains beside its successors.  The flag asks the workers for a checkpoint.
"""

from __future__ import annotations

import os
import struct
import threading
import time

_FORMAT = struct.Struct("<d")
_FLAG = _FORMAT.size


def now() -> float:
    """Seconds on this host's clock, one that goes on while the host sleeps if the system has such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def lease_path(folder: str, round_: int) -> str:
    """One file a round: a worker that its agent could not end must not find its successors' lease."""
    return os.path.join(folder, f"lease-{round_}")


class Lease:
    """The file: 8 bytes written at once, which a reader on the same host sees whole, and one for the flag."""

    def __init__(self, path: str, *, create: bool = False) -> None:
        flags = os.O_RDWR | os.O_CREAT if create else os.O_RDONLY
        self._file = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()
        self._ended = False
        if create:
            self.revoke()
            self.ask_for_checkpoint(False)

    def renew(self, until: float) -> None:
        """Let workers run until this moment of `now`; does nothing once the lease has ended."""
        with self._lock:
            if not self._ended:
                self._write(until)

    def revoke(self) -> None:
        """Let them run no more, for now."""
        self.renew(0.0)

    def end(self) -> None:
        """Let them run no more, whatever another thread is about to write."""
        with self._lock:
            if not self._ended:
                self._write(0.0)
                self._ended = True
                os.close(self._file)

    def remaining(self) -> float:
        """Seconds until it runs out; negative once it has."""
        return self._until() - now()

    @property
    def revoked(self) -> bool:
        """Whether the agent took it back, which is about to end the worker, rather than let it run out."""
        return self._until() == 0.0

    def ask_for_checkpoint(self, wanted: bool) -> None:
        """Set the flag."""
        with self._lock:
            if not self._ended:
                os.pwrite(self._file, bytes([wanted]), _FLAG)

    @property
    def checkpoint_wanted(self) -> bool:
        """The flag."""
        return os.pread(self._file, 1, _FLAG) == b"\1"

    def _write(self, until: float) -> None:
        os.pwrite(self._file, _FORMAT.pack(until), 0)

    def _until(self) -> float:
        with self._lock:  # another thread may be closing the file, and its number go to another file
            if self._ended:
                return 0.0
            until: float = _FORMAT.unpack(os.pread(self._file, _FORMAT.size, 0))[0]
        return until
