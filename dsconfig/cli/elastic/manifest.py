"""`dsconfig elastic manifest`: what a scheduler runs for an elastic job."""

from __future__ import annotations

import argparse
import re
import sys

from dsconfig.cli.arguments import tell_exit_codes, world_size
from dsconfig.cli.elastic.arguments import guarded, nodes
from dsconfig.cli.errors import CLEAN, refuse
from elastic.agent.errors import EXIT_CODES

KINDS = ("pytorchjob", "trainjob", "jobset", "slurm", "skypilot", "torchx")
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?")
"""A DNS label, with room for what is added to it."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    add = parser.add_argument
    told = f"the scheduler: {', '.join(KINDS)}"
    add("--kind", required=True, choices=KINDS, metavar="KIND", help=told)
    add("--name", default="elastic-job", help="the job's name (default: elastic-job)")
    add("--image", default="IMAGE", help="the container image (default: a placeholder)")
    add("--nnodes", metavar="MIN:MAX", help="default: the fewest and the most that the plan admits")
    add("--nproc-per-node", type=world_size, default=8, metavar="N", help="default: 8")
    add("--max-restarts", type=int, default=3, metavar="N", help="default: 3")
    add("--cpu", action="store_true", help="ask for no GPUs")
    add("file", metavar="FILE", help="the config, as the nodes see it")
    command = "the training script with its arguments"
    add("command", metavar="SCRIPT", nargs=argparse.REMAINDER, help=command)
    tell_exit_codes(parser, {CLEAN: "written", 3: EXIT_CODES[3]})


def run(args: argparse.Namespace) -> int:
    """Write it on stdout."""
    return guarded(lambda: _write(args))


def _write(args: argparse.Namespace) -> None:
    from dsconfig.cli.handoff.elastic_job import plan_of, read_config
    from dsconfig.cli.handoff.manifests import WRITERS, Request, nodes_of
    from elastic.agent.job import Job

    if not _NAME.fullmatch(args.name):
        refuse(f"--name {args.name}: expected lower case letters, digits and `-`, at most 52 characters")
    if not args.command:
        refuse("no training script given: expected SCRIPT after the config")
    config = read_config(args.file)
    plan = plan_of(config, args.file)
    found = nodes(args.nnodes) if args.nnodes else nodes_of(plan, args.nproc_per_node)
    if found is None:
        refuse(f"the plan admits no whole number of nodes with {args.nproc_per_node} processes each")
    # Refused here is what the nodes would refuse.
    Job(config, plan, *found, args.nproc_per_node, max_restarts=args.max_restarts)
    request = Request(
        args.name,
        args.image,
        args.file,
        args.command,
        args.nproc_per_node,
        *found,
        restarts=args.max_restarts,
        gpus=not args.cpu,
    )
    sys.stdout.write(WRITERS[args.kind](request))
