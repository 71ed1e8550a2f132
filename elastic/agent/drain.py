"""`Drain`: SIGTERM asks a node to leave in order, once its workers run; a second one ends it at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class Drain:
    """Whether this process was asked to leave.

    torch installs its own handler whenever it starts workers (`elastic/multiprocessing/api.py`,
    `PContext.start`), which ends them at once: `listen` takes the signal over again.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: signal._HANDLER = signal.SIG_DFL

    def listen(self) -> None:
        """Take SIGTERM over from whoever has it; does nothing outside the main thread, or once asked."""
        current = signal.getsignal(signal.SIGTERM)
        if self.asked or current == self._take or threading.current_thread() is not threading.main_thread():
            return
        self._before = signal.SIG_DFL if current is None else current
        signal.signal(signal.SIGTERM, self._take)

    def _take(self, number: int, _frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(number, self._before)
