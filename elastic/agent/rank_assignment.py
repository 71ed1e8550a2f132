"""`RankAssignment`: a node's rank in one round, and the environment of its workers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elastic.agent.errors import RefusedError
from elastic.agent.job_settings import LocalNode
from elastic.agent.job_state import JobState
from elastic.atomic_write import atomic_write
from elastic.planning.plan import Row
from elastic.worker.checkpoint_name import CheckpointError, check_name


@dataclass(frozen=True, slots=True)
class RankAssignment:
    """Rank of a node among those that train, and the address of rank 0."""

    round: int
    rank: int
    nodes: int
    """Number of nodes that train."""
    master_addr: str
    master_port: int
    row: Row
    """Batch triplet for this number of nodes."""


def assign_rank(state: JobState, node: LocalNode) -> RankAssignment:
    """Rank of the node in the running group."""
    group = state.group
    first = state.member(group[0])
    row = node.job.row(len(group))
    assert first is not None  # all nodes of a running group are present
    assert row is not None  # only admissible sizes are proposed
    rank = group.index(node.name)
    return RankAssignment(state.round, rank, len(group), first.host, first.port, row)


def worker_environment(assignment: RankAssignment, state: JobState, node: LocalNode) -> Mapping[str, str]:
    """Environment variables for the workers of this round; also writes the resolved config.

    Raises `RefusedError` for a checkpoint outside of the checkpoint directory.
    """
    job, row = node.job, assignment.row
    if state.start is not None:
        try:
            check_name(state.start)  # the store is untrusted, and scripts append the name to their directory
        except CheckpointError as error:
            raise RefusedError(f"the store names an invalid checkpoint: {error}") from None
    config = Path(node.folder) / f"ds_config-round-{assignment.round}.json"
    atomic_write(config, job.plan.apply(job.config, row.world_size))
    return {
        "DSCONFIG_ELASTIC_RUN_ID": node.run_id,
        "DSCONFIG_ELASTIC_INCARNATION": str(state.incarnation),
        "DSCONFIG_ELASTIC_ROUND": str(assignment.round),
        "DSCONFIG_ELASTIC_RESTARTS": str(state.restarts),
        "DSCONFIG_ELASTIC_CONFIG": str(config),
        "DSCONFIG_ELASTIC_PROCESSES": str(job.processes),
        "DSCONFIG_ELASTIC_TRAIN_BATCH_SIZE": str(row.batch_size),
        "DSCONFIG_ELASTIC_MICRO_BATCH_SIZE": str(row.micro_batch_size),
        "DSCONFIG_ELASTIC_ACCUMULATION_STEPS": str(row.accumulation_steps),
        "DSCONFIG_ELASTIC_CHECKPOINT": state.start or "",
        "DSCONFIG_ELASTIC_AGENT": node.folder,
        "DSCONFIG_ELASTIC_AGENT_PID": str(os.getpid()),
    }
