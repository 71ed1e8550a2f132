"""Termination of a worker's process with its agent or its round."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import NoReturn

_WATCHDOG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lease_watchdog.py")
_WATCHDOG_ENVIRONMENT = ("LD_LIBRARY_PATH", "PATH")
"""Variables that Python may need to start; the watchdog is long-lived and must not hold secrets."""
_watchdogs: list[subprocess.Popen[bytes]] = []


def die_with_agent(agent: int) -> None:
    """Make the kernel kill this process when the agent that started it ends (Linux only).

    Does nothing if a shell or another program is in between: such a process ends with its lease.
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
        end_process_at_once()


def start_watchdog(lease: str) -> None:
    """Make the kernel kill this process when the lease in that file expires, even if it is frozen (Linux only).

    Without a watchdog, only the process itself checks its lease.
    """
    if not (sys.platform == "linux" and hasattr(time, "CLOCK_BOOTTIME") and sys.executable):
        return
    import fcntl

    read_end, write_end = os.pipe()
    command = [sys.executable, "-I", "-S", _WATCHDOG, lease, str(write_end)]
    null = subprocess.DEVNULL
    environment = {name: os.environ[name] for name in _WATCHDOG_ENVIRONMENT if name in os.environ}
    with contextlib.suppress(OSError):
        # A separate session: signals to this process's group must not reach it.
        watchdog = subprocess.Popen(
            command,
            pass_fds=[write_end],
            stdin=null,
            stdout=null,
            stderr=null,
            env=environment,
            start_new_session=True,
        )
        _watchdogs.append(watchdog)
    os.close(write_end)
    if not os.read(read_end, 1):  # wait until its timer is set
        return
    fcntl.fcntl(read_end, fcntl.F_SETOWN, -os.getpid() if os.getpgrp() == os.getpid() else os.getpid())
    fcntl.fcntl(read_end, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(read_end, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        os.read(read_end, 1)
        end_process_at_once()  # the watchdog ended just before the signal was set up


def end_process_at_once() -> NoReturn:
    """End at once without cleanup: successors repeat unfinished work.

    Its child processes end too: torch's agent makes each worker the leader of a process group.
    """
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(1)  # not reached
