"""Differences between torch releases since 2.6. Does not import torch."""

from __future__ import annotations

import os
import re
from typing import Final

OLDEST: Final = (2, 6)
"""Oldest supported release of torch.

torch 2.6 is the first with entry points `torchrun.handlers` and `TORCH_ELASTIC_WORKER_IDENTICAL`; `RendezvousInfo`
was added in 2.4.

Sources: torch distributed/elastic/rendezvous/registry.py:_register_out_of_tree_handlers;
torch distributed/elastic/agent/server/api.py:SimpleElasticAgent._assign_worker_ranks.
"""


def release_numbers(version: str) -> tuple[int, ...]:
    """Return the major and minor version of a torch release such as `2.13.0+cpu`."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def libuv_takes_sockets(version: str) -> bool:
    """Return whether `TCPStore`'s libuv server accepts a listening socket.

    It does since torch 2.8 (pytorch/pytorch#150215, `c10d/TCPStoreLibUvBackend.cpp`); earlier releases need the legacy
    server.
    """
    return release_numbers(version) >= (2, 8)


def set_shutdown_timeout(seconds: int) -> None:
    """Set how long workers may take to exit after SIGTERM; newer releases have `LaunchConfig.shutdown_timeout`.

    Older releases always wait for 30 s.  Source: torch distributed/elastic/multiprocessing/api.py:PContext.close.
    """
    os.environ["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(seconds)


def exit_after_success() -> SystemExit:
    """Return the exception that ends an agent whose job has succeeded without it.

    `RendezvousGracefulExitError` is meant for this, but the launcher of torch 2.6 to 2.15 fails on it, because there is
    no result to check. Source: torch distributed/launcher/api.py:launch_agent.
    """
    return SystemExit(0)


def assume_identical_workers() -> None:
    """Tell torch that all nodes have the same number of workers, so that it does not query each node.

    A query would wait for a node that has just died. Source: torch
    distributed/elastic/agent/server/api.py:SimpleElasticAgent._assign_worker_ranks.
    """
    os.environ["TORCH_ELASTIC_WORKER_IDENTICAL"] = "1"
