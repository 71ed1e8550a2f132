"""Options and helpers for the `dsconfig elastic` commands that use torch."""

from __future__ import annotations

import argparse
import signal
from importlib import import_module
from typing import TYPE_CHECKING

from dsconfig.cli.errors import fail_with_usage_error, print_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from elastic.agent.state_store import StateStore

PATIENCE = 3.0
"""Timeout in seconds for the answer of a store to a command."""


def add_job_options(parser: argparse._ActionsContainer) -> None:
    """Add the options that locate a job in its store."""
    add = parser.add_argument
    add(
        "--rdzv-endpoint", metavar="HOST:PORT", help="store of the job (default port: 29400), or etcd://A,B,C"
    )
    add_token_option(parser)
    add("--rdzv-id", default="default", metavar="ID", help="name of the job in the store (default: default)")


def add_token_option(parser: argparse._ActionsContainer) -> None:
    """Add the option for the file with a store's secret token."""
    secret = "file with the secret of the store (default: $DSCONFIG_ELASTIC_TOKEN, else no secret)"
    parser.add_argument("--token", metavar="FILE", help=secret)


def parse_node_range(text: str) -> tuple[int, int]:
    """Parse a range of node counts, MIN:MAX, or end the run with an error."""
    first, colon, last = text.partition(":")
    if not first.isdecimal() or (colon and not last.isdecimal()) or len(text) > 12:
        fail_with_usage_error(f"--nnodes {text}: expected a number of nodes, or MIN:MAX")
    return int(first), int(last or first)


def require_posix_signals(command: str) -> None:
    """End the run with an error on Windows, where the agent cannot block or send the signals it needs.

    `elastic.launch` stops workers with SIGKILL, and blocks SIGTERM while it starts threads.
    """
    if not (hasattr(signal, "pthread_sigmask") and hasattr(signal, "SIGKILL")):
        fail_with_usage_error(
            f"`dsconfig elastic {command}` needs Linux; `dsconfig elastic plan` works on every system"
        )


def import_module_with_torch(module: str) -> ModuleType:
    """Import a module that requires torch; end the run with an error if torch is missing or too old."""
    from elastic.agent.torch_compat import OLDEST, release_numbers

    installed = _installed_version("torch")
    if installed and release_numbers(installed) < OLDEST:
        least = ".".join(map(str, OLDEST))
        fail_with_usage_error(f"torch {installed} is too old for the elastic agent: install at least {least}")
    try:
        return import_module(module)
    except ImportError as error:
        if error.name == "torch":
            fail_with_usage_error("the elastic agent needs torch: install `deepspeed-config[agent]`")
        fail_with_usage_error(f"torch {installed} cannot be imported: {error}")


def _installed_version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def open_state_store(args: argparse.Namespace, writer: str) -> StateStore:
    """Open the state store of the job given by the options, or end the run with an error."""
    from elastic.agent.job_settings import RendezvousSettings
    from elastic.agent.state_store import StateStore
    from elastic.agent.store_endpoint import parse_endpoint
    from elastic.agent.token_store import read_token

    if args.rdzv_endpoint is None:
        fail_with_usage_error("--rdzv-endpoint HOST:PORT is required: the address of the job's store")
    store = import_module_with_torch("elastic.agent.open_store")
    endpoint = parse_endpoint(args.rdzv_endpoint, token=read_token(args.token))
    connected = store.connect_store(endpoint, RendezvousSettings(), PATIENCE)
    job = StateStore(connected, args.rdzv_id, writer)
    if not job.exists():
        fail_with_usage_error(f"the store at {endpoint} has no job `{args.rdzv_id}`")
    return job


def run_guarded(action: Callable[[], object]) -> int:
    """Run an action; if an error ends this node's part of a job, print one line and return its exit code."""
    from elastic.agent.errors import AgentError

    try:
        action()
    except AgentError as error:
        print_error(str(error))
        return error.code
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0
