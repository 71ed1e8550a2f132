"""`dsconfig elastic drain`: ask nodes to leave a job after the next checkpoint."""

from __future__ import annotations

import argparse
from functools import partial

from dsconfig.cli.arguments import set_exit_codes
from dsconfig.cli.elastic.arguments import add_job, guarded, state_store_of
from dsconfig.cli.errors import CLEAN, fail
from dsconfig.render.terminal_style import printable
from elastic.agent.errors import EXIT_CODES


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.set_defaults(run=run)
    add_job(parser)
    node = "name of a node as `dsconfig elastic status` shows it (default: all)"
    parser.add_argument("nodes", metavar="NODE", nargs="*", help=node)
    set_exit_codes(parser, {CLEAN: "nodes asked to leave", 4: EXIT_CODES[4]})


def run(args: argparse.Namespace) -> int:
    """Run the command; the agents of the nodes exit with 143 after the next checkpoint, or after a timeout."""
    return guarded(lambda: _drain(args))


def _drain(args: argparse.Namespace) -> None:
    from elastic.agent import state_transitions

    job = state_store_of(args, "drain")
    present = [member.node for member in job.read().members]
    if unknown := [node for node in args.nodes if node not in present]:
        fail(f"not a member of the job: {', '.join(unknown)}; expected one of {', '.join(present) or '-'}")
    for node in args.nodes or present:
        job.update(partial(state_transitions.ask_to_leave, node=node))
        print(printable(f"dsconfig: {node} was asked to leave"))
