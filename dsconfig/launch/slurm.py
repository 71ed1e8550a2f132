"""What the head of a script asks Slurm for, as the variables that its job gets."""

from __future__ import annotations

import re
import shlex

_LINE = re.compile(r"^#SBATCH[ \t]+([^\n#]*)", re.MULTILINE)
_FLAGS = {
    "nodes": "SLURM_NNODES",
    "N": "SLURM_NNODES",
    "ntasks": "SLURM_NTASKS",
    "n": "SLURM_NTASKS",
    "ntasks-per-node": "SLURM_NTASKS_PER_NODE",
    "tasks-per-node": "SLURM_NTASKS_PER_NODE",
    "gpus-per-node": "SLURM_GPUS_PER_NODE",
    "gres": "SLURM_GPUS_ON_NODE",
}
_COUNT = re.compile(r"(?:gpu:)?(?:[A-Za-z][\w.-]*:)?(\d{1,6})")
"""`2`, `a100:4`, `gpu:8`, `gpu:a100:4`."""


def asked_for(text: str) -> dict[str, str]:
    """The variables that Slurm sets in the job of a script.

    Source: Slurm's sbatch, INPUT and OUTPUT ENVIRONMENT VARIABLES.
    """
    if "#SBATCH" not in text:
        return {}
    found: dict[str, str] = {}
    for line in _LINE.findall(text):
        for flag, value in _flags(line):
            if (name := _FLAGS.get(flag)) and (count := _COUNT.fullmatch(value)):
                found[name] = count[1]
    nodes = found.get("SLURM_NNODES")
    if nodes is not None:
        found["SLURM_JOB_NUM_NODES"] = nodes
    tasks = found.get("SLURM_NTASKS_PER_NODE")
    if tasks is not None and "SLURM_NTASKS" not in found:
        found["SLURM_NTASKS"] = str(int(nodes or 1) * int(tasks))
    gpus = found.get("SLURM_GPUS_PER_NODE")
    if gpus is not None:
        found.setdefault("SLURM_GPUS_ON_NODE", gpus)
    return found


def _flags(line: str) -> list[tuple[str, str]]:
    """The flags of a line, each with what follows it."""
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    found = []
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("--"):
            found.append((name, value if equals else following))
        elif word.startswith("-"):
            found.append((word[1:2], word[2:].lstrip("=") or following))
    return found
