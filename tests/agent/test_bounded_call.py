"""Calls to a store that may not come back: neither they nor the process's end may hang or break."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from elastic.agent.errors import StoreLostError
from elastic.agent.state_store import BoundedCaller
from tests.agent.cluster import ROOT

ENDS_DURING_CALLS = """
from datetime import timedelta
from threading import Thread
from time import sleep

from elastic.agent.state_store import BoundedCaller
from torch.distributed import TCPStore

server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
callers = [BoundedCaller(10) for _ in range(12)]
for number, caller in enumerate(callers):
    limit = timedelta(milliseconds=150 + 20 * number)
    store = TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)
    store.set_timeout(limit)
    Thread(target=lambda c=caller, s=store: c.call(lambda: s.get("missing")), daemon=True).start()
sleep(0.05)
for caller in callers:
    caller.close()
"""


def test_a_process_ends_well_though_calls_are_under_way() -> None:
    """Python ends a thread that comes back from C++ at that moment, and C++ aborts: exit code -6."""
    command = [sys.executable, "-c", ENDS_DURING_CALLS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, "terminate called" in done.stderr) == (0, False), done.stderr


def test_a_call_that_hangs_is_left_behind() -> None:
    caller, never = BoundedCaller(0.2), threading.Event()
    try:
        with pytest.raises(StoreLostError, match=r"no reply in 0\.2 s"):
            caller.call(never.wait)
        with pytest.raises(StoreLostError, match="an earlier call hangs"):
            caller.call(lambda: None)
        caller.close()
    finally:
        never.set()
