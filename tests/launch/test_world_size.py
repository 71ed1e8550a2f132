"""World size of a job from hostfiles, filters, visible GPUs, Slurm options and manifests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig import check

CONFIG = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}}
HOSTS = "# two nodes\na slots=4\nb slots=2\n"


def world_size(name: str, text: str) -> int | None:
    Path("ds.json").write_text(json.dumps(CONFIG))
    Path(name).write_text(text)
    (config,) = check(name).children
    return config.world_size


@pytest.mark.parametrize(
    ("flags", "ranks"),
    [
        ("--hostfile hosts.txt", 6),
        ("-H hosts.txt", 6),
        ("--hostfile=hosts.txt", 6),
        ("--hostfile hosts.txt --num_nodes 1", 4),
        ("--hostfile hosts.txt --num_nodes 5", 6),
        ("--hostfile hosts.txt --num_gpus 2", 4),
        ("--hostfile hosts.txt --num_accelerators 2", 4),
        ("--hostfile hosts.txt --num_gpus 2 --num_nodes 1", 2),
        ("--hostfile hosts.txt --include a:0,3@b:1", 3),
        ("--hostfile hosts.txt --include a:0@a:1", 2),
        ("--hostfile hosts.txt --include b", None),
        ("--hostfile hosts.txt --include a@b:0", None),
        ("--hostfile hosts.txt --exclude a:1", 5),
        ("--hostfile hosts.txt --exclude a", 2),
        ("--hostfile hosts.txt --exclude a@b:0", 1),
        ("--hostfile hosts.txt --include c", None),
        ("--hostfile hosts.txt --num_nodes $N", None),
        ("--hostfile /job/hostfile", None),
        ("--hostfile missing.txt", None),
        ("--hostfile $HOSTFILE", None),
        ("", None),
    ],
)
def test_hostfiles(empty_repository: Path, flags: str, ranks: int | None) -> None:
    Path("hosts.txt").write_text(HOSTS)
    assert world_size("run.sh", f"deepspeed {flags} t.py --deepspeed_config ds.json\n") == ranks


@pytest.mark.parametrize(
    ("script", "ranks"),
    [
        ("cat > hosts.txt <<EOF\na slots=8\nb slots=8\nEOF\n", 16),
        ("cat > hosts.txt <<EOF\n$A slots=8\nb slots=8\nEOF\n", None),
        ("for h in $(scontrol show hostnames); do echo $h slots=4 >> hosts.txt; done\n", None),
        ("F=hosts.txt\nscontrol show hostnames | sed 's/$/ slots=4/' > $F\n", None),
        ("echo hosts.txt > log.txt\n", 6),
        ("cd jobs\n", 3),
    ],
)
def test_a_hostfile_that_the_script_writes(empty_repository: Path, script: str, ranks: int | None) -> None:
    Path("hosts.txt").write_text(HOSTS)
    Path("jobs").mkdir()
    Path("jobs", "hosts.txt").write_text("c slots=3\n")
    text = f"{script}deepspeed --hostfile hosts.txt t.py --deepspeed_config ds.json\n"
    assert world_size("run.sh", text) == ranks


@pytest.mark.parametrize(
    ("options", "command", "ranks"),
    [
        ("--nodes=1 --gres=gpu:4", "deepspeed", 4),
        ("--nodes=2 --gpus-per-node=8", "deepspeed", 8),
        ("--nodes=1 --gpus=4", "deepspeed", 4),
        ("--nodes=2 --gpus=4", "deepspeed", None),
        ("--nodes=1 --gres=gpu:4", "CUDA_VISIBLE_DEVICES=0,1 deepspeed", 2),
        ("--nodes=1 --gres=gpu:4", "deepspeed --num_gpus 3", 3),
        ("--nodes=1 --gres=gpu:4", "torchrun --nproc_per_node=gpu", 4),
        ("--nodes=1 --gres=gpu:4", "torchrun --nproc_per_node=auto --nnodes 2", 8),
        ("--nodes=1 --gres=gpu:4", "python", None),
        ("--nodes=2 --gres=gpu:4", "srun deepspeed", None),
    ],
)
def test_slurm(empty_repository: Path, options: str, command: str, ranks: int | None) -> None:
    assert world_size("run.sh", f"#SBATCH {options}\n{command} t.py --deepspeed_config ds.json\n") == ranks


def pod(command: list[str], gpus: int | None = None) -> dict[str, Any]:
    limits = {} if gpus is None else {"resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return {"template": {"spec": {"containers": [{"name": "c", "command": command, **limits}]}}}


PROGRAM = ["t.py", "--deepspeed_config", "ds.json"]


@pytest.mark.parametrize(
    ("command", "slots", "ranks"),
    [
        (["deepspeed", "--hostfile", "/etc/mpi/hostfile"], 4, 8),
        (["deepspeed", "--hostfile", "/etc/mpi/hostfile"], None, 2),
        (["deepspeed", "--hostfile", "/etc/mpi/hostfile", "--num_nodes", "1"], 4, 4),
        (["mpirun", "python"], 4, 8),
        (["mpirun", "-np", "2", "python"], 4, 2),
        (["mpirun", "--npernode", "1", "python"], 4, None),
    ],
)
def test_workers_of_mpi(
    empty_repository: Path, command: list[str], slots: int | None, ranks: int | None
) -> None:
    spec: dict[str, Any] = {
        "mpiReplicaSpecs": {
            "Launcher": pod([*command, *PROGRAM]),
            "Worker": {"replicas": 2, **pod(["sshd"], 4)},
        }
    }
    if slots is not None:
        spec["slotsPerWorker"] = slots
    job = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": spec}
    assert world_size("job.yaml", json.dumps(job)) == ranks


@pytest.mark.parametrize(("gpus", "ranks"), [(4, 4), (None, None)])
@pytest.mark.parametrize("command", [["deepspeed"], ["torchrun", "--nproc_per_node", "gpu"]])
def test_gpus_of_a_container(
    empty_repository: Path, command: list[str], gpus: int | None, ranks: int | None
) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": pod([*command, *PROGRAM], gpus)}
    assert world_size("job.yaml", json.dumps(job)) == ranks


def test_gpus_of_a_compose_service(empty_repository: Path) -> None:
    devices = [{"driver": "nvidia", "count": 2, "capabilities": ["gpu"]}]
    service = {
        "image": "x",
        "command": ["deepspeed", *PROGRAM],
        "deploy": {"resources": {"reservations": {"devices": devices}}},
    }
    assert world_size("compose.yaml", json.dumps({"services": {"train": service}})) == 2


@pytest.mark.parametrize(("kind", "codes"), [("PyTorchJob", []), ("Job", ["DSC845"])])
def test_the_training_operator_gives_the_address(empty_repository: Path, kind: str, codes: list[str]) -> None:
    command = ["torchrun", "--nnodes", "2", "--nproc_per_node", "4", *PROGRAM]
    job = {"apiVersion": "kubeflow.org/v1", "kind": kind, "spec": {"specs": {"Master": pod(command)}}}
    Path("ds.json").write_text(json.dumps(CONFIG))
    Path("job.yaml").write_text(json.dumps(job))
    assert [each.code for each in check("job.yaml")] == codes
