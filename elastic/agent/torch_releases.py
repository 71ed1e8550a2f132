"""What differs between releases of torch, from 2.6 on; nothing else knows of it.  Imports no torch."""

from __future__ import annotations

import os
import re
from typing import Final

OLDEST: Final = (2, 6)
"""The first release with entry points `torchrun.handlers` (`elastic/rendezvous/registry.py`) and with
`TORCH_ELASTIC_WORKER_IDENTICAL` (`elastic/agent/server/api.py`); `RendezvousInfo` came with 2.4."""


def release(version: str) -> tuple[int, ...]:
    """Major and minor number of `2.13.0+cpu`."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def libuv_takes_sockets(version: str) -> bool:
    """Whether `TCPStore`'s usual server starts with a socket that listens already.

    It does since 2.8 (pytorch/pytorch#150215, `c10d/TCPStoreLibUvBackend.cpp`); before that, the one that it
    has replaced has to.
    """
    return release(version) >= (2, 8)


def give_workers_to_stop(seconds: int) -> None:
    """How long workers get to end after SIGTERM: `LaunchConfig.shutdown_timeout` of newer releases.

    Older ones always wait for 30 s (`elastic/multiprocessing/api.py`, `PContext.close`).
    """
    os.environ["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(seconds)


def end_well() -> SystemExit:
    """What ends an agent whose job has succeeded without it.

    `RendezvousGracefulExitError` is meant for this, but the launcher of 2.6 to 2.14 fails on it
    (`launcher/api.py`, `launch_agent`: there is no result to ask whether it failed).
    """
    return SystemExit(0)


def spare_the_ranks() -> None:
    """Tell torch that all nodes have as many workers, so that it need not ask each of them.

    It would wait for one that has just died (`elastic/agent/server/api.py`, `_assign_worker_ranks`).
    """
    os.environ["TORCH_ELASTIC_WORKER_IDENTICAL"] = "1"
