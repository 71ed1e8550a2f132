"""`EventLog`: a log of the events on this node, with one JSON object per line."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
import time
from collections.abc import Sequence

from elastic.agent.errors import SettingsError


class EventLog:
    """Appends events to a file; each event is written as a whole line or not at all."""

    def __init__(self, path: str, node: str) -> None:
        try:
            self._file = open(path, "a", buffering=1, encoding="utf-8", opener=_open_nonblocking)  # noqa: SIM115
        except OSError as error:
            is_pipe = error.errno == errno.ENXIO
            why = "it is a pipe without a reader" if is_pipe else error.strerror
            raise SettingsError(f"cannot write the event log {path}: {why}") from None
        self._node = node
        self._lock = threading.Lock()

    def write(self, event: str, **details: str | int | Sequence[str] | None) -> None:
        """Write one event; details that are `None` are omitted."""
        present = {key: value for key, value in details.items() if value is not None}
        line = json.dumps({"time": round(time.time(), 3), "node": self._node, "event": event, **present})
        with self._lock:
            if not self._file.closed:
                with contextlib.suppress(OSError):  # a full disk must not end the job
                    self._file.write(f"{line}\n")

    def close(self) -> None:
        """Close the file; events after that are ignored."""
        with self._lock, contextlib.suppress(OSError):
            self._file.close()


def _open_nonblocking(path: str, flags: int) -> int:
    """Open the file `path` without waiting for a reader if it is a pipe."""
    file = os.open(path, flags | os.O_NONBLOCK, 0o666)
    os.set_blocking(file, True)
    return file
