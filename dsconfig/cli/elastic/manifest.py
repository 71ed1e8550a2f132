"""`dsconfig elastic manifest`: generate the manifest of an elastic job for a scheduler."""

from __future__ import annotations

import argparse
import re
import sys

from dsconfig.cli.arguments import parse_world_size, set_exit_codes
from dsconfig.cli.elastic.arguments import parse_node_range, run_guarded
from dsconfig.cli.errors import CLEAN, fail_with_usage_error
from elastic.agent.errors import EXIT_CODES

KINDS = ("pytorchjob", "trainjob", "jobset", "slurm", "skypilot", "torchx")
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?")
"""DNS label, short enough for the suffixes that are appended to it."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.set_defaults(run=run)
    add = parser.add_argument
    kinds = f"kind of manifest: {', '.join(KINDS)}"
    add("--kind", required=True, choices=KINDS, metavar="KIND", help=kinds)
    add("--name", default="elastic-job", help="name of the job (default: elastic-job)")
    add("--image", default="IMAGE", help="container image (default: a placeholder)")
    add("--nnodes", metavar="MIN:MAX", help="number of nodes (default: the range that the plan admits)")
    add(
        "--nproc-per-node",
        type=parse_world_size,
        default=8,
        metavar="N",
        help="processes per node (default: 8)",
    )
    add(
        "--max-restarts", type=int, default=3, metavar="N", help="restarts after worker failures (default: 3)"
    )
    add("--cpu", action="store_true", help="request no GPUs")
    add("file", metavar="FILE", help="path of the config on the nodes")
    command = "training script with its arguments"
    add("command", metavar="SCRIPT", nargs=argparse.REMAINDER, help=command)
    set_exit_codes(parser, {CLEAN: "manifest printed", 3: EXIT_CODES[3]})


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    return run_guarded(lambda: _write_manifest(args))


def _write_manifest(args: argparse.Namespace) -> None:
    from dsconfig.cli.handoff.elastic_job import plan_elastic_job, read_config
    from dsconfig.cli.handoff.manifests import WRITERS, ManifestRequest, admitted_node_range
    from elastic.agent.job_settings import Job

    if not _NAME.fullmatch(args.name):
        fail_with_usage_error(
            f"--name {args.name}: expected lower case letters, digits and `-`, at most 52 characters"
        )
    if not args.command:
        fail_with_usage_error("no training script: pass SCRIPT after the config")
    config = read_config(args.file)
    plan = plan_elastic_job(config, args.file)
    node_range = (
        parse_node_range(args.nnodes) if args.nnodes else admitted_node_range(plan, args.nproc_per_node)
    )
    if node_range is None:
        fail_with_usage_error(f"the plan admits no number of nodes with {args.nproc_per_node} processes each")
    # Validates the job, so that the nodes cannot reject it later.
    Job(config, plan, *node_range, args.nproc_per_node, max_restarts=args.max_restarts)
    request = ManifestRequest(
        args.name,
        args.image,
        args.file,
        args.command,
        args.nproc_per_node,
        *node_range,
        restarts=args.max_restarts,
        gpus=not args.cpu,
    )
    sys.stdout.write(WRITERS[args.kind](request))
