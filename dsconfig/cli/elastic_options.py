"""What the verbs of `dsconfig elastic` that use torch share."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING

from dsconfig.cli.errors import complain, refuse

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

OLDEST_TORCH = "2.6"


def add_job(parser: argparse._ActionsContainer) -> None:
    """Declare how a job is found in its store."""
    add = parser.add_argument
    add("--rdzv-endpoint", metavar="HOST:PORT", help="the job's store (default port: 29400)")
    add("--rdzv-id", default="default", metavar="ID", help="the job's name in its store (default: default)")


def with_torch(module: str) -> ModuleType:
    """Import a module that needs torch; ends the run where torch is missing or too old."""
    try:
        return import_module(module)
    except ImportError as error:
        if error.name == "torch":
            refuse("the elastic agent needs torch: install `deepspeed-config[agent]`")
        from importlib.metadata import version as installed

        version = installed("torch")
        refuse(f"torch {version} is too old for the elastic agent: install at least {OLDEST_TORCH} ({error})")


def guarded(action: Callable[[], Any]) -> int:
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
