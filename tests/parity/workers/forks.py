"""A trial in a process of its own, and what it says before its time is over."""

import os
import select
import time
from collections.abc import Callable


def started(child: Callable[[int], None]) -> tuple[int, int]:
    """The number of a new process, and where to read from it; `child` gets where to write, and ends it."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        child(writing)
    os.close(writing)
    return pid, reading


def heard(reading: int, limit: float) -> tuple[bytes, bool]:
    """What was said within so many seconds, and whether they were over before its end."""
    said, end = b"", time.monotonic() + limit
    while (left := end - time.monotonic()) > 0 and select.select([reading], [], [], left)[0]:
        block = os.read(reading, 1 << 16)
        if not block:
            break
        said += block
    late = time.monotonic() >= end
    os.close(reading)
    return said, late
