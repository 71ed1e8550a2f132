"""`DrainRequest`: a first SIGTERM asks a node to leave cleanly while its workers run; a second one ends it at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class DrainRequest:
    """Signal handler that records whether SIGTERM has asked this process to leave the job.

    Whenever torch starts workers, it installs its own handler, which ends the workers at once, so `listen` must replace
    that handler again. Source: torch distributed/elastic/multiprocessing/api.py:PContext.start.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: signal._HANDLER = signal.SIG_DFL

    def listen(self) -> None:
        """Install the SIGTERM handler, unless this is not the main thread or the node was already asked to leave."""
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
