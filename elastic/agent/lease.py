"""The lease under which workers run: a moment on this host's monotonic clock, in a file with one flag.

The agent renews it after each heartbeat that the store has taken; a worker looks at it in each step and in a
thread of its own.  It ends before the other nodes may form a group without this one, so that a frozen or cut
off node never trains beside its successors.  The flag asks the workers for a checkpoint.
"""

from __future__ import annotations

import os
import struct
import time

_FORMAT = struct.Struct("<d")
_FLAG = _FORMAT.size


class Lease:
    """The file; 8 bytes written at once, which a reader on the same host sees whole, and one for the flag."""

    def __init__(self, path: str, *, create: bool = False) -> None:
        flags = os.O_RDWR | os.O_CREAT if create else os.O_RDONLY
        self._file = os.open(path, flags | os.O_CLOEXEC, 0o600)
        if create:
            self.revoke()
            self.ask_for_checkpoint(False)

    def renew(self, until: float) -> None:
        """Let workers run until this moment of `time.monotonic`."""
        os.pwrite(self._file, _FORMAT.pack(until), 0)

    def revoke(self) -> None:
        """End it now."""
        self.renew(0.0)

    def left(self) -> float:
        """Seconds that are left; negative where it has run out."""
        until: float = _FORMAT.unpack(os.pread(self._file, _FORMAT.size, 0))[0]
        return until - time.monotonic()

    def ask_for_checkpoint(self, wanted: bool) -> None:
        """Set the flag."""
        os.pwrite(self._file, bytes([wanted]), _FLAG)

    @property
    def checkpoint_wanted(self) -> bool:
        """The flag."""
        return os.pread(self._file, 1, _FLAG) == b"\1"

    def close(self) -> None:
        """Give the file back."""
        os.close(self._file)
