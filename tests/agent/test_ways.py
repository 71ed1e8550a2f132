"""The ways to start a job: the command, stock torchrun, Python, a scheduler's script."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from tests.agent.cluster import DSCONFIG, ROOT, TRAINER
from tests.agent.conftest import MakeCluster

SHOW = """
import json, os, sys
print("out of", os.environ["RANK"])
print("into err", file=sys.stderr)
with open(os.path.join(sys.argv[1], os.environ["RANK"] + ".json"), "w") as file:
    json.dump(dict(os.environ), file)
"""
LAUNCH = """
import sys
import elastic
from elastic.agent.job_settings import ElasticJob
from elastic.launch import AgentLaunch, launch

config = {{"elasticity": {block}}}
job = ElasticJob(config, elastic.plan(config), min_nodes=1, max_nodes=1, processes=2)
for run_id in ("another", "by-hand"):  # one process may run several jobs, one after the other
    launch(AgentLaunch(job, "127.0.0.1:0", run_id=run_id, log_dir=sys.argv[3], redirects="3"), sys.argv[1:3])
"""
SRUN = """#!/usr/bin/env bash
# Stands in for Slurm's: starts two tasks of the step, and kills them on SIGTERM.
while [[ $1 == --* ]]; do shift; done
"$@" & first=$!
"$@" & second=$!
trap 'kill -KILL $first $second' TERM
while kill -0 $first 2>/dev/null || kill -0 $second 2>/dev/null; do wait $first $second || true; done
"""


def test_first_node_hosts_the_store(cluster: MakeCluster) -> None:
    job = cluster(STEPS="10")
    for _ in range(2):
        job.start_node("--host-store" if not job.nodes else "--no-host-store")
    assert job.exit_codes(60) == [0, 0]
    job.assert_clean(batch=16)


def test_the_store_ends_with_its_job(cluster: MakeCluster) -> None:
    job = cluster(STEPS="3")
    store = job.start_store("--until-ended", "default", "--linger", "1")
    job.start_node()
    assert job.exit_codes(60) == [0]
    assert store.wait(20) == 0


def test_stock_torchrun(cluster: MakeCluster) -> None:
    """The same rendezvous under torch's own launcher, by its entry point."""
    job = cluster(FAULT="crash@4")
    job.start_store()
    conf = f"is_host=0,last_call_timeout=1,ds_config={job.config}"
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1:4", "--nproc-per-node", "1"]
    command += ["--rdzv-backend", "dsconfig", "--rdzv-endpoint", f"127.0.0.1:{job.port}"]
    command += ["--rdzv-id", "default", "--rdzv-conf", conf, "--max-restarts", "3", "-m", "elastic.worker"]
    job.start_agent([*command, TRAINER])
    job.wait_for_step(5, round_=2)
    job.start_agent([*command, TRAINER])
    job.wait_for_step(0, world=2)
    assert job.finish() == [0, 0]
    assert job.worlds() == [1, 1, 2]
    job.assert_clean(batch=16)


def test_stock_torchrun_with_another_number_of_workers(cluster: MakeCluster) -> None:
    """torchrun does not tell a rendezvous how many it starts: nobody must train another batch."""
    job = cluster()
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "0"]
    command += ["--rdzv-backend", "dsconfig", "--rdzv-endpoint", f"127.0.0.1:{job.port}"]
    job.start_agent([*command, "--rdzv-conf", f"ds_config={job.config}", "-m", "elastic.worker", TRAINER])
    assert job.exit_codes(60) == [1]
    assert "pass `--rdzv-conf nproc_per_node=2`" in job.nodes[0].text()
    assert job.rows() == []


def test_from_python_with_the_whole_environment(cluster: MakeCluster, tmp_path: Path) -> None:
    job = cluster(OWN="of the job")
    block = json.loads(job.config.read_text())["elasticity"]
    for name, text in (("show.py", SHOW), ("launch.py", LAUNCH.format(block=block))):
        (tmp_path / name).write_text(text)
    logs = tmp_path / "logs"
    job.start_agent(
        [sys.executable, *(str(tmp_path / name) for name in ("launch.py", "show.py", "", "logs"))]
    )
    assert job.exit_codes(60) == [0]
    environments = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    for rank, variables in enumerate(environments):
        wanted = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "GROUP_RANK": 0}
        wanted |= {"TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_RUN_ID": "by-hand", "OWN": "of the job"}
        wanted |= {"DSCONFIG_ELASTIC_ROUND": 1, "DSCONFIG_ELASTIC_RUN_ID": "by-hand"}
        triplet = {"TRAIN_BATCH_SIZE": 16, "MICRO_BATCH_SIZE": 4, "ACCUMULATION_STEPS": 2}
        wanted |= {f"DSCONFIG_ELASTIC_{name}": size for name, size in triplet.items()}
        assert {name: variables[name] for name in wanted} == {
            name: str(value) for name, value in wanted.items()
        }
    assert len({(variables["MASTER_ADDR"], int(variables["MASTER_PORT"])) for variables in environments}) == 1
    logged = {(file.parent.name, file.name): file.read_text() for file in logs.glob("*/attempt_0/*/*.log")}
    for rank in ("0", "1"):
        assert logged[rank, "stdout.log"] == f"out of {rank}\n"
        assert "into err" in logged[rank, "stderr.log"]


def test_slurm_script(cluster: MakeCluster, tmp_path: Path) -> None:
    """The batch script itself, with a stand-in for `srun` that starts two tasks on this machine."""
    job = cluster(EVERY="100000")
    for name, text in (("srun", SRUN), ("dsconfig", f'#!/bin/sh\nexec {shlex.join(DSCONFIG)} "$@"\n')):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    command = [*DSCONFIG, "elastic", "manifest", "--kind", "slurm", "--nproc-per-node", "1", "--cpu"]
    script = subprocess.run(
        [*command, str(job.config), TRAINER], capture_output=True, text=True, check=True, cwd=ROOT
    )
    (tmp_path / "job.sh").write_text(script.stdout.replace("29400", str(job.port)))
    job.environment["PATH"] = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    batch = job.start_agent(["bash", str(tmp_path / "job.sh")])
    job.wait_for_step(6, world=2)
    batch.signal(signal.SIGTERM)
    batch.wait(40)
    assert int(job.last_checkpoint().rpartition("-")[2]) > 5, "saved when it was asked to end"
    job.assert_clean(batch=16)
