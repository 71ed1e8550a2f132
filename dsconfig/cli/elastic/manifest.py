"""`dsconfig elastic manifest`: generate a scheduler's manifest for an elastic job."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import parse_world_size, set_exit_codes
from dsconfig.cli.elastic.arguments import parse_node_range, run_guarded
from dsconfig.cli.errors import CLEAN, fail_with_usage_error
from dsconfig.render.terminal_style import use_utf8
from elastic.agent.errors import EXIT_CODES

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from elastic.planning.plan import Plan

KINDS = ("pytorchjob", "trainjob", "jobset", "slurm", "skypilot", "torchx")
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?")
"""Pattern of a job name: a DNS label, short enough for the suffixes that are appended."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig elastic manifest` to its parser."""
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
    """Run `dsconfig elastic manifest`, and return the exit code."""
    return run_guarded(lambda: _write_manifest(args))


def _write_manifest(args: argparse.Namespace) -> None:
    from dsconfig.cli.handoff.elastic_job import plan_elastic_job, read_config
    from elastic.agent.job_settings import ElasticJob

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
    ElasticJob(config, plan, *node_range, args.nproc_per_node, max_restarts=args.max_restarts)
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
    use_utf8(sys.stdout)
    sys.stdout.write(WRITERS[args.kind](request))


# Kubernetes: PyTorchJob, TrainJob and JobSet, with the store in a separate job.

_NO_ACCOUNT = {"automountServiceAccountToken": False}
"""Field of a pod that withholds the Kubernetes API token, which neither the agent nor its workers use."""


def pytorchjob_manifest(request: ManifestRequest) -> str:
    """Return the manifest of a Kubeflow PyTorchJob.

    `elasticPolicy.rdzvBackend` accepts only torch's own backends, so the command starts the agent. The policy still
    sets the replica range for an autoscaler.
    """
    worker = _container_spec(request, "pytorch")
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
                    # Exit codes below 128 are final; a pod that was killed restarts.
                    "restartPolicy": "ExitCode",
                    "template": {"spec": {**_NO_ACCOUNT, "containers": [worker]}},
                }
            },
        },
    }
    return _manifest_as_yaml(request, [*_store_objects(request), job])


def trainjob_manifest(request: ManifestRequest) -> str:
    """Return the manifest of a Kubeflow Trainer TrainJob that uses the `torch-distributed` runtime."""
    command = agent_command(request, f"{_store_name(request)}:{STORE_PORT}")
    trainer: JsonObject = {
        "image": request.image,
        "command": command[:1],
        "args": command[1:],
        "numNodes": request.max_nodes,
        "env": _environment_entries(request),
    }
    if request.gpus:
        trainer["resourcesPerNode"] = _resource_requests(request)
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": request.name},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer},
    }
    return _manifest_as_yaml(request, [*_store_objects(request), job])


def jobset_manifest(request: ManifestRequest) -> str:
    """Return the manifest of a JobSet, which needs no Kubeflow: a store job, and an indexed job with a pod per node.

    The agent's exit codes are final; a pod that was evicted or whose node was lost restarts.
    """
    node = _container_spec(request, "node", f"{request.name}-store-0-0.{request.name}")
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
    store = {"backoffLimit": 0, "template": {"spec": _store_pod_spec(request)}}
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
    return _manifest_as_yaml(request, [job])


def _container_spec(request: ManifestRequest, name: str, store: str | None = None) -> JsonObject:
    command = agent_command(request, f"{store or _store_name(request)}:{STORE_PORT}")
    container: JsonObject = {
        "name": name,
        "image": request.image,
        "command": command,
        "env": _environment_entries(request),
    }
    return {**container, "resources": _resource_requests(request)} if request.gpus else container


def _resource_requests(request: ManifestRequest) -> JsonObject:
    return {"limits": {"nvidia.com/gpu": str(request.processes)}}


def _environment_entries(request: ManifestRequest) -> list[JsonObject]:
    secret = {"name": _secret_name(request), "key": "token"}
    return [{"name": TOKEN, "valueFrom": {"secretKeyRef": secret}}]


def _secret_name(request: ManifestRequest) -> str:
    return f"{request.name}-token"


def _store_name(request: ManifestRequest) -> str:
    return f"{request.name}-store"


