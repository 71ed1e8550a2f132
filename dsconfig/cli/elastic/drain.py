"""`dsconfig elastic drain`: nodes leave in order, without a signal to any of their processes."""

from __future__ import annotations

import argparse
from functools import partial

from dsconfig.cli.arguments import tell_exit_codes
from dsconfig.cli.elastic.arguments import add_job, guarded, state_store_of
from dsconfig.cli.errors import CLEAN, refuse
from dsconfig.render.terminal import printable
from elastic.agent.errors import EXIT_CODES


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    add_job(parser)
    named = "a node as `dsconfig elastic status` names it (default: all)"
    parser.add_argument("nodes", metavar="NODE", nargs="*", help=named)
    tell_exit_codes(parser, {CLEAN: "asked", 4: EXIT_CODES[4]})


def run(args: argparse.Namespace) -> int:
    """Ask them; their agents end with 143 when the next checkpoint is committed, or some time later."""
    return guarded(lambda: _drain(args))


def _drain(args: argparse.Namespace) -> None:
    from elastic.agent import transitions

    job = state_store_of(args, "drain")
    present = [member.node for member in job.read().members]
    if strangers := [node for node in args.nodes if node not in present]:
        refuse(f"no member of the job: {', '.join(strangers)}; expected one of {', '.join(present) or '-'}")
    for node in args.nodes or present:
        job.update(partial(transitions.ask_to_leave, node=node))
        print(printable(f"dsconfig: {node} is asked to leave"))
