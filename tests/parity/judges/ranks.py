"""All ranks of a real DeepSpeed engine on CPU, each a process that runs a program of `workers/`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.parity.judges import engines, worker
from tests.ports import free_port

LIMIT = 120.0
"""Seconds for one run."""


class Ended(NamedTuple):
    """How a rank ended, and what it printed."""

    code: int
    out: str
    complaint: str


def run(release: str, program: str, config: Path, world_size: int) -> list[Ended]:
    """Every rank of `program CONFIG`, in the folder of the config.

    Raises:
        subprocess.TimeoutExpired: one of them takes longer than `LIMIT`; all are ended.
    """
    shared = engines.variables(release) | {
        "WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    ranks = [
        subprocess.Popen(
            worker.command(program, str(config)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=config.parent,
            env=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(world_size)
    ]
    try:
        said = [rank.communicate(timeout=LIMIT) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [Ended(rank.returncode, *texts) for rank, texts in zip(ranks, said, strict=True)]
