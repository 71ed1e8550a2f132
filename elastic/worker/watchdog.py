"""The keeper: a process beside each worker, by whose end the kernel ends the worker when its lease does.

Run as `watchdog.py LEASE DESCRIPTOR` by `elastic.worker.process.keep_lease`, the worker.  A check that a worker
makes itself comes too late where it is frozen between the check and what it does next: it wakes, and does
it.  So nothing that must be awake ends it: a kernel timer kills the keeper at the end of the lease, which is
all that the keeper sets on while the agent renews it; the pipe that the keeper held is closed by that, which
has the kernel send SIGKILL to the worker and to what it has started.  Stopped processes die too.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable

_BOOTTIME = 7
"""`CLOCK_BOOTTIME` in linux/time.h, the clock of `elastic.worker.lease.now`."""
_ABSOLUTE = 1
"""`TIMER_ABSTIME` in linux/time.h."""
_EVENT_WORDS = 16
"""64 bytes of `struct sigevent` in asm-generic/siginfo.h: a value of two words, the signal, what to do."""
_PAUSE = 100
"""Milliseconds between two looks at the lease."""


def main() -> None:
    """Stay until the lease has run out, or the worker has gone; say when the timer is set."""
    lease, pipe, worker = os.open(sys.argv[1], os.O_RDONLY), int(sys.argv[2]), os.getppid()
    die_at = _timer()
    gone = select.poll()
    gone.register(pipe, select.POLLERR)
    said = False
    while os.getppid() == worker:
        until: float = struct.unpack("<d", os.pread(lease, 8, 0))[0]
        if until <= time.clock_gettime(_BOOTTIME):
            return
        die_at(until)
        said = said or os.write(pipe, b"\1") > 0
        if gone.poll(_PAUSE):
            return


def _timer() -> Callable[[float], None]:
    """What sets the moment at which the kernel kills this process."""
    libc = ctypes.CDLL(None)
    event = (ctypes.c_int * _EVENT_WORDS)(0, 0, signal.SIGKILL, 0)  # 0: SIGEV_SIGNAL
    timer = ctypes.c_void_p()
    if libc.timer_create(_BOOTTIME, ctypes.byref(event), ctypes.byref(timer)) != 0:
        return lambda _: None  # then this process must be awake to end in time

    def die_at(moment: float) -> None:
        at = (ctypes.c_long * 4)(0, 0, int(moment), int(moment % 1 * 1e9))
        libc.timer_settime(timer, _ABSOLUTE, ctypes.byref(at), None)

    return die_at


if __name__ == "__main__":
    main()
