"""`dsconfig elastic run`: run torch's elastic agent with the plan's rendezvous, or preview the run."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import parse_world_size, set_exit_codes
from dsconfig.cli.elastic.arguments import (
    add_job_options,
    import_module_with_torch,
    parse_node_range,
    require_posix_signals,
    run_guarded,
)
from dsconfig.cli.errors import fail_with_usage_error
from elastic.agent.errors import EXIT_CODES

if TYPE_CHECKING:
    from elastic.agent.job_settings import ElasticJob, RendezvousSettings


# Exit codes: `elastic.agent.errors.EXIT_CODES`.

SIGNAL_EXIT_BASE = 128
MAX_INTERVAL = 3600
"""Seconds between two polls of the workers."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig elastic run` to its parser."""
    parser.set_defaults(run=run)
    _add_job_options(parser)
    _add_node_options(parser)
    parser.add_argument("file", metavar="FILE", help="config with an `elasticity` block")
    command = "training script with its arguments"
    parser.add_argument("command", metavar="SCRIPT", nargs=argparse.REMAINDER, help=command)
    set_exit_codes(parser, EXIT_CODES)


def _add_job_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("job", "the same on every node")
    add = group.add_argument
    add("--nnodes", default="1", metavar="MIN:MAX", help="number of nodes that train (default: 1)")
    add(
        "--nproc-per-node",
        type=parse_world_size,
        default=1,
        metavar="N",
        help="processes per node (default: 1)",
    )
    add_job_options(group)
    policy = "at an inadmissible number of nodes: train on the largest admissible one, wait, or end the job"
    add(
        "--policy",
        default="standby",
        choices=("standby", "wait", "fail"),
        help=f"{policy} (default: standby)",
    )
    restarts = "restarts of the job after worker failures; lost and joining nodes do not count (default: 3)"
    add("--max-restarts", type=int, default=3, metavar="N", help=restarts)
    timeouts = "timeouts of the rendezvous, for example keep_alive_interval=2,join_timeout=900"
    add("--rdzv-conf", default="", metavar="KEY=VALUE,...", help=timeouts)


def _add_node_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("this node").add_argument
    hosting = argparse.BooleanOptionalAction
    add("--host-store", action=hosting, help="host the store (default: if the endpoint is this machine)")
    add("--local-addr", metavar="ADDR", help="address of this node (default: the one that reaches the store)")
    add(
        "--monitor-interval",
        type=_parse_seconds,
        default=0.05,
        metavar="SECONDS",
        help="polling interval (default: 0.05)",
    )
    grace = "time for the workers to exit after SIGTERM to this node (default: 5)"
    add("--stop-timeout", type=int, default=5, metavar="SECONDS", help=grace)
    add("--log-dir", metavar="DIR", help="directory for the output of the workers")
    add(
        "--redirects",
        default="0",
        metavar="STD",
        help="redirect worker output to files: 1 stdout, 2 stderr, 3 both",
    )
    add(
        "--tee",
        default="0",
        metavar="STD",
        help="copy worker output to files: 1 stdout, 2 stderr, 3 both",
    )
    add(
        "--event-log",
        metavar="FILE",
        help="append the events of this node to this file, one JSON object per line",
    )
    add(
        "--no-python", action="store_true", help="run SCRIPT as a program, without `python -m elastic.worker`"
    )
    add(
        "--dry-run",
        action="store_true",
        help="print the command and the batch of each number of nodes, and exit",
    )


def _parse_seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= MAX_INTERVAL:
        raise ValueError
    return value


def run(args: argparse.Namespace) -> int:
    """Run the elastic agent until the job ends, and return the exit code."""
    return run_guarded(lambda: _run_agent(args))


