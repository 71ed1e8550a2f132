"""How a worker's process ends with its agent or its round."""

from __future__ import annotations

import os
import signal


def die_with_agent(agent: int) -> None:
    """Have the kernel kill this process when the agent that started it ends (Linux only).

    Does nothing for a process with a shell or another program in between: that one ends with its lease.
    """
    if os.getppid() != agent:
        return
    try:
        import ctypes

        set_death_signal = 1  # PR_SET_PDEATHSIG in linux/prctl.h
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):
        return
    if os.getppid() != agent:  # it died during the call
        die()


def die() -> None:
    """End at once without cleaning up: what this process has not finished, its successors do again.

    With it go the processes that it has started: torch's agent makes each worker the leader of a group.
    """
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
