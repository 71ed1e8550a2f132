"""`dsconfig elastic`: commands for jobs whose number of nodes changes."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import NoReturn

from dsconfig.cli.arguments import set_exit_codes
from dsconfig.cli.errors import CLEAN, fail_with_usage_error

COMMANDS = {
    "plan": "show the world sizes that keep the batch size, with micro batch and accumulation steps",
    "run": "train on this node as part of an elastic job",
    "store": "serve the store of elastic jobs on a host that does not train",
    "status": "show the state of an elastic job",
    "drain": "ask nodes to leave after the next checkpoint",
    "manifest": "generate the manifest of an elastic job for a scheduler",
}
"""Subcommands of `dsconfig elastic`; each has a module of its name here, with `configure(parser)` and `run(args)`."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of `dsconfig elastic` to the parser."""
    parser.set_defaults(run=_fail_without_command)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, summary in COMMANDS.items():
        subparser = subparsers.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
        )
        import_module(f"dsconfig.cli.elastic.{name}").configure(subparser)
    footer = "`dsconfig help elastic COMMAND` shows the exit codes of a command."
    set_exit_codes(parser, {CLEAN: "success"}, footer)


def _fail_without_command(_: argparse.Namespace) -> NoReturn:
    fail_with_usage_error(
        f"no command given: expected one of {', '.join(COMMANDS)} (see `dsconfig elastic --help`)"
    )
