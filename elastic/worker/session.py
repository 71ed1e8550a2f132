"""What a worker knows of its round: `elastic.current()`.

    session = elastic.current()
    engine, *_ = deepspeed.initialize(config=session.config(), ...)
    for batch in batches:
        session.check()                      # ends this process if its round is over
        ...
        if session.checkpoint_wanted: ...    # on any rank: nodes are about to come or go
        session.commit("step-100")           # after all ranks have written it

Needs neither torch nor a connection to the store: the agent on the same machine answers.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from elastic.errors import ElasticityError
from elastic.json_types import Json
from elastic.worker.agent_client import AgentClient
from elastic.worker.checkpoint_name import check_name
from elastic.worker.lease import Lease, lease_path
from elastic.worker.process import die, die_with_agent, keep_lease
from elastic.worker.progress import Progress, progress_path

_WATCH = 0.1
"""Seconds between two looks at the lease."""
_GRACE = 0.5
"""Seconds that the agent gets to end this process itself: torch's would take its sudden end for a failure."""


class NotElasticError(ElasticityError):
    """This process was not started by the elastic agent."""


@dataclass(frozen=True, slots=True)
class Session:
    """A worker's round."""

    run_id: str
    """The job's name in its store."""
    incarnation: int
    """Names the life of the store; a job that starts with a new store gets another one."""
    round: int
    """The number of this round; no two rounds of a store share one."""
    restarts: int
    """Worker failures that the job has survived."""
    rank: int
    """Of this worker among all that train."""
    local_rank: int
    """Of this worker on its node."""
    world_size: int
    """Workers that train."""
    train_batch_size: int
    """Samples an optimizer step, over all ranks."""
    micro_batch_size: int
    """Samples a forward pass on one rank."""
    accumulation_steps: int
    """Forward and backward passes an optimizer step."""
    config_path: str
    """The DeepSpeed config of this world size: no `elasticity`, the batch triplet written in."""
    checkpoint: str | None
    """What was committed last when the round began; the same on all ranks."""
    _lease: Lease = field(repr=False)
    _progress: Progress = field(repr=False)
    _agent: AgentClient = field(repr=False)

    def config(self) -> dict[str, Json]:
        """The DeepSpeed config of this round, read from `config_path`."""
        with open(self.config_path, encoding="utf-8") as file:
            read: dict[str, Json] = json.load(file)
        return read

    @property
    def valid(self) -> bool:
        """Whether this round may still go on: its agent lives and the job counts on it."""
        return self._lease.valid

    @property
    def checkpoint_wanted(self) -> bool:
        """Whether the group is about to change, and goes on only until the next commit, or for a moment.

        Costs microseconds.  Nodes learn of it one after the other: agree on it among the ranks, by a sum of
        these over `all_reduce` for instance, before all of them save.
        """
        return self._lease.checkpoint_wanted

    def check(self) -> None:
        """A step begins; ends this process if its round is over, since another group may train already."""
        self._progress.step()
        self.end_if_over()

    def end_if_over(self) -> None:
        """As `check`, in the middle of a step."""
        if not self.valid:
            self._stand_aside()

    def _stand_aside(self) -> NoReturn:
        """Do nothing more until the agent ends this process, or until its lease or a moment has passed."""
        time.sleep(max(0.0, min(_GRACE, self._lease.remaining())))
        die()

    def commit(self, checkpoint: str) -> bool:
        """Make `checkpoint` the job's latest; `True`, or if this round is over the process ends here.

        Call it on one rank, when all ranks have written theirs.
        """
        return self.commit_number(checkpoint) > 0

    def commit_number(self, checkpoint: str) -> int:
        """As `commit`; the number of the commit, which only grows while the store lives."""
        check_name(checkpoint)
        self.end_if_over()
        reply = self._agent.ask("commit", round=self.round, checkpoint=checkpoint)
        if not reply.get("committed"):
            self._stand_aside()  # what comes after a commit is no business of a superseded worker
        self.end_if_over()
        return int(reply["number"])

    def give_up(self, text: str) -> None:
        """End the job as failed, with this line on every node: what happened here would happen again."""
        self._agent.ask("give-up", round=self.round, text=text)

    def finish(self) -> None:
        """Wait until all workers of the group have ended well; `python -m elastic.worker` calls it.

        Without it a node that ends first would leave, and the job could not recover from a later failure of
        another.
        """
        self._progress.end()
        reply = self._agent.ask("finish", round=self.round, local_rank=self.local_rank)
        if not reply.get("finished"):
            time.sleep(3600)  # the agent is about to restart this worker


_current: Session | None = None


def current() -> Session:
    """This worker's session.  The first call ties the process to its agent and its lease.

    Raises `NotElasticError` if no elastic agent started this process, and `CheckpointError` if the checkpoint
    that it names is outside of the folder of checkpoints.
    """
    global _current  # noqa: PLW0603 - one a process
    if _current is None:
        _current = _read(os.environ)
        die_with_agent(int(os.environ["DSCONFIG_ELASTIC_AGENT_PID"]))
        threading.Thread(target=_watch, args=(_current,), name="dsconfig-lease", daemon=True).start()
        keep_lease(lease_path(os.environ["DSCONFIG_ELASTIC_AGENT"], _current.round))
    return _current


def is_elastic() -> bool:
    """Whether an elastic agent started this process."""
    return "DSCONFIG_ELASTIC_AGENT" in os.environ


def _read(environ: Mapping[str, str]) -> Session:
    def own(name: str) -> str:
        return environ[f"DSCONFIG_ELASTIC_{name}"]

    try:
        folder, processes = own("AGENT"), environ["LOCAL_WORLD_SIZE"]
        if processes != own("PROCESSES"):
            raise NotElasticError(
                f"this node runs {processes} workers, and the rendezvous was told {own('PROCESSES')}: say "
                f"`--rdzv-conf nproc_per_node={processes}` beside torchrun's `--nproc-per-node`"
            )
        checkpoint = own("CHECKPOINT") or None
        if checkpoint is not None:
            check_name(checkpoint)  # whatever agent and store say: scripts join it to their folder
        return Session(
            run_id=own("RUN_ID"),
            incarnation=int(own("INCARNATION")),
            round=int(own("ROUND")),
            restarts=int(own("RESTARTS")),
            rank=int(environ["RANK"]),
            local_rank=int(environ["LOCAL_RANK"]),
            world_size=int(environ["WORLD_SIZE"]),
            train_batch_size=int(own("TRAIN_BATCH_SIZE")),
            micro_batch_size=int(own("MICRO_BATCH_SIZE")),
            accumulation_steps=int(own("ACCUMULATION_STEPS")),
            config_path=own("CONFIG"),
            checkpoint=checkpoint,
            _lease=Lease(lease_path(folder, int(own("ROUND")))),
            _progress=Progress(progress_path(folder, int(own("ROUND")), int(environ["LOCAL_RANK"]))),
            _agent=AgentClient(folder),
        )
    except KeyError as missing:
        raise NotElasticError(
            f"this process was not started by the elastic agent: {missing.args[0]} is not set"
        ) from None


def _watch(session: Session) -> None:
    while True:
        time.sleep(_WATCH)
        session.end_if_over()
