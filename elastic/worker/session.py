"""A worker's session in its round: `elastic.current()`.

    session = elastic.current()
    engine, *_ = deepspeed.initialize(config=session.config(), ...)
    for batch in batches:
        session.check()                      # ends this process if its round is over
        ...
        if session.checkpoint_wanted: ...    # on any rank: nodes are about to join or leave
        session.commit("step-100")           # after all ranks have written it

A session needs neither torch nor a connection to the store, since it asks the agent on the same machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from elastic.errors import ElasticityError
from elastic.json_files import Json
from elastic.worker.agent_client import AgentClient
from elastic.worker.checkpoint_name import check_name
from elastic.worker.worker_lease import Lease, lease_path
from elastic.worker.worker_progress import ProgressFile, progress_path

_WATCHDOG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lease_watchdog.py")
_WATCHDOG_ENVIRONMENT = ("LD_LIBRARY_PATH", "PATH")
"""Environment variables that Python may need to start; the long-lived watchdog must not hold secrets."""
_watchdogs: list[subprocess.Popen[bytes]] = []


def die_with_agent(agent: int) -> None:
    """Make the kernel kill this process when the agent that started it ends (Linux only).

    Nothing happens if a shell or another program is in between; then the process ends when its lease expires.
    """
    if os.getppid() != agent:
        return
    try:
        import ctypes

        set_death_signal = 1  # PR_SET_PDEATHSIG in linux/prctl.h
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):
        return
    if os.getppid() != agent:  # it died during the call
        end_process_at_once()


def start_watchdog(lease: str) -> None:
    """Make the kernel kill this process when the lease in the file `lease` expires, even if it is frozen (Linux only).

    Without a watchdog, only the process itself checks its lease.
    """
    if not (sys.platform == "linux" and hasattr(time, "CLOCK_BOOTTIME") and sys.executable):
        return
    import fcntl

    read_end, write_end = os.pipe()
    command = [sys.executable, "-I", "-S", _WATCHDOG, lease, str(write_end)]
    null = subprocess.DEVNULL
    environment = {name: os.environ[name] for name in _WATCHDOG_ENVIRONMENT if name in os.environ}
    with contextlib.suppress(OSError):
        # A separate session: signals to this process's group must not reach it.
        watchdog = subprocess.Popen(
            command,
            pass_fds=[write_end],
            stdin=null,
            stdout=null,
            stderr=null,
            env=environment,
            start_new_session=True,
        )
        _watchdogs.append(watchdog)
    os.close(write_end)
    if not os.read(read_end, 1):  # wait until its timer is set
        return
    fcntl.fcntl(read_end, fcntl.F_SETOWN, -os.getpid() if os.getpgrp() == os.getpid() else os.getpid())
    fcntl.fcntl(read_end, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(read_end, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        os.read(read_end, 1)
        end_process_at_once()  # the watchdog ended just before the signal was set up


def end_process_at_once() -> NoReturn:
    """End this process immediately, without cleanup; its successors repeat unfinished work.

    Its child processes end too, because torch's agent makes each worker the leader of a process group.
    """
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(1)  # not reached


_WATCH = 0.1
"""Seconds between two checks of the lease by this process."""
_GRACE = 0.5
"""Seconds that the agent has to end this process; torch would treat a sudden exit as a failure."""


class NotElasticError(ElasticityError):
    """Raised in a process that no elastic agent started."""


@dataclass(frozen=True, slots=True)
class Session:
    """A worker's view of the round in which it trains."""

    run_id: str
    """Name of the job in its store."""
    incarnation: int
    """Identifier of the store's lifetime; a job that starts with a new store gets a new one."""
    round: int
    """Number of this round, unique within a store."""
    restarts: int
    """Number of worker failures that the job has survived."""
    rank: int
    """Rank of this worker among all workers that train."""
    local_rank: int
    """Rank of this worker on its node."""
    world_size: int
    """Number of workers that train."""
    train_batch_size: int
    """Number of samples per optimizer step, over all ranks."""
    micro_batch_size: int
    """Number of samples per forward pass on one rank."""
    accumulation_steps: int
    """Number of forward and backward passes per optimizer step."""
    config_path: str
    """Path of the DeepSpeed config for this world size, with the batch triplet instead of an `elasticity` block."""
    checkpoint: str | None
    """Name of the last checkpoint committed before the round began, the same on all ranks, or `None`."""
    _lease: Lease = field(repr=False)
    _progress: ProgressFile = field(repr=False)
    _agent: AgentClient = field(repr=False)

    def config(self) -> dict[str, Json]:
        """Return this round's DeepSpeed config, read from `config_path`."""
        with open(self.config_path, encoding="utf-8") as file:
            config: dict[str, Json] = json.load(file)
        return config

    @property
    def valid(self) -> bool:
        """Whether this round may continue, because its agent is alive and still part of the job."""
        return self._lease.valid

    @property
    def checkpoint_wanted(self) -> bool:
        """Whether the group is about to change, and continues only until the next commit or a timeout.

        Reading the property takes microseconds. Nodes see a change at different times, so the ranks should agree, for
        example by an `all_reduce` of the values, before all of them save.
        """
        return self._lease.checkpoint_wanted

    def check(self) -> None:
        """Start a training step; if the round is over, end this process, because another group may be training."""
        self._progress.step()
        self.end_if_over()

    def end_if_over(self) -> None:
        """End this process if its round is over, like `check`, but during a step."""
        if not self.valid:
            self._wait_for_end()

    def _wait_for_end(self) -> NoReturn:
        """Wait until the agent ends this process, or until the lease or a grace period expires."""
        time.sleep(max(0.0, min(_GRACE, self._lease.remaining())))
        end_process_at_once()

    def commit(self, checkpoint: str) -> bool:
        """Commit `checkpoint` as the job's latest and return `True`; end the process if this round is over.

        Call this method on one rank, after all ranks have written their part of the checkpoint.
        """
        return self.commit_number(checkpoint) > 0

    def commit_number(self, checkpoint: str) -> int:
        """Commit `checkpoint` like `commit`, and return its number, which increases as long as the store lives."""
        check_name(checkpoint)
        self.end_if_over()
        reply = self._agent.ask("commit", round=self.round, checkpoint=checkpoint)
        if not reply.get("committed"):
            self._wait_for_end()  # a superseded worker must not run the code after a commit
        self.end_if_over()
        return int(reply["number"])

    def give_up(self, text: str) -> None:
        """Fail the job because of an error that a restart would repeat, and show `text` on every node."""
        self._agent.ask("give-up", round=self.round, text=text)

    def finish(self) -> None:
        """Wait until all workers of the group have succeeded; `python -m elastic.worker` calls this.

        Otherwise a node that finishes first would leave, and the job could not recover from a later failure of another
        node.
        """
        self._progress.end()
        reply = self._agent.ask("finish", round=self.round, local_rank=self.local_rank)
        if not reply.get("finished"):
            time.sleep(3600)  # the agent is about to restart this worker


