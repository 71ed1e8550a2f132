"""Run torch's elastic agent with the plan's rendezvous on one node. Imports torch.

from elastic.agent.job_settings import ElasticJob
from elastic.launch import AgentLaunch, launch

job = ElasticJob(config, elastic.plan(config), min_nodes=1, max_nodes=4, processes=8)
launch(AgentLaunch(job, "node0:29400"), ["train.py", "--epochs", "3"])
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousParameters,
    rendezvous_handler_registry,
)
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from elastic.agent.errors import AgentError, SettingsError, TrainingFailedError
from elastic.agent.job_settings import ElasticJob, RendezvousSettings, read_settings
from elastic.agent.rendezvous import PlanRendezvous
from elastic.agent.store_endpoint import parse_endpoint
from elastic.agent.token_store import read_token
from elastic.agent.torch_compat import set_shutdown_timeout

_BACKEND = "dsconfig-launch"
"""Rendezvous backend that takes the job as an object; the backend `dsconfig` for stock torchrun takes a file path."""

_UNLIMITED = 1_000_000
"""Number of restarts allowed to torch, which also counts lost nodes; `ElasticJob.max_restarts` is the real limit."""


@dataclass(frozen=True, slots=True)
class AgentLaunch:
    """The parameters for launching one node of a job."""

    job: ElasticJob
    endpoint: str
    """Address of the store: `HOST[:PORT]`, or `etcd://HOST[:PORT],...`."""
    run_id: str = "default"
    """Name of the job in the store."""
    settings: RendezvousSettings = field(default_factory=RendezvousSettings)
    hosts_store: bool | None = None
    """Whether this process hosts the store, or `None` to host it if the endpoint is a local address."""
    token: str | None = field(default=None, repr=False)
    """Secret of the store, or `None` for a store without a secret."""
    local_addr: str | None = None
    """Address of this node, or `None` for the address from which it reaches the store."""
    monitor_interval: float = 0.05
    """Seconds between two polls of the workers."""
    stop_timeout: int = 5
    """Seconds that workers have to exit after this node receives SIGTERM."""
    log_dir: str | None = None
    """Directory for the workers' output; `log_dir`, `redirects` and `tee` are torchrun options of the same names."""
    redirects: str = "0"
    tee: str = "0"
    event_log: str | None = None
    """Path of the file for this node's events, or `None` for a file in a temporary directory."""


def launch(node: AgentLaunch, command: Sequence[str], *, bare: bool = False) -> None:
    """Run `command` (a script and its arguments) on this node until the job ends; return if it succeeds.

    `bare` runs the command itself instead of `python -m elastic.worker`.

    Raises:
        AgentError: this node's part in the job has failed.
        SignalException: the node was drained.
        SystemExit: with code 0, if the job has succeeded without this node.
    """
    handlers: list[PlanRendezvous] = []
    rendezvous_handler_registry.register(_BACKEND, _create_plan_handler)
    entry, arguments = (command[0], command[1:]) if bare else (sys.executable, worker_arguments(command))
    with _end_cleanly_on_signals():
        try:
            elastic_launch(config=_launch_config(node, handlers), entrypoint=entry)(*arguments)
        except ChildFailedError as failure:
            raise TrainingFailedError(f"training failed: {_first_line_of_error(failure)}") from failure
        finally:
            for handler in handlers:
                handler.leave()


def worker_arguments(command: Sequence[str]) -> list[str]:
    """Return the Python arguments with which `command` runs as a worker."""
    return ["-u", "-m", "elastic.worker", *command]


def _launch_config(node: AgentLaunch, handlers: list[PlanRendezvous]) -> LaunchConfig:
    try:
        redirects, tee = Std.from_str(node.redirects), Std.from_str(node.tee)
    except ValueError as error:
        raise SettingsError(f"redirects `{node.redirects}` or tee `{node.tee}`: {error}") from None
    set_shutdown_timeout(node.stop_timeout)
    return LaunchConfig(
        min_nodes=node.job.min_nodes,
        max_nodes=node.job.max_nodes,
        nproc_per_node=node.job.processes,
        run_id=node.run_id,
        role="worker",
        rdzv_endpoint=node.endpoint,
        rdzv_backend=_BACKEND,
        rdzv_configs={"launch": node, "handlers": handlers},
        max_restarts=_UNLIMITED,
        monitor_interval=node.monitor_interval,
        local_addr=node.local_addr,
        logs_specs=DefaultLogsSpecs(log_dir=node.log_dir, redirects=redirects, tee=tee),
    )


def _create_plan_handler(params: RendezvousParameters) -> RendezvousHandler:
    """Create the handler for `launch`; torch's registry allows one function per backend and process."""
    node: AgentLaunch = params.get("launch")
    handler = PlanRendezvous(
        node.job,
        node.settings,
        parse_endpoint(node.endpoint, node.hosts_store, node.token),
        node.run_id,
        params.backend,
        local_addr=node.local_addr,
        event_log=node.event_log,
    )
    params.get("handlers").append(handler)
    return handler


def create_handler(job: ElasticJob, params: RendezvousParameters) -> RendezvousHandler:
    """Create the handler for stock torchrun, with settings from `--rdzv-conf`; an error ends the process."""
    try:
        token = read_token(params.get("token"))
        endpoint = parse_endpoint(params.endpoint, params.get_as_bool("is_host"), token)
        settings = read_settings(params.config)
    except SettingsError as error:
        print(f"dsconfig: error: {error}", file=sys.stderr)
        raise SystemExit(error.code) from None
    return PlanRendezvous(
        job,
        settings,
        endpoint,
        params.run_id,
        params.backend,
        local_addr=params.local_addr,
        event_log=params.get("event_log"),
        exits=True,
    )


@contextlib.contextmanager
def _end_cleanly_on_signals() -> Iterator[None]:
    """Let signals end the agent cleanly until the workers run and torch installs its own handlers."""

    def raise_signal(number: int, _frame: FrameType | None) -> None:
        raise SignalException(f"signal {number}", signal.Signals(number))

    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGTERM, signal.SIGINT) if is_main else ()
    previous: dict[int, signal._HANDLER] = {number: signal.signal(number, raise_signal) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _first_line_of_error(error: ChildFailedError) -> str:
    rank, failure = error.get_first_failure()
    return f"rank {rank} ended with {failure.exitcode}"


__all__ = ["AgentError", "AgentLaunch", "SignalException", "create_handler", "launch", "worker_arguments"]