def _store_objects(request: ManifestRequest) -> list[JsonObject]:
    """Return the service and the job of the store, whose separate pod outlives the loss of a training node.

    The store's job ends with the training and is deleted an hour later.
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
                "template": {"metadata": {"labels": labels}, "spec": _store_pod_spec(request)},
            },
        },
    ]


def _store_pod_spec(request: ManifestRequest) -> JsonObject:
    """Return the spec of the store's pod, which listens on all addresses and therefore requires a token."""
    serve = ["dsconfig", "elastic", "store", "--listen", f"0.0.0.0:{STORE_PORT}"]
    serve += ["--until-ended", request.name]
    store = {"name": "store", "image": request.image, "command": serve, "env": _environment_entries(request)}
    return {**_NO_ACCOUNT, "restartPolicy": "Never", "containers": [store]}


def _manifest_as_yaml(request: ManifestRequest, documents: list[JsonObject]) -> str:
    import yaml

    random = "token=$(head -c 32 /dev/urandom | base64)"
    header = f"# first: kubectl create secret generic {_secret_name(request)} --from-literal={random}\n"
    text: str = yaml.safe_dump_all(documents, sort_keys=False)
    return header + text


# A batch script for Slurm.


def slurm_script(request: ManifestRequest) -> str:
    """Return a batch script with the store on the batch host and agents on all nodes, which may be lost.

    Before the time limit, Slurm signals only the batch shell, which drains the nodes through the store: `srun` itself
    kills its tasks on SIGTERM, and a signal to the step would reach the workers too.
    """
    endpoint = '"$endpoint"'
    words = [word if word == endpoint else shlex.quote(word) for word in agent_command(request, endpoint)]
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


def skypilot_task(request: ManifestRequest) -> str:
    """Return a SkyPilot task with an agent on each node and the store on the first.

    SkyPilot stops the other nodes when one fails and restarts all of them: the job continues from its checkpoint on a
    disk that outlives the nodes.
    """
    import yaml

    endpoint = '"$store"'
    words = [word if word == endpoint else shlex.quote(word) for word in agent_command(request, endpoint)]
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
    return f"# sky jobs launch {random} THIS_FILE, with your accelerator in place of GPU\n{text}"


# A command line for TorchX.


def torchx_command(request: ManifestRequest) -> str:
    """Return a command line for TorchX's `dist.ddp`, which runs stock torchrun with the `dsconfig` backend.

    The host of rank 0 runs the store. Not every release of the component has an option for rendezvous settings, and
    `--env` accepts no value with `=`, so each setting is a separate variable. torchrun counts every change of the nodes
    as a restart, so its limit is high and the agent enforces the real one.
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


# Writers by scheduler.

WRITERS: Mapping[str, Callable[[ManifestRequest], str]] = {
    "pytorchjob": pytorchjob_manifest,
    "trainjob": trainjob_manifest,
    "jobset": jobset_manifest,
    "slurm": slurm_script,
    "skypilot": skypilot_task,
    "torchx": torchx_command,
}
"""Manifest writer of each scheduler."""


# Parameters of a manifest, and the command of every node.

STORE_PORT = 29400


@dataclass(frozen=True, slots=True)
class ManifestRequest:
    """The parameters of a manifest for an elastic job."""

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
"""Environment variable with the secret of the store, without which anyone who reaches the store can end the job."""


def admitted_node_range(plan: Plan, processes: int) -> tuple[int, int] | None:
    """Return the smallest and largest number of nodes that the plan admits with `processes` per node."""
    counts = [gpus // processes for gpus in plan.gpu_counts if gpus % processes == 0]
    return (counts[0], counts[-1]) if counts else None


def agent_command(request: ManifestRequest, endpoint: str) -> list[str]:
    """Return the command that every node of the job runs."""
    options = {
        "--nnodes": f"{request.min_nodes}:{request.max_nodes}",
        "--nproc-per-node": str(request.processes),
        "--rdzv-endpoint": endpoint,
        "--rdzv-id": request.name,
        "--max-restarts": str(request.restarts),
    }
    words = [word for pair in options.items() for word in pair]
    return ["dsconfig", "elastic", "run", *words, "--no-host-store", request.config, *request.command]