_current: Session | None = None


def current() -> Session:
    """Return this worker's session; the first call binds the process to its agent and its lease.

    Raises:
        NotElasticError: no elastic agent started this process.
        CheckpointError: the checkpoint to load is outside the checkpoint directory.
    """
    global _current  # noqa: PLW0603 - one a process
    if _current is None:
        _current = _read_session(os.environ)
        die_with_agent(int(os.environ["DSCONFIG_ELASTIC_AGENT_PID"]))
        threading.Thread(target=_watch_round, args=(_current,), name="dsconfig-lease", daemon=True).start()
        start_watchdog(lease_path(os.environ["DSCONFIG_ELASTIC_AGENT"], _current.round))
    return _current


def is_elastic() -> bool:
    """Return whether an elastic agent started this process."""
    return "DSCONFIG_ELASTIC_AGENT" in os.environ


def _read_session(environ: Mapping[str, str]) -> Session:
    def variable(name: str) -> str:
        return environ[f"DSCONFIG_ELASTIC_{name}"]

    try:
        folder, processes = variable("AGENT"), environ["LOCAL_WORLD_SIZE"]
        if processes != variable("PROCESSES"):
            raise NotElasticError(
                f"this node runs {processes} workers, but the rendezvous expects {variable('PROCESSES')}: pass "
                f"`--rdzv-conf nproc_per_node={processes}` in addition to torchrun's `--nproc-per-node`"
            )
        checkpoint = variable("CHECKPOINT") or None
        if checkpoint is not None:
            check_name(checkpoint)  # untrusted: scripts append the name to their directory
        return Session(
            run_id=variable("RUN_ID"),
            incarnation=int(variable("INCARNATION")),
            round=int(variable("ROUND")),
            restarts=int(variable("RESTARTS")),
            rank=int(environ["RANK"]),
            local_rank=int(environ["LOCAL_RANK"]),
            world_size=int(environ["WORLD_SIZE"]),
            train_batch_size=int(variable("TRAIN_BATCH_SIZE")),
            micro_batch_size=int(variable("MICRO_BATCH_SIZE")),
            accumulation_steps=int(variable("ACCUMULATION_STEPS")),
            config_path=variable("CONFIG"),
            checkpoint=checkpoint,
            _lease=Lease(lease_path(folder, int(variable("ROUND")))),
            _progress=ProgressFile(progress_path(folder, int(variable("ROUND")), int(environ["LOCAL_RANK"]))),
            _agent=AgentClient(folder),
        )
    except KeyError as missing:
        raise NotElasticError(
            f"this process was not started by the elastic agent: {missing.args[0]} is not set"
        ) from None


def _watch_round(session: Session) -> None:
    while True:
        time.sleep(_WATCH)
        session.end_if_over()
