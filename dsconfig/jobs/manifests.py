"""What schedulers run for an elastic job: the agent on every node, and the store apart from them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elastic.planning.plan import Plan

STORE_PORT = 29400


@dataclass(frozen=True, slots=True)
class Request:
    """One elastic job."""

    name: str
    image: str
    config: str
    command: Sequence[str]
    processes: int
    min_nodes: int
    max_nodes: int
    restarts: int
    gpus: bool


def nodes_of(plan: Plan, processes: int) -> tuple[int, int] | None:
    """The fewest and the most nodes of so many processes that the plan admits."""
    counts = [gpus // processes for gpus in plan.gpu_counts if gpus % processes == 0]
    return (counts[0], counts[-1]) if counts else None


def agent(request: Request, endpoint: str) -> list[str]:
    """The command of every node."""
    options = {
        "--nnodes": f"{request.min_nodes}:{request.max_nodes}",
        "--nproc-per-node": str(request.processes),
        "--rdzv-endpoint": endpoint,
        "--rdzv-id": request.name,
        "--max-restarts": str(request.restarts),
    }
    flat = [word for pair in options.items() for word in pair]
    return ["dsconfig", "elastic", "run", *flat, "--no-host-store", request.config, *request.command]


def pytorchjob(request: Request) -> str:
    """Kubeflow's PyTorchJob.

    `elasticPolicy.rdzvBackend` takes torch's own backends only, so the command names the agent; the policy is
    there for its replicas, which an autoscaler changes between the bounds.
    """
    worker = _container(request, "pytorch")
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": request.name},
        "spec": {
            "elasticPolicy": {
                "rdzvBackend": "c10d",
                "rdzvHost": _store_name(request),
                "rdzvPort": STORE_PORT,
                "minReplicas": request.min_nodes,
                "maxReplicas": request.max_nodes,
                "maxRestarts": request.restarts,
            },
            "nprocPerNode": str(request.processes),
            "pytorchReplicaSpecs": {
                "Worker": {
                    "replicas": request.max_nodes,
                    # Of the agent's exit codes those below 128 are final; a pod that was killed comes again.
                    "restartPolicy": "ExitCode",
                    "template": {"spec": {"containers": [worker]}},
                }
            },
        },
    }
    return _yaml([*_store(request), job])


def trainjob(request: Request) -> str:
    """Kubeflow Trainer's TrainJob, on the runtime `torch-distributed`."""
    command = agent(request, f"{_store_name(request)}:{STORE_PORT}")
    trainer: dict[str, Any] = {
        "image": request.image,
        "command": command[:1],
        "args": command[1:],
        "numNodes": request.max_nodes,
    }
    if request.gpus:
        trainer["resourcesPerNode"] = _resources(request)
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": request.name},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer},
    }
    return _yaml([*_store(request), job])


def slurm(request: Request) -> str:
    """A batch script: the store on the batch host, an agent on each node; a lost one does not end the job.

    At its end Slurm asks the batch shell alone, which asks the nodes through the store: `srun` itself kills
    its tasks on SIGTERM, and a signal to the step would reach the workers too.
    """
    endpoint = '"$endpoint"'
    words = [word if word == endpoint else shlex.quote(word) for word in agent(request, endpoint)]
    job = shlex.join(["--rdzv-id", request.name])
    gpus = [f"#SBATCH --gpus-per-node={request.processes}"] if request.gpus else []
    lines = [
        "#!/bin/bash",
        f"#SBATCH --job-name={request.name}",
        f"#SBATCH --nodes={request.min_nodes}-{request.max_nodes}",
        "#SBATCH --ntasks-per-node=1",
        "#SBATCH --exclusive",
        *gpus,
        "#SBATCH --no-kill",
        "#SBATCH --signal=B:TERM@60",
        "set -euo pipefail",
        f"endpoint=$(hostname):{STORE_PORT}",
        f"dsconfig elastic store --listen 0.0.0.0:{STORE_PORT} &",
        "store=$!",
        "trap 'kill $store' EXIT",
        f"srun --no-kill --kill-on-bad-exit=0 --ntasks-per-node=1 {' '.join(words)} &",
        "agents=$!",
        f"trap 'dsconfig elastic drain --rdzv-endpoint \"$endpoint\" {job} || true; wait $agents' TERM",
        "wait $agents",
    ]
    return "\n".join(lines) + "\n"


def torchx(request: Request) -> str:
    """A command line for TorchX's component `dist.ddp`: stock torchrun with the backend `dsconfig`.

    The host of rank 0 has the store.  Not every release of the component has an option for the rendezvous'
    settings, and its `--env` takes no value with a `=` in it: each setting is a variable of its own.
    torchrun counts every change of the nodes as a restart, so that it gets room, and the agent the limit.
    """
    settings = {
        "ds_config": request.config,
        "nproc_per_node": request.processes,
        "max_restarts": request.restarts,
    }
    variables = {f"DSCONFIG_RDZV_{key.upper()}": value for key, value in settings.items()}
    env = ",".join(f"{key}={value}" for key, value in {**variables, "PET_MAX_RESTARTS": 1_000_000}.items())
    shape = f"{request.min_nodes}:{request.max_nodes}x{request.processes}"
    options = ["-j", shape, "--rdzv_backend", "dsconfig", "--env", env]
    sized = ["--image", request.image, *(["--gpu", str(request.processes)] if request.gpus else [])]
    words = ["torchx", "run", "dist.ddp", *options, *sized, "--name", request.name, "-m", "elastic.worker"]
    return shlex.join([*words, "--", *request.command]) + "\n"


KINDS: dict[str, Callable[[Request], str]] = {
    "pytorchjob": pytorchjob,
    "trainjob": trainjob,
    "slurm": slurm,
    "torchx": torchx,
}


def _container(request: Request, name: str) -> dict[str, Any]:
    endpoint = f"{_store_name(request)}:{STORE_PORT}"
    container: dict[str, Any] = {"name": name, "image": request.image, "command": agent(request, endpoint)}
    return {**container, "resources": _resources(request)} if request.gpus else container


def _resources(request: Request) -> dict[str, Any]:
    return {"limits": {"nvidia.com/gpu": str(request.processes)}}


def _store_name(request: Request) -> str:
    return f"{request.name}-store"


def _store(request: Request) -> list[dict[str, Any]]:
    """A service and a job of its own: losing a node that trains must not end the training.

    It ends with the training and is thrown away an hour later.
    """
    name = _store_name(request)
    labels = {"app": name}
    serve = ["dsconfig", "elastic", "store", "--listen", f"0.0.0.0:{STORE_PORT}"]
    serve += ["--until-ended", request.name]
    pod = {
        "restartPolicy": "Never",
        "containers": [{"name": "store", "image": request.image, "command": serve}],
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"selector": labels, "ports": [{"port": STORE_PORT}]},
        },
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "backoffLimit": 0,
                "ttlSecondsAfterFinished": 3600,
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    ]


def _yaml(documents: list[dict[str, Any]]) -> str:
    import yaml

    text: str = yaml.safe_dump_all(documents, sort_keys=False)
    return text
