"""`Node`: this machine's part in the job (join, monitor and leave rounds); `RankAssignment`: its rank in a round.

The module does not depend on torch; `elastic.agent.rendezvous` connects `Node` to torch's agent.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from elastic.agent import job_state_transitions
from elastic.agent.drain_request import DrainRequest
from elastic.agent.errors import AgentError, RefusedError
from elastic.agent.event_log import EventLog
from elastic.agent.heartbeat import Heartbeat
from elastic.agent.job_settings import LocalNode
from elastic.agent.join_requests import Departure, FinishReport
from elastic.agent.liveness_port import LivenessPort
from elastic.agent.node_view import NodeView, page_count
from elastic.agent.resize_policy import ResizePolicy
from elastic.agent.round_joiner import RoundJoiner
from elastic.agent.round_monitor import RoundMonitor
from elastic.agent.state_store import StateStore, Store
from elastic.agent.worker_server import WorkerRequests, WorkerServer
from elastic.json_files import atomic_write
from elastic.planning.plan import PlanRow
from elastic.worker.checkpoint_name import CheckpointError, check_name


@dataclass(frozen=True, slots=True)
class RankAssignment:
    """A node's rank among the training nodes, and the address of rank 0."""

    round: int
    rank: int
    nodes: int
    """Number of nodes that train."""
    master_addr: str
    master_port: int
    row: PlanRow
    """Batch triplet for this number of nodes."""


def assign_rank(view: NodeView, node: LocalNode) -> RankAssignment:
    """Return the rank of a node in the running group, with the address of rank 0 and the batch triplet."""
    row = node.job.row(view.group_size)
    assert view.master is not None  # all nodes of a running group are present
    assert view.own_row is not None
    assert view.own_row.rank is not None
    assert row is not None  # only admissible sizes are proposed
    return RankAssignment(view.round, view.own_row.rank, view.group_size, *view.master, row)


def worker_environment(assignment: RankAssignment, view: NodeView, node: LocalNode) -> Mapping[str, str]:
    """Write the resolved config of a round, and return the environment variables for its workers.

    Raises:
        RefusedError: the checkpoint is outside the checkpoint directory.
    """
    job, row = node.job, assignment.row
    if view.start is not None:
        try:
            check_name(view.start)  # the store is untrusted, and scripts append the name to their directory
        except CheckpointError as error:
            raise RefusedError(f"the store names an invalid checkpoint: {error}") from None
    config = Path(node.folder) / f"ds_config-round-{assignment.round}.json"
    atomic_write(config, job.plan.apply(job.config, row.world_size))
    return {
        "DSCONFIG_ELASTIC_RUN_ID": node.run_id,
        "DSCONFIG_ELASTIC_INCARNATION": str(view.incarnation),
        "DSCONFIG_ELASTIC_ROUND": str(assignment.round),
        "DSCONFIG_ELASTIC_RESTARTS": str(view.restarts),
        "DSCONFIG_ELASTIC_CONFIG": str(config),
        "DSCONFIG_ELASTIC_PROCESSES": str(job.processes),
        "DSCONFIG_ELASTIC_TRAIN_BATCH_SIZE": str(row.batch_size),
        "DSCONFIG_ELASTIC_MICRO_BATCH_SIZE": str(row.micro_batch_size),
        "DSCONFIG_ELASTIC_ACCUMULATION_STEPS": str(row.accumulation_steps),
        "DSCONFIG_ELASTIC_CHECKPOINT": view.start or "",
        "DSCONFIG_ELASTIC_AGENT": node.folder,
        "DSCONFIG_ELASTIC_AGENT_PID": str(os.getpid()),
    }


EVENTS = "events.jsonl"


