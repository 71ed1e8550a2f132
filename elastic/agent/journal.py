"""`Journal`: what happened on this node, one JSON object a line, for people and for log collectors."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import Any

from elastic.agent.errors import SettingsError


class Journal:
    """Appends to a file; a line is whole or not there."""

    def __init__(self, path: str | None, node: str) -> None:
        try:
            self._file = open(path, "a", buffering=1, encoding="utf-8") if path else None  # noqa: SIM115
        except OSError as error:
            raise SettingsError(f"cannot write the event log {path}: {error.strerror}") from None
        self._node = node
        self._lock = threading.Lock()

    def write(self, event: str, **details: Any) -> None:
        """One event; None values are left out."""
        if self._file is None:
            return
        said = {key: value for key, value in details.items() if value is not None}
        line = json.dumps({"time": round(time.time(), 3), "node": self._node, "event": event, **said})
        with self._lock:
            if not self._file.closed:
                with contextlib.suppress(OSError):  # a full disk is no reason to end a job
                    self._file.write(f"{line}\n")

    def close(self) -> None:
        """Write no more."""
        if self._file is not None:
            with self._lock, contextlib.suppress(OSError):
                self._file.close()
