"""`elastic manifest`: manifests parsed by the schedulers' own models and parsers."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import yaml

from dsconfig.cli import main

BLOCK: dict[str, Any] = {
    "enabled": True,
    "max_train_batch_size": 64,
    "micro_batch_sizes": [2],
    "max_gpus": 16,
    "version": 0.1,
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "ds.json"
    path.write_text(json.dumps({"elasticity": BLOCK}))
    return path


def written(kind: str, config: Path, *options: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        code = main(
            ["elastic", "manifest", "--kind", kind, *options, str(config), "train.py", "--epochs", "3"]
        )
    assert code == 0
    return out.getvalue()


def assert_fits(kind: str, value: Any) -> None:
    """The value against a generated client model: no key that it lacks, every type right."""
    from kubeflow.training import models
    from kubernetes.client import models as core

    if kind.startswith("list["):
        for item in value:
            assert_fits(kind[5:-1], item)
    elif kind.startswith("dict("):
        for item in value.values():
            assert_fits(kind[5:-1].partition(", ")[2], item)
    elif kind in ("str", "int", "bool"):
        assert type(value).__name__ == kind
    elif kind != "object":
        model = getattr(models, kind, None) or getattr(core, kind)
        attributes = {json_key: name for name, json_key in model.attribute_map.items()}
        for key, item in value.items():
            assert key in attributes, f"{kind} has no {key}"
            assert_fits(model.openapi_types[attributes[key]], item)


def test_pytorchjob(config: Path) -> None:
    service, store, job = yaml.safe_load_all(written("pytorchjob", config, "--nproc-per-node", "4"))
    assert_fits("V1Service", service)
    assert_fits("V1Job", store)
    (container,) = store["spec"]["template"]["spec"]["containers"]
    assert container["command"][-2:] == ["--until-ended", job["metadata"]["name"]]
    assert_fits("KubeflowOrgV1PyTorchJob", job)
    policy = job["spec"]["elasticPolicy"]
    assert (policy["minReplicas"], policy["maxReplicas"]) == (1, 3)
    assert policy["rdzvHost"] == service["metadata"]["name"]


def test_trainjob(config: Path) -> None:
    from kubeflow_trainer_api.models.trainer_v1alpha1_train_job import TrainerV1alpha1TrainJob

    _, _, job = yaml.safe_load_all(written("trainjob", config, "--nproc-per-node", "4", "--cpu"))
    parsed = TrainerV1alpha1TrainJob.from_dict(job)
    assert parsed is not None
    assert parsed.to_dict() == job, "the model drops what it does not know"


def test_jobset(config: Path) -> None:
    from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet

    job = yaml.safe_load(written("jobset", config, "--nproc-per-node", "4", "--name", "one"))
    parsed = JobsetV1alpha2JobSet.from_dict(job)
    assert parsed is not None
    assert parsed.to_dict() == job, "the model drops what it does not know"
    store, nodes = (one["template"]["spec"] for one in job["spec"]["replicatedJobs"])
    assert_fits("V1JobSpec", store)
    assert_fits("V1JobSpec", nodes)
    assert (nodes["parallelism"], nodes["completions"]) == (3, 3)
    (node,) = nodes["template"]["spec"]["containers"]
    assert "one-store-0-0.one:29400" in node["command"], "JOBSET-JOB-INDEX-POD.SUBDOMAIN"


@pytest.mark.parametrize("kind", ["pytorchjob", "trainjob", "jobset"])
def test_every_container_has_the_token(config: Path, kind: str) -> None:
    text = written(kind, config, "--nproc-per-node", "4")
    assert text.startswith("# first: kubectl create secret generic elastic-job-token ")
    assert text.count("secretKeyRef") == 2, "the store's and the nodes'"


def test_skypilot(config: Path, tmp_path: Path) -> None:
    task = yaml.safe_load(written("skypilot", config, "--nproc-per-node", "4", "--image", "a/b:1"))
    assert set(task) == {"name", "num_nodes", "resources", "secrets", "run"}
    assert task["resources"] == {"image_id": "docker:a/b:1", "accelerators": "GPU:4"}
    assert task["num_nodes"] == 3
    (tmp_path / "dsconfig").write_text('#!/bin/bash\necho "$@"\n')
    (tmp_path / "dsconfig").chmod(0o755)
    for rank, commands in (("0", {"store", "run"}), ("1", {"run"})):
        variables = {"SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2", "SKYPILOT_NODE_RANK": rank}
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", f"{task['run']}wait"],
            env={"PATH": path, **variables},
            capture_output=True,
            text=True,
            check=True,
        )
        lines = done.stdout.splitlines()
        assert {line.split()[1] for line in lines} == commands
        assert all("10.0.0.1:29400" in line for line in lines)


def test_torchx(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchx.specs.builders import materialize_appdef
    from torchx.specs.finder import get_component

    words = shlex.split(written("torchx", config, "--nproc-per-node", "2", "--cpu"))
    assert words[:3] == ["torchx", "run", "dist.ddp"]
    (role,) = materialize_appdef(get_component("dist.ddp").fn, words[3:]).roles
    assert (role.min_replicas, role.num_replicas) == (1, 6)
    assert "--rdzv_backend dsconfig" in " ".join(role.args)
    assert role.env["DSCONFIG_RDZV_DS_CONFIG"] == str(config)
    assert int(role.env["PET_MAX_RESTARTS"]) > 1000

    from torch.distributed.elastic.rendezvous import RendezvousParameters

    from dsconfig.cli.handoff.torchrun_rendezvous import _job_from_parameters

    for key, value in role.env.items():
        monkeypatch.setenv(key, value)
    job = _job_from_parameters(
        RendezvousParameters("dsconfig", "host:1", "id", role.min_replicas, role.num_replicas)
    )
    assert (job.processes, job.max_restarts) == (2, 3)


def test_slurm(config: Path, tmp_path: Path) -> None:
    script = written("slurm", config, "--nproc-per-node", "4")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert "#SBATCH --nodes=1-3\n" in script
    # Run with stand-ins for the two commands that only a cluster has.
    for name in ("srun", "dsconfig"):
        (tmp_path / name).write_text(f'#!/bin/bash\necho {name} "$@"\n[ "$2" != store ] || exec sleep 30\n')
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash"], input=script, text=True, capture_output=True, timeout=20, env={"PATH": path}, check=True
    )
    assert "srun --no-kill" in done.stdout
    assert f"{config} train.py --epochs 3" in done.stdout


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--nproc-per-node", "32"], 2, "admits no number of nodes with 32 processes"),
        (["--name", "No_Label"], 2, "expected lower case"),
        (["--nnodes", "3:4", "--nproc-per-node", "7"], 3, "admits no"),
    ],
)
def test_bad_input(
    config: Path, options: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["elastic", "manifest", "--kind", "slurm", *options, str(config), "train.py"]) == code
    assert message in capsys.readouterr().err
