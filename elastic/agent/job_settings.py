"""`ElasticJob`: the settings shared by all nodes and the admissible sizes; `LocalNode`: the properties of one node.

`RendezvousSettings` has the timeouts of the rendezvous, and rejects unsafe values.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, get_args

from elastic import constants as c
from elastic.agent.errors import RefusedError, SettingsError
from elastic.errors import ElasticityError, ElasticityIncompatibleWorldSize
from elastic.json_files import Json
from elastic.planning.plan import Plan, PlanRow, plan

FEWEST_ATTEMPTS = 3
"""Minimum of `keep_alive_max_attempt`: with fewer, one late heartbeat removes a live node (measured with torch)."""
SHORTEST_INTERVAL = 0.5
"""Minimum of `keep_alive_interval`, in which a lost node's workers have to end; they poll their lease every 0.1 s."""
SHORTEST_TIMEOUT = 2.0
"""Minimum of `heartbeat_timeout` in seconds: a busy node may be silent for nearly as long."""
LONGEST = 1e6
"""Maximum of any timeout in seconds, about eleven days."""


@dataclass(frozen=True, slots=True)
class RendezvousSettings:
    """Timeouts of the rendezvous in seconds; those that torch's rendezvous also has mean the same."""

    join_timeout: float = 600.0
    """How long a node waits for a group to form, not counting time on standby."""
    last_call_timeout: float = 2.0
    """How long the first group waits for more nodes, and a running group for more joiners."""
    keep_alive_interval: float = 1.0
    """Time between two heartbeats of a node."""
    keep_alive_max_attempt: int = 4
    """Heartbeats that may be missing before a node counts as lost."""
    arrive_timeout: float = 60.0
    """How long a group waits for a live member that does not come to the next round."""
    checkpoint_timeout: float = 20.0
    """How long a group may take to save a checkpoint before it grows, or before a node leaves cleanly."""
    stall_timeout: float = 60.0
    """Duration of a step, at least ten times the usual, after which the workers' stacks are logged; 0 means never."""
    stall_restart: float = 0.0
    """Duration of a step after which its worker is killed and counts as failed; 0 means never."""
    read_timeout: float = 10.0
    """Timeout of one call to the store."""
    connect_timeout: float = 60.0
    """How long a node tries to connect to the store."""

    def __post_init__(self) -> None:
        for name in (each.name for each in fields(self)):
            if not 0 <= getattr(self, name) <= LONGEST:
                raise SettingsError(f"`{name}` must be from 0 to {LONGEST:g}, not {getattr(self, name)}")
        if self.keep_alive_max_attempt < FEWEST_ATTEMPTS:
            raise SettingsError(
                f"`keep_alive_max_attempt` {self.keep_alive_max_attempt} is unsafe: one late heartbeat would "
                f"remove a live node; use at least {FEWEST_ATTEMPTS}"
            )
        if self.keep_alive_interval < SHORTEST_INTERVAL:
            raise SettingsError(
                f"`keep_alive_interval` {self.keep_alive_interval:g} is unsafe: a lost node's workers would "
                f"have too little time to exit; use at least {SHORTEST_INTERVAL:g}"
            )
        if self.heartbeat_timeout < SHORTEST_TIMEOUT:
            raise SettingsError(
                f"`keep_alive_interval` {self.keep_alive_interval:g} x `keep_alive_max_attempt` "
                f"{self.keep_alive_max_attempt} = {self.heartbeat_timeout:g} s is unsafe: a busy node is "
                f"silent for that long; use a product of at least {SHORTEST_TIMEOUT:g} s"
            )
        if self.join_timeout < self.heartbeat_timeout:
            raise SettingsError(
                f"`join_timeout` {self.join_timeout:g} is below the {self.heartbeat_timeout:g} s after which "
                "a silent node counts as lost: no group could form after a loss"
            )

    @property
    def heartbeat_timeout(self) -> float:
        """Seconds of silence after which a node is considered lost."""
        return self.keep_alive_interval * self.keep_alive_max_attempt

    @property
    def lease_duration(self) -> float:
        """Seconds that workers may run after their agent's last heartbeat, one interval below `heartbeat_timeout`."""
        return self.keep_alive_interval * (self.keep_alive_max_attempt - 1)

    @property
    def poll_interval(self) -> float:
        """Seconds between two polls of the job's state."""
        return min(0.2, self.keep_alive_interval / 4)


def read_settings(options: Mapping[str, Json]) -> RendezvousSettings:
    """Parse rendezvous settings from strings or numbers, ignoring unknown names.

    Raises:
        SettingsError: a text is not a number, or a value is unsafe.
    """
    values: dict[str, Json] = {}
    for setting in fields(RendezvousSettings):
        if setting.name in options:
            kind = int if setting.name == "keep_alive_max_attempt" else float
            try:
                values[setting.name] = kind(options[setting.name])
            except (TypeError, ValueError):
                raise SettingsError(
                    f"`{setting.name}` must be a number, not {options[setting.name]!r}"
                ) from None
    return RendezvousSettings(**values)


Policy = Literal["standby", "wait", "fail"]
"""Reaction to an inadmissible number of nodes: train the largest admissible number (`standby`), `wait`, or `fail`."""

