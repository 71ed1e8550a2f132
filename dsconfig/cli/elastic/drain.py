"""`dsconfig elastic drain`: ask nodes to leave a job after the next checkpoint."""

from __future__ import annotations

import argparse
from functools import partial

from dsconfig.cli.arguments import set_exit_codes
from dsconfig.cli.elastic.arguments import add_job_options, open_state_store, run_guarded
from dsconfig.cli.errors import CLEAN, fail_with_usage_error
from dsconfig.render.terminal_style import escape_unprintable
from elastic.agent.errors import EXIT_CODES


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig elastic drain` to its parser."""
    parser.set_defaults(run=run)
    add_job_options(parser)
    node = "name of a node as `dsconfig elastic status` shows it (default: all)"
    parser.add_argument("nodes", metavar="NODE", nargs="*", help=node)
    set_exit_codes(parser, {CLEAN: "nodes asked to leave", 4: EXIT_CODES[4]})


def run(args: argparse.Namespace) -> int:
    """Request that nodes drain; their agents exit with code 143 after the next checkpoint or a timeout."""
    return run_guarded(lambda: _drain_nodes(args))


def _drain_nodes(args: argparse.Namespace) -> None:
    from elastic.agent import job_state_transitions

    job = open_state_store(args, "drain")
    present = [member.node for member in job.read().members]
    if unknown := [node for node in args.nodes if node not in present]:
        fail_with_usage_error(
            f"not a member of the job: {', '.join(unknown)}; expected one of {', '.join(present) or '-'}"
        )
    for node in args.nodes or present:
        job.update(partial(job_state_transitions.ask_to_leave, node=node))
        print(escape_unprintable(f"dsconfig: {node} was asked to leave"))
