"""How a worker's process ends with its agent or its round."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import NoReturn

_KEEPER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "watchdog.py")
_KEEPER_NEEDS = ("LD_LIBRARY_PATH", "PATH")
"""Variables without which Python may not start; the keeper outlives much, and holds no secret."""
_keepers: list[subprocess.Popen[bytes]] = []


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


def keep_lease(lease: str) -> None:
    """Have the kernel kill this process when the lease in that file runs out, asleep or awake (Linux only).

    Where no keeper can be started, the process's own looks at its lease remain.
    """
    if not (sys.platform == "linux" and hasattr(time, "CLOCK_BOOTTIME") and sys.executable):
        return
    import fcntl

    ours, keepers = os.pipe()
    command = [sys.executable, "-I", "-S", _KEEPER, lease, str(keepers)]
    no = subprocess.DEVNULL
    kept = {name: os.environ[name] for name in _KEEPER_NEEDS if name in os.environ}
    with contextlib.suppress(OSError):
        # Its own session: a signal to this process's group is not meant for it.
        keeper = subprocess.Popen(
            command, pass_fds=[keepers], stdin=no, stdout=no, stderr=no, env=kept, start_new_session=True
        )
        _keepers.append(keeper)
    os.close(keepers)
    if not os.read(ours, 1):  # until its timer is set: nothing is done before that
        return
    fcntl.fcntl(ours, fcntl.F_SETOWN, -os.getpid() if os.getpgrp() == os.getpid() else os.getpid())
    fcntl.fcntl(ours, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        os.read(ours, 1)
        die()  # it ended just before this process asked for the signal


def die() -> NoReturn:
    """End at once without cleaning up: what this process has not finished, its successors do again.

    With it go the processes that it has started: torch's agent makes each worker the leader of a group.
    """
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(1)  # not reached
