"""A task for SkyPilot."""

from __future__ import annotations

import shlex

from dsconfig.cli.handoff.manifests.request import STORE_PORT, TOKEN, Request, agent


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
