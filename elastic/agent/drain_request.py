"""`DrainRequest`: SIGTERM makes a node leave cleanly while its workers run; a second one ends it at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class DrainRequest:
    """Whether this process was asked to leave.

    Whenever torch starts workers, it installs its own handler, which ends them at once, so `listen` has to replace it
    again.  Source: torch distributed/elastic/multiprocessing/api.py:PContext.start.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: signal._HANDLER = signal.SIG_DFL

    def listen(self) -> None:
        """Replace the SIGTERM handler; does nothing outside the main thread, or once requested."""
        current = signal.getsignal(signal.SIGTERM)
        if (
            self.requested
            or current == self._handle
            or threading.current_thread() is not threading.main_thread()
        ):
            return
        self._before = signal.SIG_DFL if current is None else current
        signal.signal(signal.SIGTERM, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.requested = True
        signal.signal(number, self._before)
