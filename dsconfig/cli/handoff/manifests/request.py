"""What a manifest is written for: one elastic job, and the command that every node runs for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastic.planning.plan import Plan

STORE_PORT = 29400


@dataclass(frozen=True, slots=True)
class Request:
    """One elastic job."""

    name: str
    image: str
    config: str
    command: Sequence[str]
    processes: int
    min_nodes: int
    max_nodes: int
    restarts: int
    gpus: bool


TOKEN = "DSCONFIG_ELASTIC_TOKEN"
"""Whoever reaches the store could end the job: it asks for the secret in this variable."""


def nodes_of(plan: Plan, processes: int) -> tuple[int, int] | None:
    """The fewest and the most nodes of so many processes that the plan admits."""
    counts = [gpus // processes for gpus in plan.gpu_counts if gpus % processes == 0]
    return (counts[0], counts[-1]) if counts else None


def agent(request: Request, endpoint: str) -> list[str]:
    """The command of every node."""
    options = {
        "--nnodes": f"{request.min_nodes}:{request.max_nodes}",
        "--nproc-per-node": str(request.processes),
        "--rdzv-endpoint": endpoint,
        "--rdzv-id": request.name,
        "--max-restarts": str(request.restarts),
    }
    flat = [word for pair in options.items() for word in pair]
    return ["dsconfig", "elastic", "run", *flat, "--no-host-store", request.config, *request.command]
