"""`LocalNode`: who this node is, and for which job."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass, field

from elastic.agent.job import Job
from elastic.agent.settings import RendezvousSettings


def _unique_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"


@dataclass(frozen=True, slots=True)
class LocalNode:
    """What stays the same for as long as this node takes part in the job."""

    job: Job
    settings: RendezvousSettings
    run_id: str
    """The job's name in the store."""
    host: str
    """The address at which the other nodes reach this one."""
    folder: str
    """For what its workers need: the socket of their agent, their lease, their config."""
    name: str = field(default_factory=_unique_name)
    """What the other nodes call this one."""
