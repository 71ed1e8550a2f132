"""Manifests of an elastic job for Kubernetes, Slurm, SkyPilot and TorchX."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from elastic.planning.plan import Plan


# Kubeflow's jobs, with the store in a job of its own.

_NO_ACCOUNT = {"automountServiceAccountToken": False}
"""Of a pod: neither the agent nor its workers ask Kubernetes for anything."""


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
                    "template": {"spec": {**_NO_ACCOUNT, "containers": [worker]}},
                }
            },
        },
    }
    return _yaml(request, [*_store(request), job])


def trainjob(request: Request) -> str:
    """Kubeflow Trainer's TrainJob, on the runtime `torch-distributed`."""
    command = agent(request, f"{_store_name(request)}:{STORE_PORT}")
    trainer: JsonObject = {
        "image": request.image,
        "command": command[:1],
        "args": command[1:],
        "numNodes": request.max_nodes,
        "env": _env(request),
    }
    if request.gpus:
        trainer["resourcesPerNode"] = _resources(request)
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": request.name},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer},
    }
    return _yaml(request, [*_store(request), job])


def jobset(request: Request) -> str:
    """A JobSet, without Kubeflow: one job for the store, and an indexed one with a pod for each node.

    The agent's exit codes are final; a pod that was evicted or whose machine was lost comes again.
    """
    node = _container(request, "node", f"{request.name}-store-0-0.{request.name}")
    final = {"containerName": "node", "operator": "In", "values": [1, 2, 3, 4, 5]}
    nodes = {
        "parallelism": request.max_nodes,
        "completions": request.max_nodes,
        "completionMode": "Indexed",
        "backoffLimit": 1_000_000,
        "podFailurePolicy": {
            "rules": [
                {"action": "FailJob", "onExitCodes": final},
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        },
        "template": {"spec": {**_NO_ACCOUNT, "restartPolicy": "Never", "containers": [node]}},
    }
    store = {"backoffLimit": 0, "template": {"spec": _store_pod(request)}}
    job = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": request.name},
        "spec": {
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": ["nodes"]},
            "failurePolicy": {"maxRestarts": 0},
            "replicatedJobs": [
                {"name": "store", "replicas": 1, "template": {"spec": store}},
                {"name": "nodes", "replicas": 1, "template": {"spec": nodes}},
            ],
        },
    }
    return _yaml(request, [job])


def _container(request: Request, name: str, store: str | None = None) -> JsonObject:
    command = agent(request, f"{store or _store_name(request)}:{STORE_PORT}")
    container: JsonObject = {"name": name, "image": request.image, "command": command, "env": _env(request)}
    return {**container, "resources": _resources(request)} if request.gpus else container


def _resources(request: Request) -> JsonObject:
    return {"limits": {"nvidia.com/gpu": str(request.processes)}}


def _env(request: Request) -> list[JsonObject]:
    secret = {"name": _secret_name(request), "key": "token"}
    return [{"name": TOKEN, "valueFrom": {"secretKeyRef": secret}}]


def _secret_name(request: Request) -> str:
    return f"{request.name}-token"


def _store_name(request: Request) -> str:
    return f"{request.name}-store"


def _store(request: Request) -> list[JsonObject]:
    """A service and a job of its own: losing a node that trains must not end the training.

    It ends with the training and is thrown away an hour later.
    """
    name = _store_name(request)
    labels = {"app": name}
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
                "template": {"metadata": {"labels": labels}, "spec": _store_pod(request)},
            },
        },
    ]


def _store_pod(request: Request) -> JsonObject:
    """Listens on the pod's own addresses, which nobody knows before it starts; hence the token."""
    serve = ["dsconfig", "elastic", "store", "--listen", f"0.0.0.0:{STORE_PORT}"]
    serve += ["--until-ended", request.name]
    store = {"name": "store", "image": request.image, "command": serve, "env": _env(request)}
    return {**_NO_ACCOUNT, "restartPolicy": "Never", "containers": [store]}


def _yaml(request: Request, documents: list[JsonObject]) -> str:
    import yaml

    random = "token=$(head -c 32 /dev/urandom | base64)"
    first = f"# first: kubectl create secret generic {_secret_name(request)} --from-literal={random}\n"
    text: str = yaml.safe_dump_all(documents, sort_keys=False)
    return first + text


# A batch script for Slurm.


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
        f"export {TOKEN}=$(head -c 32 /dev/urandom | base64)",
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


# A task for SkyPilot.


def skypilot(request: Request) -> str:
    """A task: an agent on each node, the store on the first; `sky jobs launch` brings lost nodes back.

    SkyPilot ends the other nodes when one fails, and starts all of them again: the job then goes on from its
    checkpoint, on a disk that outlives the nodes.
    """
    import yaml

    endpoint = '"$store"'
    words = [word if word == endpoint else shlex.quote(word) for word in agent(request, endpoint)]
    serve = f'dsconfig elastic store --listen "$store" --until-ended {request.name}'
    lines = [
        f'store="$(head -n 1 <<< "$SKYPILOT_NODE_IPS"):{STORE_PORT}"',
        f'if [ "$SKYPILOT_NODE_RANK" = 0 ]; then {serve} & fi',
        " ".join(words),
    ]
    task = {
        "name": request.name,
        "num_nodes": request.max_nodes,
        "resources": {
            "image_id": f"docker:{request.image}",
            **({"accelerators": f"GPU:{request.processes}"} if request.gpus else {}),
        },
        "secrets": {TOKEN: None},
        "run": "\n".join(lines) + "\n",
    }
    random = f"--secret {TOKEN}=$(head -c 32 /dev/urandom | base64)"
    text: str = yaml.safe_dump(task, sort_keys=False)
    return f"# sky jobs launch {random} THIS_FILE, with the name of your accelerators in place of GPU\n{text}"


# A command line for TorchX.


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


# What schedulers run for an elastic job: the agent on every node, and the store apart from them.

WRITERS: Mapping[str, Callable[[Request], str]] = {
    "pytorchjob": pytorchjob,
    "trainjob": trainjob,
    "jobset": jobset,
    "slurm": slurm,
    "skypilot": skypilot,
    "torchx": torchx,
}
"""For each scheduler what writes its manifest."""


# What a manifest is written for: one elastic job, and the command that every node runs for it.

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


TOKEN = "DSCONFIG_ELASTIC_TOKEN"
"""Whoever reaches the store could end the job: it asks for the secret in this variable."""


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
