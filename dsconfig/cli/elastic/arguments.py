"""What the verbs of `dsconfig elastic` that use torch share."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING

from dsconfig.cli.errors import complain, refuse

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from elastic.agent.state_store import StateStore

PATIENCE = 3.0
"""Seconds that a store gets to answer a command."""


def add_job(parser: argparse._ActionsContainer) -> None:
    """Declare how a job is found in its store."""
    add = parser.add_argument
    add("--rdzv-endpoint", metavar="HOST:PORT", help="the job's store (default port: 29400), or etcd://A,B,C")
    add_token(parser)
    add("--rdzv-id", default="default", metavar="ID", help="the job's name in its store (default: default)")


def add_token(parser: argparse._ActionsContainer) -> None:
    """Declare the secret that a store asks for."""
    secret = "the secret that the store asks for, in this file (default: DSCONFIG_ELASTIC_TOKEN, else none)"
    parser.add_argument("--token", metavar="FILE", help=secret)


def nodes(text: str) -> tuple[int, int]:
    """The two numbers of MIN:MAX; ends the run for anything else."""
    first, colon, last = text.partition(":")
    if not first.isdecimal() or (colon and not last.isdecimal()) or len(text) > 12:
        refuse(f"--nnodes {text}: expected a number of nodes, or MIN:MAX")
    return int(first), int(last or first)


def with_torch(module: str) -> ModuleType:
    """Import a module that needs torch; ends the run where torch is missing or too old."""
    from elastic.agent.torch_releases import OLDEST, release

    found = _version("torch")
    if found and release(found) < OLDEST:
        least = ".".join(map(str, OLDEST))
        refuse(f"torch {found} is too old for the elastic agent: install at least {least}")
    try:
        return import_module(module)
    except ImportError as error:
        if error.name == "torch":
            refuse("the elastic agent needs torch: install `deepspeed-config[agent]`")
        refuse(f"torch {found} cannot be imported: {error}")


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def state_store_of(args: argparse.Namespace, writer: str) -> StateStore:
    """The state of the job that the options name; ends the run if there is none."""
    from elastic.agent.endpoint import parse_endpoint
    from elastic.agent.settings import RendezvousSettings
    from elastic.agent.state_store import StateStore
    from elastic.agent.token_store import read_token

    if args.rdzv_endpoint is None:
        refuse("--rdzv-endpoint HOST:PORT is needed: it says where the job's store is")
    store = with_torch("elastic.agent.store")
    endpoint = parse_endpoint(args.rdzv_endpoint, token=read_token(args.token))
    connected = store.connect_store(endpoint, RendezvousSettings(), PATIENCE)
    job = StateStore(connected, args.rdzv_id, writer)
    if not job.exists():
        refuse(f"the store at {endpoint} knows no job `{args.rdzv_id}`")
    return job


def guarded(action: Callable[[], object]) -> int:
    """Run it; what ends a node's part in a job becomes one line and its exit code."""
    from elastic.agent.errors import AgentError

    try:
        action()
    except AgentError as error:
        complain(str(error))
        return error.code
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0
