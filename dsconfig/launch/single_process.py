"""Programs that a command starts as a single process: `python train.py`, without a launcher."""

from __future__ import annotations

import os
import re
from functools import lru_cache

from dsconfig.core.file_access import MAX_SIZE, read_contents
from dsconfig.launch.launch_commands import LaunchCommand
from dsconfig.launch.launch_file_formats import SCRIPTS
from dsconfig.launch.launcher_call import PYTHON
from dsconfig.launch.process_count import ProcessCount
from dsconfig.launch.python.syntax_trees import program_modules
from dsconfig.launch.repository_files import files_of_repository, resolve_written_path, time_cache_key

# Without the variables of a launcher, DeepSpeed asks MPI for the ranks, and a process that MPI did not start is the
# only one: comm/comm.py:init_distributed, mpi_discovery. The Trainer and Accelerate count one process as well:
# accelerate state.py:PartialState, which reads LOCAL_RANK.

_STARTERS = (
    r"spawn|start_processes|notebook_launcher|debug_launcher|torchrun|distributed\.run|\bray\b|lightning|\bFabric\b"
    r"|submitit|mpi4py|horovod|TorchDistributor|elastic_launch|composer|os\.exec|(?i:WORLD_SIZE)[\"']\]\s*="
)
STARTS_PROCESSES = re.compile(rf"{_STARTERS}|Popen|subprocess|multiprocessing|os\.system|launch\(")
"""Pattern of code with which a program starts its own processes, or may do so."""
_STARTS_PROCESSES_IN_MODULE = re.compile(_STARTERS)
"""Pattern of such code in a module that the program imports; many use `subprocess` for other purposes."""
RANK_VARIABLES = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE"})
"""Environment variables that a script sets if it starts each process itself."""
_NAMES_RANKS = re.compile(r"\b\w*(?:RANK|WORLD_SIZE|PROCID|NODEID)\b")
"""Pattern of a variable with which a script may start one process for each rank."""
_STARTS_SEVERAL = r"\b(?:srun|mpirun|mpiexec|jsrun|torchrun|pdsh|parallel|ssh|deepspeed|accelerate)\b[^\n]*"
"""Pattern of a command that starts a script several times, up to the name of the script."""


def count_single_process(command: LaunchCommand, script: str, text: str) -> LaunchCommand:
    """Return a command with a world size of 1 if it certainly starts one process; unchanged otherwise.

    Args:
        command: the command.
        script: path of the script or notebook with the command.
        text: the shell commands of the script.
    """
    launcher, variables = command.launcher, command.arguments.get("ENV")
    if launcher is None or launcher.name != PYTHON or command.world_size is not None:
        return command
    tasks = variables.get("SLURM_NTASKS") if isinstance(variables, dict) else None
    if command.processes != ProcessCount(None) or tasks not in (None, "1") or _NAMES_RANKS.search(text):
        return command
    # A container may run on several machines, whose manifest is elsewhere.
    if script.startswith("<") or re.search(r"(?<!make)(?<!just)file", os.path.basename(script).lower()):
        return command
    program = resolve_written_path(command.program_file, script, command.folder).path
    path = os.path.abspath(script)
    if program is None or not _is_single(os.path.abspath(program), path, time_cache_key()):
        return command
    return command._replace(world_size=1, processes=ProcessCount(1))


@lru_cache(maxsize=64)
def _is_single(program: str, script: str, _: int) -> bool:
    """Return whether no module of the program starts processes, and no other script starts this one several times."""
    modules = program_modules(program, script)
    if not modules:
        return False
    try:
        for module in modules:
            text = read_contents(module.path, MAX_SIZE).decode("utf-8", "replace")
            is_program = os.path.realpath(module.path) == os.path.realpath(program)
            if (STARTS_PROCESSES if is_program else _STARTS_PROCESSES_IN_MODULE).search(text):
                return False
    except OSError:
        return False
    name = os.fsencode(os.path.basename(script))
    starts_several = re.compile(_STARTS_SEVERAL.encode() + re.escape(name))
    return not any(
        name in data and starts_several.search(data) for _, data in files_of_repository(script, SCRIPTS)
    )