def _run_agent(args: argparse.Namespace) -> None:
    from elastic.agent.job_settings import read_settings
    from elastic.agent.store_endpoint import parse_endpoint
    from elastic.agent.token_store import read_token

    job, settings = _job_from_arguments(args), read_settings(_parse_rendezvous_settings(args.rdzv_conf))
    _check_training_command(args)
    endpoint, token = args.rdzv_endpoint, read_token(args.token)
    if endpoint is None and job.max_nodes > 1:
        fail_with_usage_error("--rdzv-endpoint HOST:PORT is required for more than one node")
    if endpoint is not None:
        parse_endpoint(endpoint, args.host_store, token)
    if args.dry_run:
        sys.stdout.write(preview_run(args, job, settings))
        return
    require_posix_signals("run")
    launch = import_module_with_torch("elastic.launch")
    spec = launch.AgentLaunch(
        job,
        endpoint or "127.0.0.1:0",
        args.rdzv_id,
        settings,
        args.host_store,
        token,
        args.local_addr,
        args.monitor_interval,
        args.stop_timeout,
        args.log_dir,
        args.redirects,
        args.tee,
        args.event_log,
    )
    try:
        launch.launch(spec, args.command, bare=args.no_python)
    except launch.SignalException as raised:
        raise SystemExit(SIGNAL_EXIT_BASE + int(raised.sigval)) from None


def _job_from_arguments(args: argparse.Namespace) -> ElasticJob:
    from dsconfig.cli.handoff.elastic_job import plan_elastic_job, read_config
    from elastic.agent.job_settings import ElasticJob

    least, most = parse_node_range(args.nnodes)
    config = read_config(args.file)
    plan = plan_elastic_job(config, args.file)
    return ElasticJob(config, plan, least, most, args.nproc_per_node, args.policy, args.max_restarts)


def _parse_rendezvous_settings(text: str) -> dict[str, str]:
    from dataclasses import fields

    from elastic.agent.job_settings import RendezvousSettings

    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    names = [field.name for field in fields(RendezvousSettings)]
    for key, equals, _ in pairs:
        if not equals or key.strip() not in names:
            fail_with_usage_error(
                f"--rdzv-conf `{key}{equals}`: expected KEY=VALUE with a key of {', '.join(names)}"
            )
    return {key.strip(): value.strip() for key, _, value in pairs}


def _check_training_command(args: argparse.Namespace) -> None:
    if args.command[:1] == ["--"]:
        del args.command[0]
    if not args.command or (args.command[0] == "-m" and len(args.command) == 1):
        fail_with_usage_error("no training script: pass SCRIPT, or -m MODULE, after the config")
    script = args.command[0]
    if args.no_python and shutil.which(script) is None:
        fail_with_usage_error(f"program `{script}` does not exist")
    if not args.no_python and script != "-m" and not os.path.isfile(script):
        fail_with_usage_error(f"training script `{script}` does not exist")


# `--dry-run`.


def preview_run(args: argparse.Namespace, job: ElasticJob, settings: RendezvousSettings) -> str:
    """Return the command, the settings, and the batch for each number of nodes; does not require torch."""
    worker_command = [sys.executable, "-u", "-m", "elastic.worker", *args.command]
    command = args.command if args.no_python else worker_command
    timeout, lease = settings.heartbeat_timeout, settings.lease_duration
    lines = [
        f"command      {shlex.join(command)}",
        f"endpoint     {args.rdzv_endpoint or 'its own store'}, job `{args.rdzv_id}`",
        f"policy       {job.policy}; {job.max_restarts} restarts after worker failures",
        f"lost after   {timeout:g} s without a heartbeat; workers stop after {lease:g} s",
    ]
    shown_nodes = range(job.min_nodes, min(job.max_nodes, job.min_nodes + 63) + 1)
    lines += [f"{nodes:4} nodes   {_batch_at_nodes(job, nodes)}" for nodes in shown_nodes]
    return "\n".join(lines) + "\n"


def _batch_at_nodes(job: ElasticJob, nodes: int) -> str:
    row = job.row(nodes)
    if row is None:
        smaller = max((n for n in job.admissible() if n < nodes), default=None)
        if job.policy == "standby" and smaller:
            return f"{smaller} train, {nodes - smaller} on standby"
        return {"standby": "wait", "wait": "wait", "fail": "rejected"}[job.policy]
    triplet = f"{row.batch_size} = {row.micro_batch_size} x {row.accumulation_steps} x {row.world_size}"
    return f"train_batch_size {triplet} (micro batch x accumulation x world size)"
