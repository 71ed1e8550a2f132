"""What `dsconfig elastic run --dry-run` shows: what would run."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastic.agent.job import Job
    from elastic.agent.settings import RendezvousSettings


def preview(args: argparse.Namespace, job: Job, settings: RendezvousSettings) -> str:
    """The command, the settings and the batch of each number of nodes; found without torch."""
    shown = [sys.executable, "-u", "-m", "elastic.worker", *args.command]
    command = args.command if args.no_python else shown
    lost, stop = settings.heartbeat_timeout, settings.lease_duration
    lines = [
        f"command      {shlex.join(command)}",
        f"endpoint     {args.rdzv_endpoint or 'a store of its own'}, job `{args.rdzv_id}`",
        f"policy       {job.policy}; {job.max_restarts} restarts after worker failures",
        f"lost after   {lost:g} s without a heartbeat; workers stop after {stop:g} s",
    ]
    shown_nodes = range(job.min_nodes, min(job.max_nodes, job.min_nodes + 63) + 1)
    lines += [f"{nodes:4} nodes   {_at(job, nodes)}" for nodes in shown_nodes]
    return "\n".join(lines) + "\n"


def _at(job: Job, nodes: int) -> str:
    row = job.row(nodes)
    if row is None:
        smaller = max((n for n in job.admissible() if n < nodes), default=None)
        if job.policy == "standby" and smaller:
            return f"{smaller} train, {nodes - smaller} on standby"
        return {"standby": "wait", "wait": "wait", "fail": "refused"}[job.policy]
    triplet = f"{row.batch_size} = {row.micro_batch_size} x {row.accumulation_steps} x {row.world_size}"
    return f"train_batch_size {triplet} (micro batch x accumulation x world size)"
