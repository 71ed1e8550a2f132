"""`dsconfig elastic status`: show a job's round, members, batch and latest events."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import set_exit_codes
from dsconfig.cli.elastic.arguments import add_job_options, open_state_store, run_guarded
from dsconfig.cli.errors import CLEAN
from dsconfig.render.machine_readable import dump_json
from dsconfig.render.terminal_style import escape_unprintable
from elastic.agent.errors import EXIT_CODES

if TYPE_CHECKING:
    from elastic.agent.job_state import JobState

_PUBLISHED = {
    "acknowledged": "acked",
    "next_join_order": "next_seat",
    "join_order": "seat",
    "cleared": "alive",
}
"""Names in the JSON output of fields that have another name in the state."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig elastic status` to its parser."""
    parser.set_defaults(run=run)
    add_job_options(parser)
    formats = ("text", "json")
    parser.add_argument(
        "--output-format", choices=formats, default="text", help="output format (default: text)"
    )
    set_exit_codes(parser, {CLEAN: "state shown", 4: EXIT_CODES[4]})


def run(args: argparse.Namespace) -> int:
    """Run `dsconfig elastic status`, and return the exit code, which is 4 if the store does not answer."""
    return run_guarded(lambda: _print_status(args))


def _print_status(args: argparse.Namespace) -> None:
    state = open_state_store(args, "status").read()
    shown = {**state_as_json(state), "triplet": batch_triplet_of_group(state), "standby": state.standby}
    if args.output_format == "json":
        sys.stdout.write(dump_json(shown, indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in state_as_text(state))


def state_as_json(state: JobState) -> dict[str, object]:
    """Return a job's state for the JSON output, which has stable field names."""
    return asdict(state, dict_factory=lambda pairs: {_PUBLISHED.get(key, key): value for key, value in pairs})


def batch_triplet_of_group(state: JobState) -> dict[str, object] | None:
    """Return the batch triplet of the current group of nodes, or None if there is no group."""
    import elastic

    if not state.group:
        return None
    prefix = "elasticity."
    block = {key[len(prefix) :]: value for key, value in state.contract.items() if key.startswith(prefix)}
    row = elastic.plan({"elasticity": block}).row_for_gpus(
        len(state.group) * state.contract["nproc-per-node"]
    )
    return asdict(row)


def state_as_text(state: JobState) -> list[str]:
    """Return a job's state as text, escaping the names and events that other nodes have sent."""
    row = batch_triplet_of_group(state)
    shown = [
        f"phase        {state.phase}" + (f" ({state.outcome.kind})" if state.outcome else ""),
        f"round        {state.round}",
        f"restarts     {state.restarts} of {state.contract.get('max-restarts', '-')}",
        f"checkpoint   {state.latest or '-'} ({state.commits} commits)",
    ]
    if row:
        product = f"{row['micro_batch_size']} x {row['accumulation_steps']} x {row['world_size']}"
        shown.append(f"batch        {row['batch_size']} = {product} (micro batch x accumulation x ranks)")
    shown += [f"  {_role_of_node(state, one.node):9}  {one.node} at {one.host}" for one in state.members]
    shown += [f"  {_format_clock_time(event.time)}  {event.node}: {event.text}" for event in state.events]
    return list(map(escape_unprintable, shown))


def _role_of_node(state: JobState, node: str) -> str:
    if node in state.leaving:
        return "leaving"
    if state.phase in ("forming", "proposed"):
        return "waiting"
    return f"rank {state.group.index(node)}" if node in state.group else "standby"


def _format_clock_time(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))
