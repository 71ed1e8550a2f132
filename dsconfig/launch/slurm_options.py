"""`#SBATCH` options of a script, as the variables that Slurm sets in the job."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise

_SBATCH_LINE = re.compile(r"^#SBATCH[ \t]+([^\n#]*)", re.MULTILINE)
_SLURM_VARIABLES = {
    "nodes": "SLURM_NNODES",
    "N": "SLURM_NNODES",
    "ntasks": "SLURM_NTASKS",
    "n": "SLURM_NTASKS",
    "ntasks-per-node": "SLURM_NTASKS_PER_NODE",
    "tasks-per-node": "SLURM_NTASKS_PER_NODE",
    "gpus-per-node": "SLURM_GPUS_PER_NODE",
    "gres": "SLURM_GPUS_ON_NODE",
    "gpus": "SLURM_GPUS",
    "G": "SLURM_GPUS",
}
_SLURM_COUNT = re.compile(r"(?:gpu:)?(?:[A-Za-z][\w.-]*:)?(\d{1,6})")
"""A count in an option: `2`, `a100:4`, `gpu:8`, `gpu:a100:4`."""


def slurm_variables(text: str) -> dict[str, str]:
    """Variables that Slurm sets in the job of a script, from its `#SBATCH` lines.

    Source: Slurm's sbatch, INPUT and OUTPUT ENVIRONMENT VARIABLES.
    """
    if "#SBATCH" not in text:
        return {}
    variables: dict[str, str] = {}
    for line in _SBATCH_LINE.findall(text):
        for flag, value in _sbatch_flags(line):
            if (name := _SLURM_VARIABLES.get(flag)) and (count := _SLURM_COUNT.fullmatch(value)):
                variables[name] = count[1]
    nodes = variables.get("SLURM_NNODES")
    if nodes is not None:
        variables["SLURM_JOB_NUM_NODES"] = nodes
    tasks = variables.get("SLURM_NTASKS_PER_NODE")
    if tasks is not None and "SLURM_NTASKS" not in variables:
        # Slurm starts this many tasks if only --ntasks-per-node is given.
        variables["SLURM_NTASKS"] = str(int(nodes or 1) * int(tasks))
    gpus = variables.get("SLURM_GPUS_PER_NODE")
    if gpus is not None:
        variables.setdefault("SLURM_GPUS_ON_NODE", gpus)
    elif nodes == "1" and "SLURM_GPUS" in variables:
        variables.setdefault("SLURM_GPUS_ON_NODE", variables["SLURM_GPUS"])
    return variables


def _sbatch_flags(line: str) -> list[tuple[str, str]]:
    """Flags of a line with their values."""
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    flags = []
    for word, following in pairwise((*words, "")):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("--"):
            flags.append((name, value if equals else following))
        elif word.startswith("-"):
            flags.append((word[1:2], word[2:].lstrip("=") or following))
    return flags
