"""`Place`: a node's part in one round, and what its workers are told of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elastic.agent.admission import Job
from elastic.agent.state import State
from elastic.atomic_write import atomic_write
from elastic.planning.row import Row


@dataclass(frozen=True, slots=True)
class Place:
    """The rank of a node among those that train, and where rank 0 is."""

    round: int
    rank: int
    nodes: int
    master_addr: str
    master_port: int
    row: Row


def place_of(state: State, node: str, job: Job) -> Place:
    """The node's place in the running group."""
    first = state.member(state.group[0])
    row = job.row(len(state.group))
    assert first is not None  # the group is intact when it runs
    assert row is not None  # only admissible sizes are proposed
    return Place(state.round, state.group.index(node), len(state.group), f"{first.host}", first.port, row)


def worker_variables(place: Place, state: State, job: Job, run_id: str, folder: str) -> Mapping[str, str]:
    """Environment variables for the workers of this round; writes the resolved config they name."""
    row = place.row
    config = Path(folder) / f"ds_config-round-{place.round}.json"
    atomic_write(config, job.plan.apply(job.config, row.world_size))
    return {
        "DSCONFIG_ELASTIC_RUN_ID": run_id,
        "DSCONFIG_ELASTIC_INCARNATION": str(state.incarnation),
        "DSCONFIG_ELASTIC_ROUND": str(place.round),
        "DSCONFIG_ELASTIC_RESTARTS": str(state.restarts),
        "DSCONFIG_ELASTIC_CONFIG": str(config),
        "DSCONFIG_ELASTIC_PROCESSES": str(job.processes),
        "DSCONFIG_ELASTIC_TRAIN_BATCH_SIZE": str(row.batch_size),
        "DSCONFIG_ELASTIC_MICRO_BATCH_SIZE": str(row.micro_batch_size),
        "DSCONFIG_ELASTIC_ACCUMULATION_STEPS": str(row.accumulation_steps),
        "DSCONFIG_ELASTIC_CHECKPOINT": state.start or "",
        "DSCONFIG_ELASTIC_AGENT": folder,
        # torch's own restart count is the agent's; a script that reads it gets at least the variable.
        "DSCONFIG_ELASTIC_AGENT_PID": str(os.getpid()),
    }
