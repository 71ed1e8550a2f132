"""What schedulers run for an elastic job: the agent on every node, and the store apart from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dsconfig.cli.handoff.manifests.kubernetes import jobset, pytorchjob, trainjob
from dsconfig.cli.handoff.manifests.request import Request
from dsconfig.cli.handoff.manifests.skypilot import skypilot
from dsconfig.cli.handoff.manifests.slurm import slurm
from dsconfig.cli.handoff.manifests.torchx import torchx

WRITERS: Mapping[str, Callable[[Request], str]] = {
    "pytorchjob": pytorchjob,
    "trainjob": trainjob,
    "jobset": jobset,
    "slurm": slurm,
    "skypilot": skypilot,
    "torchx": torchx,
}
"""For each scheduler what writes its manifest."""
