"""Summary of a job that a launch file or script starts, as reports show it."""

from __future__ import annotations

from collections.abc import Mapping

from dsconfig.core.json_types import NamedTuple


class JobSummary(NamedTuple):
    """The job of a launch file or script that was followed to its config."""

    location: str
    """File and line that start it: `run.sh:12`."""
    consumer: str
    """Program and library in words: `LLaMA-Factory, Trainer`."""
    config: str
    """Path of the config, or location of the call that receives it from its program: `main.py:12`.

    Empty if the launch file contains the config or there is none.
    """
    world_size: int | None
    batch: tuple[int, int, int] | None
    """`train_batch_size`, micro batch and accumulation steps; None if they are not known or impossible."""
    data_parallel_size: float | None
    formula: str
    """The batch in the number of GPUs, if only that is unknown: `train_batch_size = 2 × 4 × GPUs`."""
    unknown: str
    """Reason why the world size or the batch is known only to the run, as a clause; empty if both are known."""
    why_not_checked: str
    """Why its config is not checked, as a clause; empty if it is."""
    notes: tuple[str, ...]
    """Notes of the report that the summary stands for."""
    counts: Mapping[str, int]
    """Diagnostics of the job by severity, also those that an earlier job has too."""
