"""A command line for TorchX."""

from __future__ import annotations

import shlex

from dsconfig.cli.handoff.manifests.request import Request


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
