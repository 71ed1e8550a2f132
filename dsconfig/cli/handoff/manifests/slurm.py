"""A batch script for Slurm."""

from __future__ import annotations

import shlex

from dsconfig.cli.handoff.manifests.request import STORE_PORT, TOKEN, Request, agent


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
