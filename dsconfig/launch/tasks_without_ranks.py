"""Tasks of Slurm and MPI that a Trainer or an Accelerator does not count as ranks."""

from __future__ import annotations

import re

from dsconfig.core.file_access import MAX_SIZE, read_contents
from dsconfig.job.consumers import HUGGING_FACE
from dsconfig.launch.launch_commands import LaunchCommand
from dsconfig.launch.launched_job import LaunchedJob
from dsconfig.launch.process_count import ProcessCount
from dsconfig.launch.python.syntax_trees import program_modules
from dsconfig.launch.repository_files import resolve_written_path

_RANK = "LOCAL_RANK"
_READS_TASKS = re.compile(
    r"SLURM_(?:LOCALID|PROCID|NTASKS)|OMPI_COMM_WORLD|\bPMI_|mpi4py|idr_torch|submitit|SLURMEnvironment"
    r"|[\"']LOCAL_RANK[\"']\]?\s*[=,]"
)
"""Pattern of code that takes the ranks from Slurm or MPI, or that sets `LOCAL_RANK` itself."""


def use_tasks_as_ranks(job: LaunchedJob, command: LaunchCommand, text: str) -> LaunchedJob:
    """Return the job with an unknown world size if its consumer may not see the tasks that Slurm or MPI starts.

    `srun python train.py` starts a process for each task, but with a GPU, Accelerate and so the Trainer read the rank
    from `LOCAL_RANK` only: accelerate state.py:PartialState._prepare_backend. Plain DeepSpeed asks MPI
    (comm/comm.py:mpi_discovery), and Lightning reads the variables of Slurm.

    `text`: the commands of the script.
    """
    processes = command.processes
    if not processes.are_tasks or processes.ranks in (None, 1) or job.format.reader not in HUGGING_FACE:
        return job
    if _RANK in text or _READS_TASKS.search(text) or _program_reads_tasks(command, job.launch.name):
        return job
    return job._replace(world_size=None, processes=ProcessCount(None, (f"${_RANK}",)))


def _program_reads_tasks(command: LaunchCommand, launch: str) -> bool:
    """Return whether a module of the program takes its ranks from Slurm or MPI."""
    program = resolve_written_path(command.program_file, launch, command.folder).path
    if program is None:
        return False
    try:
        modules = program_modules(program, launch)
        texts = [read_contents(module.path, MAX_SIZE).decode("utf-8", "replace") for module in modules]
    except (OSError, RecursionError):  # a nesting deeper than the interpreter's stack
        return False
    return any(_READS_TASKS.search(each) for each in texts)
