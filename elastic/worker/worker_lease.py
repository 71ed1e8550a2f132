"""The lease of a round's workers: a file with two flags and an expiry time on this host's clock.

The agent renews the lease after each heartbeat that the store has accepted. A worker checks the lease in each step, and
its watchdog (`elastic.worker.lease_watchdog`) makes the kernel kill the worker when the lease expires. The lease
expires before the other nodes may form a group without this one, so that a frozen or disconnected node never trains at
the same time as its successors. One flag says that the agent wants a checkpoint, the other that the agent is about to
end the workers.
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


def lease_clock() -> float:
    """Return the time of this host's clock in seconds, including time asleep if the system supports that."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def lease_path(folder: str, round_: int) -> str:
    """Return the path of a round's lease; each round has its own, so that an old worker cannot use a later one."""
    return os.path.join(folder, f"lease-{round_}")


class Lease:
    """A lease file: an expiry time of 8 bytes, written atomically for readers on this host, and a byte per flag."""

    def __init__(self, path: str, *, create: bool = False) -> None:
        flags = os.O_RDWR | os.O_CREAT if create else os.O_RDONLY
        self._file = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()
        self._ended = False
        if create:
            os.pwrite(self._file, bytes(_REVOKED + 1), 0)

    def renew(self, expiry: float) -> None:
        """Let workers run until `expiry` on `lease_clock`; do nothing once the lease has ended."""
        self._write(_FORMAT.pack(expiry), 0)
        self._write(b"\0", _REVOKED)

    def revoke(self) -> None:
        """Stop workers for now; an expired lease stays expired, without a grace period."""
        self._write(b"\1", _REVOKED)

    def end(self) -> None:
        """Stop workers for good, even if another thread is about to renew the lease."""
        self.revoke()
        self._write(_FORMAT.pack(0.0), 0)
        with self._lock:
            if not self._ended:
                self._ended = True
                os.close(self._file)

    def remaining(self) -> float:
        """Return the seconds until the lease expires, negative if it has expired."""
        expiry: float = _FORMAT.unpack(self._read(_FORMAT.size, 0))[0]
        return expiry - lease_clock()

    @property
    def valid(self) -> bool:
        """Whether the lease lets workers run."""
        return not self.revoked and self.remaining() > 0

    @property
    def revoked(self) -> bool:
        """Whether the agent has revoked the lease, as opposed to letting it expire."""
        return self._read(1, _REVOKED) == b"\1"

    def ask_for_checkpoint(self, wanted: bool) -> None:
        """Set or clear the flag that asks workers for a checkpoint."""
        self._write(bytes([wanted]), _WANTED)

    @property
    def checkpoint_wanted(self) -> bool:
        """Whether the agent wants a checkpoint."""
        return self._read(1, _WANTED) == b"\1"

    def _write(self, value: bytes, at: int) -> None:
        with self._lock:
            if not self._ended:
                os.pwrite(self._file, value, at)

    def _read(self, size: int, at: int) -> bytes:
        with self._lock:  # another thread may close the file, whose descriptor may then be reused
            return _ENDED[at : at + size] if self._ended else os.pread(self._file, size, at)
