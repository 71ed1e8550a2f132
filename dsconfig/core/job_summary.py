"""A job that a launch file or script starts, summarized for reports."""

from __future__ import annotations

from collections.abc import Mapping

from dsconfig.core.json_types import NamedTuple


class JobSummary(NamedTuple):
    """Summary of a job whose config was found through a launch file or script."""

    location: str
    """File and line that start the job: `run.sh:12`."""
    consumer: str
    """Program and library that load the config, in words: `LLaMA-Factory, Trainer`."""
    config: str
    """Path of the config, or location of the call that receives the config from its program: `main.py:12`.

    Empty if the launch file contains the config, or if there is no config.
    """
    world_size: int | None
    batch: tuple[int, int, int] | None
    """`train_batch_size`, micro batch and accumulation steps, or None if they are unknown or impossible."""
    data_parallel_size: float | None
    formula: str
    """The batch size as a formula, if only the number of GPUs is unknown: `train_batch_size = 2 × 4 × GPUs`."""
    unknown: str
    """Why the world size or the batch is known only at run time, as a clause; empty if both are known."""
    why_not_checked: str
    """Why the config of the job is not checked, as a clause; empty if the config is checked."""
    notes: tuple[str, ...]
    """Notes of the report that this summary replaces."""
    counts: Mapping[str, int]
    """Number of diagnostics of the job by severity, including those that an earlier job has too."""