@dataclass(slots=True)
class Node:
    """A member of a job, from `open` to `leave`."""

    local: LocalNode
    log: EventLog
    drain: DrainRequest
    store: StateStore
    heartbeat: Heartbeat
    joiner: RoundJoiner
    monitor: RoundMonitor
    server: WorkerServer
    liveness: LivenessPort | None
    connections: tuple[StateStore, ...]
    """Connections to the store that are closed at the end, including `store`."""
    _left: bool = field(default=False, init=False)

    @classmethod
    def open(
        cls,
        local: LocalNode,
        store: Store,
        connect: Callable[[], Store],
        event_log: str | None = None,
        drain: DrainRequest | None = None,
    ) -> Node:
        """Connect this node to the job, and start its heartbeat and the server for its workers.

        `connect` opens another connection to the store, because a slow call blocks all calls on the same connection.
        """
        log = EventLog(event_log or os.path.join(local.folder, EVENTS), local.name)
        drain = drain or DrainRequest()
        liveness = _open_liveness_port(local, log)
        if liveness is not None:
            local = replace(local, liveness_port=liveness.number)
        main_store = _open_state_store(local, store)
        main_store.create()
        policy = ResizePolicy(local.job, local.settings)
        heartbeat_store = _open_state_store(local, connect())
        heartbeat = Heartbeat(heartbeat_store, local.name, local.settings, policy)
        worker_store = _open_state_store(local, connect())
        requests = WorkerRequests(worker_store, local, heartbeat, log)
        heartbeat.start()
        return cls(
            local,
            log,
            drain,
            main_store,
            heartbeat,
            RoundJoiner(local, main_store, heartbeat, drain),
            RoundMonitor(local, main_store, heartbeat, policy, drain, log),
            WorkerServer(
                os.path.join(local.folder, "agent.sock"),
                requests.reply,
                liveness.listener if liveness is not None else None,
            ),
            liveness,
            (main_store, heartbeat_store, worker_store),
        )

    def join(self) -> tuple[RankAssignment, NodeView]:
        """Wait until a group that includes this node is running.

        Raises:
            JobSucceeded: the job has succeeded without this node.
            Drained: this node was asked to leave.
            AgentError: the node can no longer join a group.
        """
        cause = self.monitor.end()
        self.log.write("arrived", cause=cause)
        view = self.joiner.join(cause)
        assignment = assign_rank(view, self.local)
        self.monitor.begin(view.round)
        self.log.write(
            "round",
            round=view.round,
            rank=assignment.rank,
            nodes=assignment.nodes,
            standby=view.present - view.group_present,
            restarts=view.restarts,
        )
        return assignment, view

    def worker_environment(self, assignment: RankAssignment, view: NodeView) -> Mapping[str, str]:
        """Return the environment variables for the workers of a round."""
        return worker_environment(assignment, view, self.local)

    def num_nodes_waiting(self) -> int:
        """Return the number of nodes whose arrival requires the workers to restart; see `RoundMonitor`."""
        return self.monitor.num_nodes_waiting()

    def has_ended(self) -> bool:
        """Return whether the job has ended."""
        return self.store.read().outcome is not None

    def succeed(self) -> None:
        """Report that this node's workers have succeeded, and wait until those of all nodes have."""
        round_, name = self.monitor.round, self.local.name
        if round_ is None:
            return
        view = self.store.ask(
            lambda view: FinishReport(name, view.revision, round_), self.heartbeat.latest_view
        )
        while not (view.outcome or job_state_transitions.is_round_over(view, round_) or self.drain.requested):
            time.sleep(self.local.settings.poll_interval / 2)
            view = self.heartbeat.latest_view() or view

    def fail(self, text: str) -> None:
        """Mark the job as failed if this node is training in the current round."""
        if (round_ := self.monitor.round) is not None:
            self.store.update(
                partial(job_state_transitions.fail_job, node=self.local.name, round_=round_, text=text)
            )

    def leave(self, text: str = "left", *, wait_for_others: float = 0.0) -> None:
        """Leave the job, so that other nodes need not wait for a heartbeat timeout. Never raises."""
        if self._left:
            return
        self._left = True
        self.heartbeat.grant(None)
        self.heartbeat.stop()
        if self.heartbeat.lost is None:
            with contextlib.suppress(AgentError):
                self._remove_from_job(text, wait_for_others)
        self.server.close()
        if self.liveness is not None:
            self.liveness.close()
        for connection in self.connections:
            connection.close()
        self.log.write("left", text=text)
        self.log.close()
        _remove_worker_files(self.local.folder)

    def _remove_from_job(self, text: str, wait_for_others: float) -> None:
        self.store.ask(partial(self._departure, text=text), self._view_without_heartbeat)
        deadline = time.monotonic() + wait_for_others
        while self.store.read().members and time.monotonic() < deadline:
            time.sleep(self.local.settings.poll_interval)

    def _departure(self, view: NodeView, text: str) -> Departure | None:
        if view.own_row is None:
            return None
        return Departure(self.local.name, view.revision, view.round, view.own_row.member.join_order, text)

    def _view_without_heartbeat(self) -> NodeView | None:
        """Return the newest view of a node whose heartbeat has ended."""
        views = [view for view in (self.heartbeat.view, self.store.read_page()) if view is not None]
        return max(views, key=lambda view: view.revision, default=None)


def _open_state_store(local: LocalNode, store: Store) -> StateStore:
    pages = page_count(local.job.contract())
    return StateStore(store, local.run_id, local.name, 1.5 * local.settings.read_timeout, pages=pages)


def _open_liveness_port(local: LocalNode, log: EventLog) -> LivenessPort | None:
    """Open this node's liveness port, or return `None` if its host is not an address of this machine.

    Without the port, other nodes notice the end of this node only when its heartbeats stop.
    """
    try:
        return LivenessPort(local.host, local.name)
    except OSError as error:
        log.write("no-liveness-port", text=str(error))
        return None


def _remove_worker_files(folder: str) -> None:
    """Remove the workers' files from `folder`, but not the default event log."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name != EVENTS:
                os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
