"""Kubeflow's jobs, with the store in a job of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.cli.handoff.manifests.request import STORE_PORT, TOKEN, Request, agent

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject


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
