"""The watchdog process of a worker: when the lease expires, the watchdog ends, and the kernel kills the worker.

The worker starts the watchdog as `lease_watchdog.py LEASE DESCRIPTOR` (`session.start_watchdog`). A check by the worker
itself is not enough: the worker may be frozen between the check and the next action, and act when it wakes up. Instead,
a kernel timer kills the watchdog when the lease expires; the watchdog resets the timer only while the agent renews the
lease. The end of the watchdog closes a pipe, which makes the kernel send SIGKILL to the worker and its children. This
also kills stopped processes.
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
"""Value of `CLOCK_BOOTTIME` in linux/time.h, the clock of `elastic.worker.worker_lease.lease_clock`."""
_ABSOLUTE = 1
"""Value of `TIMER_ABSTIME` in linux/time.h."""
_EVENT_WORDS = 16
"""Size of `struct sigevent` in ints (64 bytes, asm-generic/siginfo.h): a two-word value, the signal, what to do."""
_PAUSE = 100
"""Milliseconds between two checks of the lease by the watchdog."""


def main() -> None:
    """Run until the lease expires or the worker ends, after telling the worker that the timer is set."""
    lease, pipe, worker = os.open(sys.argv[1], os.O_RDONLY), int(sys.argv[2]), os.getppid()
    die_at = _kernel_timer()
    worker_end = select.poll()
    worker_end.register(pipe, select.POLLERR)
    is_ready = False
    while os.getppid() == worker:
        expiry: float = struct.unpack("<d", os.pread(lease, 8, 0))[0]
        if expiry <= time.clock_gettime(_BOOTTIME):
            return
        die_at(expiry)
        is_ready = is_ready or os.write(pipe, b"\1") > 0
        if worker_end.poll(_PAUSE):
            return


def _kernel_timer() -> Callable[[float], None]:
    """Create a kernel timer, and return a function that sets when the timer kills this process."""
    libc = ctypes.CDLL(None)
    event = (ctypes.c_int * _EVENT_WORDS)(0, 0, signal.SIGKILL, 0)  # 0: SIGEV_SIGNAL
    timer = ctypes.c_void_p()
    if libc.timer_create(_BOOTTIME, ctypes.byref(event), ctypes.byref(timer)) != 0:
        return lambda _: None  # without the timer, this process has to be awake to end in time

    def die_at(time_: float) -> None:
        at = (ctypes.c_long * 4)(0, 0, int(time_), int(time_ % 1 * 1e9))
        libc.timer_settime(timer, _ABSOLUTE, ctypes.byref(at), None)

    return die_at


if __name__ == "__main__":
    main()
