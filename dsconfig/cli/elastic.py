"""`dsconfig elastic`: what concerns jobs that shrink and grow; a module each."""

from __future__ import annotations

import argparse
from importlib import import_module

from dsconfig.cli.errors import refuse

VERBS = {
    "plan": "show which world sizes keep the batch, and what each needs",
    "run": "train on this node, as part of a job that shrinks and grows",
    "store": "keep the state of jobs on a host that does not train",
    "status": "show what a job is doing",
    "drain": "ask nodes to leave after the job's next checkpoint",
    "manifest": "write what a scheduler runs for a job",
}
"""Each has its module here, `elastic_<verb>`, with `configure(parser)` and `run(args)`."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs."""
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, summary in VERBS.items():
        own = verbs.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        module = import_module(f"dsconfig.cli.elastic_{name}")
        module.configure(own)
        own.set_defaults(run_elastic=module.run)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    if not hasattr(args, "run_elastic"):
        refuse(f"no command given: expected one of {', '.join(VERBS)} (see `dsconfig elastic --help`)")
    code: int = args.run_elastic(args)
    return code