_SHOWN = 6
"""Maximum number of node counts that an error message lists."""


PROTOCOL = 2
"""Version of what agents read and write in the store, a part of the contract, so that versions do not mix in a job."""


@dataclass(frozen=True, slots=True)
class ElasticJob:
    """A DeepSpeed config with its plan, and the numbers of nodes and processes that the job may use."""

    config: Mapping[str, Json] = field(repr=False)
    plan: Plan = field(repr=False)
    min_nodes: int
    max_nodes: int
    processes: int
    """Number of workers per node."""
    policy: Policy = "standby"
    max_restarts: int | None = 3
    """Number of worker failures that the job survives, or `None` for no limit; lost and joining nodes do not count."""

    def __post_init__(self) -> None:
        if self.policy not in get_args(Policy):
            policies = ", ".join(get_args(Policy))
            raise SettingsError(f"unknown policy `{self.policy}`: expected one of {policies}")
        if not 1 <= self.min_nodes <= self.max_nodes:
            raise SettingsError(f"nodes must be 1 <= MIN <= MAX, not {self.min_nodes}:{self.max_nodes}")
        if self.max_restarts is not None and self.max_restarts < 0:
            raise SettingsError(f"restarts must be at least 0, not {self.max_restarts}")
        admissible = self.admissible()
        if not admissible:
            first = self.why_not(self.max_nodes)
            remedies = "; or ".join(self._changes_that_admit_the_job())
            raise RefusedError(
                f"the plan admits no number of nodes from {self.min_nodes} to {self.max_nodes} with "
                f"{self.processes} processes each: {first}{'; ' if remedies else ''}{remedies}"
            )
        self._check_config_resolves(admissible[0])

    def _changes_that_admit_the_job(self) -> Iterator[str]:
        """Yield changes of node or process counts with which the job could start; each one is verified."""
        nodes = [gpus // self.processes for gpus in self.plan.gpu_counts if gpus % self.processes == 0]
        if nodes:
            more = ", ..." if len(nodes) > _SHOWN else ""
            yield f"use --nnodes {', '.join(map(str, nodes[:_SHOWN]))}{more}"
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
            yield f"use --nproc-per-node {max(fewer)}"

    def _is_admitted_by_whole_nodes(self) -> bool:
        """Return whether v0.2, which plans whole nodes, admits any number of nodes with `processes` workers each."""
        current = self.config.get(c.ELASTICITY)
        if not isinstance(current, Mapping):
            return False
        block = {**current, c.VERSION: 0.2, c.NUM_GPUS_PER_NODE: self.processes}
        try:
            whole_nodes_plan = plan({**self.config, c.ELASTICITY: block}, semantics=self.plan.semantics)
        except ElasticityError:
            return False
        counts = range(self.min_nodes, self.max_nodes + 1)
        return any(
            gpus % self.processes == 0 and gpus // self.processes in counts
            for gpus in whole_nodes_plan.gpu_counts
        )

    def _check_config_resolves(self, nodes: int) -> None:
        """Resolve the config for these node counts now, so that errors occur before a round does."""
        try:
            row = self.plan.row_for_gpus(nodes * self.processes)
            self.plan.apply(self.config, row.world_size)
        except ElasticityError as error:
            raise RefusedError(str(error)) from None

    def row(self, nodes: int) -> PlanRow | None:
        """Return the plan's row for this number of nodes, or `None` if it is not admissible."""
        try:
            return self.plan.row_for_gpus(nodes * self.processes)
        except ElasticityIncompatibleWorldSize:
            return None

    def why_not(self, nodes: int) -> str:
        """Return why this number of nodes is not admissible, or an empty string if it is."""
        try:
            self.plan.row_for_gpus(nodes * self.processes)
        except ElasticityIncompatibleWorldSize as error:
            return str(error)
        return ""

    def admissible(self) -> tuple[int, ...]:
        """Return the admissible numbers of nodes from `min_nodes` to `max_nodes`, in ascending order."""
        whole = (gpus // self.processes for gpus in self.plan.gpu_counts if gpus % self.processes == 0)
        return tuple(nodes for nodes in whole if self.min_nodes <= nodes <= self.max_nodes)

    def size(self, present: int) -> int | None:
        """Return how many of the nodes present train, or `None` if all wait."""
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
        """Return the settings that must be the same on all nodes, by key."""
        block = {f"elasticity.{key}": value for key, value in self.plan.block.as_dict().items()}
        settings = {
            "nnodes": f"{self.min_nodes}:{self.max_nodes}",
            "nproc-per-node": self.processes,
            "policy": self.policy,
            "max-restarts": self.max_restarts,
            "protocol": PROTOCOL,
        }
        return {**block, **settings}


# `LocalNode`.


def _unique_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"


@dataclass(frozen=True, slots=True)
class LocalNode:
    """Properties of this node that do not change while it is part of the job."""

    job: ElasticJob
    settings: RendezvousSettings
    run_id: str
    """Name of the job in the store."""
    host: str
    """Address at which the other nodes reach this node."""
    folder: str
    """Directory for the workers' files: the agent's socket, leases and configs."""
    name: str = field(default_factory=_unique_name)
    """Name by which the other nodes know this node."""
    liveness_port: int = 0
    """Port that stays open while any process of this node lives; 0 means none."""
