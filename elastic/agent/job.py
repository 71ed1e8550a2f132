"""`Job`: what every node must agree on, and which sizes the plan admits; `LocalNode`: this node's part."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from elastic import constants as c
from elastic.agent.errors import RefusedError, SettingsError
from elastic.agent.settings import RendezvousSettings
from elastic.errors import ElasticityError, ElasticityIncompatibleWorldSize
from elastic.json_types import Json
from elastic.planning.plan import Plan, Row, plan

# `Job`: what every node must agree on, and which numbers of nodes the plan admits.

Policy = Literal["standby", "wait", "fail"]
"""At an inadmissible number of nodes: the largest admissible number trains; all wait; the job ends."""

_SHOWN = 6
"""Numbers of nodes that a refusal names."""


@dataclass(frozen=True, slots=True)
class Job:
    """A config with its plan, and how many nodes of how many processes may train it."""

    config: Mapping[str, Json] = field(repr=False)
    plan: Plan = field(repr=False)
    min_nodes: int
    max_nodes: int
    processes: int
    """Workers on each node."""
    policy: Policy = "standby"
    max_restarts: int | None = 3
    """Worker failures that the whole job survives; lost and joining nodes are not counted.  None: any."""

    def __post_init__(self) -> None:
        if self.policy not in get_args(Policy):
            known = ", ".join(get_args(Policy))
            raise SettingsError(f"policy `{self.policy}` is not known: expected one of {known}")
        if not 1 <= self.min_nodes <= self.max_nodes:
            raise SettingsError(f"nodes must be 1 <= MIN <= MAX, not {self.min_nodes}:{self.max_nodes}")
        if self.max_restarts is not None and self.max_restarts < 0:
            raise SettingsError(f"restarts must be at least 0, not {self.max_restarts}")
        admissible = self.admissible()
        if not admissible:
            first = self.why_not(self.max_nodes)
            ways = "; or ".join(self._ways_out())
            raise RefusedError(
                f"the plan admits no number of nodes from {self.min_nodes} to {self.max_nodes} with "
                f"{self.processes} processes each: {first}{'; ' if ways else ''}{ways}"
            )
        self._resolve(admissible[0])

    def _ways_out(self) -> Iterator[str]:
        """What would let the job start, each of them tried: other nodes, whole nodes, fewer processes."""
        nodes = [gpus // self.processes for gpus in self.plan.gpu_counts if gpus % self.processes == 0]
        if nodes:
            more = ", ..." if len(nodes) > _SHOWN else ""
            yield f"--nnodes can be {', '.join(map(str, nodes[:_SHOWN]))}{more}"
        if self._is_admitted_by_whole_nodes():
            block = self.plan.block
            version = f" and `{c.ELASTICITY}.{c.VERSION}` to 0.2" if block.version != 0.2 else ""
            yield (
                f"set `{c.ELASTICITY}.{c.NUM_GPUS_PER_NODE}` to {self.processes}{version}, which plans whole"
                f" nodes of {self.processes} GPUs"
            )
        fewer = [
            gpus // count
            for gpus in self.plan.gpu_counts
            for count in range(self.min_nodes, min(self.max_nodes, gpus) + 1)
            if gpus % count == 0 and gpus // count < self.processes
        ]
        if fewer:
            yield f"--nproc-per-node can be {max(fewer)}"

    def _is_admitted_by_whole_nodes(self) -> bool:
        """Whether v0.2, which plans whole nodes, admits a number of nodes of so many processes."""
        known = self.config.get(c.ELASTICITY)
        if not isinstance(known, Mapping):
            return False
        block = {**known, c.VERSION: 0.2, c.NUM_GPUS_PER_NODE: self.processes}
        try:
            found = plan({**self.config, c.ELASTICITY: block}, semantics=self.plan.semantics)
        except ElasticityError:
            return False
        counts = range(self.min_nodes, self.max_nodes + 1)
        return any(
            gpus % self.processes == 0 and gpus // self.processes in counts for gpus in found.gpu_counts
        )

    def _resolve(self, nodes: int) -> None:
        """Find now what would stop the config's resolution in a round."""
        try:
            row = self.plan.row_for_gpus(nodes * self.processes)
            self.plan.apply(self.config, row.world_size)
        except ElasticityError as error:
            raise RefusedError(str(error)) from None

    def row(self, nodes: int) -> Row | None:
        """The plan's row for so many nodes, where it has one."""
        try:
            return self.plan.row_for_gpus(nodes * self.processes)
        except ElasticityIncompatibleWorldSize:
            return None

    def why_not(self, nodes: int) -> str:
        """Why so many nodes are not admissible; empty where they are."""
        try:
            self.plan.row_for_gpus(nodes * self.processes)
        except ElasticityIncompatibleWorldSize as error:
            return str(error)
        return ""

    def admissible(self) -> tuple[int, ...]:
        """Every number of nodes at which the job may train, ascending."""
        whole = (gpus // self.processes for gpus in self.plan.gpu_counts if gpus % self.processes == 0)
        return tuple(nodes for nodes in whole if self.min_nodes <= nodes <= self.max_nodes)

    def size(self, present: int) -> int | None:
        """How many of the nodes present train; `None` where they wait.  Raises `RefusedError` by policy."""
        present = min(present, self.max_nodes)
        if present < self.min_nodes:
            return None
        if self.row(present):
            return present
        if self.policy == "fail":
            raise RefusedError(f"{present} nodes are not admissible: {self.why_not(present)}")
        if self.policy == "wait":
            return None
        return max((n for n in self.admissible() if n <= present), default=None)

    def contract(self) -> dict[str, Json]:
        """What must be the same on all nodes, key by key."""
        block = {f"elasticity.{key}": value for key, value in self.plan.block.as_dict().items()}
        own = {
            "nnodes": f"{self.min_nodes}:{self.max_nodes}",
            "nproc-per-node": self.processes,
            "policy": self.policy,
            "max-restarts": self.max_restarts,
        }
        return {**block, **own}


# `LocalNode`: who this node is, and for which job.


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
