"""`dsconfig elastic`: what concerns jobs that shrink and grow; a module each."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import NoReturn

from dsconfig.cli.arguments import tell_exit_codes
from dsconfig.cli.errors import CLEAN, refuse

VERBS = {
    "plan": "show which world sizes keep the batch, and what each needs",
    "run": "train on this node, as part of a job that shrinks and grows",
    "store": "keep the state of jobs on a host that does not train",
    "status": "show what a job is doing",
    "drain": "ask nodes to leave after the job's next checkpoint",
    "manifest": "write what a scheduler runs for a job",
}
"""Each has its module here, named like it, with `configure(parser)` and `run(args)`."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs."""
    parser.set_defaults(run=_without_command)
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, summary in VERBS.items():
        own = verbs.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        import_module(f"dsconfig.cli.elastic.{name}").configure(own)
    told = "those of each command stand in its own help"
    tell_exit_codes(parser, {CLEAN: "done"}, told)


def _without_command(_: argparse.Namespace) -> NoReturn:
    refuse(f"no command given: expected one of {', '.join(VERBS)} (see `dsconfig elastic --help`)")
