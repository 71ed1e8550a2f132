"""The lease under which the workers of a round run: a moment on this host's clock, in a file with two flags.

The agent renews it after each heartbeat that the store has taken; a worker looks at it in each step, and its
keeper (`elastic.worker.watchdog`) has the kernel end it at that moment.  It ends before the other nodes may
form a group without this one, so that a frozen node, or one that was cut off, never trains beside its
successors.  The flags: the agent wants a checkpoint; the agent is about to end the workers.
"""

from __future__ import annotations

import os
import struct
import threading
import time

_FORMAT = struct.Struct("<d")
_WANTED = _FORMAT.size
_REVOKED = _WANTED + 1
_ENDED = _FORMAT.pack(0.0) + b"\0\1"


def now() -> float:
    """Seconds on this host's clock, one that goes on while the host sleeps if the system has such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def lease_path(folder: str, round_: int) -> str:
    """One file a round: a worker that its agent could not end must not find its successors' lease."""
    return os.path.join(folder, f"lease-{round_}")


class Lease:
    """The file: 8 bytes written at once, which readers on the same host see whole, and one for each flag."""

    def __init__(self, path: str, *, create: bool = False) -> None:
        flags = os.O_RDWR | os.O_CREAT if create else os.O_RDONLY
        self._file = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()
        self._ended = False
        if create:
            os.pwrite(self._file, bytes(_REVOKED + 1), 0)

    def renew(self, until: float) -> None:
        """Let workers run until this moment of `now`; does nothing once the lease has ended."""
        self._write(_FORMAT.pack(until), 0)
        self._write(b"\0", _REVOKED)

    def revoke(self) -> None:
        """Let them run no more, for now; a lease that has run out already stays so, and gives no grace."""
        self._write(b"\1", _REVOKED)

    def end(self) -> None:
        """Let them run no more, whatever another thread is about to write."""
        self.revoke()
        self._write(_FORMAT.pack(0.0), 0)
        with self._lock:
            if not self._ended:
                self._ended = True
                os.close(self._file)

    def remaining(self) -> float:
        """Seconds until it runs out; negative once it has."""
        until: float = _FORMAT.unpack(self._read(_FORMAT.size, 0))[0]
        return until - now()

    @property
    def valid(self) -> bool:
        """Whether workers may run."""
        return not self.revoked and self.remaining() > 0

    @property
    def revoked(self) -> bool:
        """Whether the agent took it back, which is about to end the worker, rather than let it run out."""
        return self._read(1, _REVOKED) == b"\1"

    def ask_for_checkpoint(self, wanted: bool) -> None:
        """Set the flag."""
        self._write(bytes([wanted]), _WANTED)

    @property
    def checkpoint_wanted(self) -> bool:
        """The flag."""
        return self._read(1, _WANTED) == b"\1"

    def _write(self, value: bytes, at: int) -> None:
        with self._lock:
            if not self._ended:
                os.pwrite(self._file, value, at)

    def _read(self, size: int, at: int) -> bytes:
        with self._lock:  # another thread may be closing the file, and its number go to another file
            return _ENDED[at : at + size] if self._ended else os.pread(self._file, size, at)
