"""Count the processes that a command starts, and find the shell variables that change the count."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol, TypeVar

from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.launch.hostfile import count_slots, hosts_of
from dsconfig.launch.launcher_call import (
    DEEPSPEED,
    MPI_SLOTS,
    MPI_WORKERS,
    NODE_GPUS,
    LauncherCall,
    find_launcher_call,
)

if TYPE_CHECKING:
    from dsconfig.launch.shell.interpreter import ShellCommand, ShellInterpreter

_PROCESS_FLAGS = ("num_gpus", "num_accelerators", "nproc_per_node", "num_processes")
_RAY_FLAGS = (("actor.num_nodes", "actor.num_gpus_per_node"), ("actor_num_nodes", "actor_num_gpus_per_node"))
"""Flags of OpenRLHF for the ranks of the trained model, which Ray starts: openrlhf cli/train_ppo_ray.py."""
_NODE_FLAGS = ("nnodes", "num_nodes", "num_machines")
_LAUNCHER_VARIABLES = (("NNODES", "NPROC_PER_NODE"), ("PET_NNODES", "PET_NPROC_PER_NODE"))
"""Environment variables that launchers read in addition to flags: first those of programs that start torchrun, then
those of torchrun itself.

Sources: ms-swift cli/main.py; torch distributed/argparse_util.py:env.
"""
_MAX_WORDS = 40
"""Number of leading words searched for the launcher's flags."""
_MAX_VARIABLES = 8
"""Maximum number of shell variables tried to reach a world size."""
_COUNT_NAMES = re.compile("node|gpu|proc|num|world|worker|machine|device|rank", re.IGNORECASE)
"""Pattern of words in the names of counts; variables with such names are tried first."""


class ProcessCount(NamedTuple):
    """The number of processes that a command starts; an unknown number is None."""

    ranks: int | None
    """World size, or None if unknown before the run."""
    open_expressions: tuple[str, ...] = ()
    """Expressions that leave the world size unknown, as written: `--nproc_per_node=$NGPU`."""
    per_node: int | None = None
    """Number of processes per node, if only the number of nodes is unknown."""
    are_tasks: bool = False
    """Whether Slurm or MPI starts the processes, without the variables of torchrun."""


def count_processes(flags: Mapping[str, Json], shell: ShellCommand, script: ShellInterpreter) -> ProcessCount:
    """Count the processes of a command on all nodes by its flags, hostfile, MPI launcher, variables or Slurm job.

    `accelerate launch --num_processes` is the total; the flags of `deepspeed` and `torchrun` count per node.
    """
    for nodes, counts in _RAY_FLAGS:
        if nodes in flags and counts in flags:
            return _multiply_counts({nodes: flags[nodes], counts: flags[counts]}, nodes, counts)
    launcher = find_launcher_call(shell.words, shell.variables)
    if launcher is not None and launcher.name == DEEPSPEED and "hostfile" in launcher.flags:
        slots = _mpi_hosts(launcher, shell) or hosts_of(launcher.flags["hostfile"], shell.folder, script)
        ranks = None if slots is None else count_slots(slots, launcher)
        if ranks is not None:
            return ProcessCount(ranks)
    name = next((name for name in _PROCESS_FLAGS if name in flags), None)
    if name is not None:
        return _processes_from_flags(name, flags, shell.variables)
    if (mpi_processes := _processes_from_mpi(shell)) is not None:
        return mpi_processes._replace(are_tasks=True)
    # launcher/runner.py:main rejects these filters together with --num_nodes and --num_gpus.
    if "include" in flags or "exclude" in flags:
        return _processes_from_include_filter(flags)
    launchers = _LAUNCHER_VARIABLES if _launcher_reads_variables(shell.words) else ()
    for nodes, counts in launchers:
        if (count := shell.variables.get(counts)) is not None:
            values = {counts: count, nodes: shell.variables.get(nodes, "1")}
            return _multiply_counts(values, nodes, counts)
    if shell.words[0] == "srun":
        return _processes_from_slurm(shell)
    is_deepspeed = launcher is not None and launcher.name == DEEPSPEED
    is_first = shell.words[0] == DEEPSPEED or shell.words[0].rpartition("/")[2].startswith("python")
    if is_deepspeed and is_first and not {"hostfile", "num_nodes"} & flags.keys():
        return _local_gpus(shell.variables)
    return ProcessCount(
        None,
        tuple(_format_flag_or_variable(f"--{flag}", flags[flag]) for flag in ("hostfile",) if flag in flags),
    )


def _local_gpus(variables: Mapping[str, str]) -> ProcessCount:
    """Return the number of local GPUs that `deepspeed` and `--nproc_per_node gpu` use.

    Source: deepspeed launcher/runner.py:main, which takes the local slots from CUDA_VISIBLE_DEVICES without a hostfile;
    torch distributed/run.py:determine_local_world_size.
    """
    devices = variables.get("CUDA_VISIBLE_DEVICES", "")
    if not devices:
        return ProcessCount(
            _multiply_decimal_texts(variables.get(NODE_GPUS) or variables.get("SLURM_GPUS_ON_NODE"))
        )
    if _UNEXPANDED.search(devices):
        return ProcessCount(None, (f"CUDA_VISIBLE_DEVICES={devices}",))
    return ProcessCount(len(devices.split(",")))


_UNEXPANDED = re.compile(r"[$`]")


def _processes_from_flags(name: str, flags: Mapping[str, Json], variables: Mapping[str, str]) -> ProcessCount:
    counts = {f"--{name}": flags[name]}
    if name == "nproc_per_node" and flags[name] in _ALL_GPUS and (gpus := _local_gpus(variables).ranks):
        counts[f"--{name}"] = str(gpus)
    if name == "num_processes":
        return _multiply_counts(counts, "", f"--{name}")
    node_flag = next((node_flag for node_flag in _NODE_FLAGS if node_flag in flags), None)
    if node_flag is not None:
        counts[f"--{node_flag}"] = flags[node_flag]
    elif name == "num_gpus" and "hostfile" in flags:
        # launcher/runner.py:apply_num_nodes_and_gpus starts `--num_gpus` processes on each host of the file.
        counts["--hostfile"] = (
            None if flags["hostfile"] is None else _format_flag_or_variable("", flags["hostfile"])
        )
        return _multiply_counts(counts, "--hostfile", f"--{name}")
    elif name == "nproc_per_node":
        # torchrun takes PET_NNODES as the default of --nnodes: torch distributed/argparse_util.py:env.
        counts["PET_NNODES"] = variables.get("PET_NNODES", "1")
    return _multiply_counts(counts, f"--{node_flag}" if node_flag else "PET_NNODES", f"--{name}")


_ALL_GPUS = ("gpu", "auto")
"""Values of `--nproc_per_node` that stand for all GPUs of a node."""


def _multiply_counts(counts: Mapping[str, Json], nodes: str, processes: str) -> ProcessCount:
    """Multiply the number of nodes by the processes per node, keeping the flags or variables for messages."""
    ranks = _multiply_decimal_texts(*counts.values())
    open_counts = tuple(
        _format_flag_or_variable(name, count)
        for name, count in counts.items()
        if _multiply_decimal_texts(count) is None
    )
    only_nodes_open = (
        len(open_counts) == 1 and nodes in counts and _multiply_decimal_texts(counts[nodes]) is None
    )
    return ProcessCount(
        ranks, open_counts, _multiply_decimal_texts(counts[processes]) if only_nodes_open else None
    )


_MAX_LENGTH = 60
_SUBSTITUTION = re.compile(r"`([^`]*)`")
"""Pattern of a command substitution in backticks, which would end the code quote in a message."""


def _format_flag_or_variable(name: str, value: Json) -> str:
    """Format a flag or variable and its value for a message."""
    text = "" if value in (None, True) else _SUBSTITUTION.sub(r"$(\1)", str(value))
    text = text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"
    return f"{name}={text}" if name and text else name or text


def _processes_from_include_filter(flags: Mapping[str, Json]) -> ProcessCount:
    """Return the number of slots that `deepspeed --include` selects; unknown if `--exclude` is also set.

    Source: deepspeed launcher/runner.py:parse_resource_filter, where hosts are separated by `@`.
    """
    included = flags.get("include")
    if not isinstance(included, str) or "exclude" in flags:
        name = "include" if "include" in flags else "exclude"
        return ProcessCount(None, (_format_flag_or_variable(f"--{name}", flags[name]),))
    hosts = [host.partition(":")[2] for host in included.split("@")]
    if all(hosts) and all(slot.isdecimal() for slots in hosts for slot in slots.split(",")):
        return ProcessCount(sum(len(slots.split(",")) for slots in hosts))
    return ProcessCount(None, (_format_flag_or_variable("--include", included),))


def _launcher_reads_variables(words: tuple[str, ...]) -> bool:
    """Return whether a command's launcher takes process counts from environment variables; `deepspeed` does not."""
    first = words[0].rpartition("/")[2]
    # `deepspeed` and `accelerate launch` do not read these variables.
    return first not in ("deepspeed", "accelerate") and not (
        first.startswith("python")
        and "-m" not in words[1:3]
        and not _TORCHRUN_WRAPPERS.search(" ".join(words[:3]))
    )


_TORCHRUN_WRAPPERS = re.compile(r"torch|swift|factory|xtuner|launch")


def _processes_from_mpi(shell: ShellCommand) -> ProcessCount | None:
    """Return the process count of `mpirun`, which defaults to all slots of an MPIJob; None for other commands."""
    words = shell.words
    if words[0].rpartition("/")[2] not in ("mpirun", "mpiexec"):
        return None
    for flag, count in _flag_values(words, ("-np", "-n", "--np")):
        ranks = _multiply_decimal_texts(count)
        return ProcessCount(ranks, () if ranks else (f"{flag} {count}",))
    if any(word.startswith(_MPI_PLACEMENT) for word in words[:_MAX_WORDS]):
        return ProcessCount(None)
    return ProcessCount(
        _multiply_decimal_texts(shell.variables.get(MPI_WORKERS), shell.variables.get(MPI_SLOTS))
    )


_MPI_PLACEMENT = (
    "-N",
    "-npernode",
    "--npernode",
    "-ppn",
    "--map-by",
    "-map-by",
    "-H",
    "--host",
    "-hostfile",
    "--hostfile",
)
"""Flags of MPI that change the placement from the default of one process per slot."""


_MPI_JOB_HOSTFILE = "/etc/mpi/hostfile"
"""Hostfile that the MPI operator writes: kubeflow mpi-operator pkg/controller/mpi_job_controller.go."""
_MAX_HOSTS = 10_000


def _mpi_hosts(launcher: LauncherCall, shell: ShellCommand) -> Mapping[str, int] | None:
    """Return the slots per worker of an MPIJob, or None for any other hostfile."""
    workers, slots = (_multiply_decimal_texts(shell.variables.get(name)) for name in (MPI_WORKERS, MPI_SLOTS))
    if launcher.flags["hostfile"] != _MPI_JOB_HOSTFILE or workers is None or slots is None:
        return None
    return {f"worker-{number}": slots for number in range(min(workers, _MAX_HOSTS))}


_TASK_OPTIONS = ("-n", "--ntasks", "-N", "--nodes", "--ntasks-per-node")


def _processes_from_slurm(shell: ShellCommand) -> ProcessCount:
    """Return the number of tasks of a Slurm step in which each task trains: `srun python train.py`.

    If a single task starts a launcher (`srun deepspeed train.py`), return the number of GPUs of that task.
    """
    launcher = next((word for word in shell.words[1:_MAX_WORDS] if _is_launcher_name(word)), "")
    if launcher == DEEPSPEED and shell.variables.get("SLURM_NTASKS") == "1":
        options = dict(_flag_values(shell.words[: shell.words.index(launcher)], _TASK_OPTIONS))
        return ProcessCount(None) if options else _local_gpus(shell.variables)
    if not launcher.rpartition("/")[2].startswith("python"):
        return ProcessCount(None)
    at = shell.words.index(launcher)
    if "-m" in shell.words[at + 1 : at + 3]:  # perhaps a launcher
        return ProcessCount(None)
    options = dict(_flag_values(shell.words[:at], _TASK_OPTIONS))
    return _count_tasks(options, shell.variables)._replace(are_tasks=True)


def _count_tasks(options: Mapping[str, str], variables: Mapping[str, str]) -> ProcessCount:
    """Return the number of tasks of a Slurm step with these options of `srun`."""
    for flag in ("--ntasks", "-n"):
        if flag in options:
            return _multiply_counts({flag: options[flag]}, "", flag)
    if not options:
        tasks = variables.get("SLURM_NTASKS")
        return (
            ProcessCount(None)
            if tasks is None
            else _multiply_counts({"SLURM_NTASKS": tasks}, "", "SLURM_NTASKS")
        )
    counts: dict[str, Json] = {}
    for flags, variable in (
        (("--nodes", "-N"), "SLURM_NNODES"),
        (("--ntasks-per-node",), "SLURM_NTASKS_PER_NODE"),
    ):
        flag = next((flag for flag in flags if flag in options), variable)
        counts[flag] = options.get(flag, variables.get(variable, "1"))
    nodes, tasks_per_node = counts
    return _multiply_counts(counts, nodes, tasks_per_node)


def _is_launcher_name(word: str) -> bool:
    return word.rpartition("/")[2].startswith(("python", "torchrun", "accelerate", "deepspeed", "bash"))


def _flag_values(words: tuple[str, ...], flags: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield each of the `flags` at the start of the words, with its value."""
    for word, following in pairwise((*words[:_MAX_WORDS], "")):
        name, equals, value = word.partition("=")
        if name in flags:
            yield name, value if equals else following


def _multiply_decimal_texts(*counts: Json) -> int | None:
    """Return the product of counts given as text, or None if one is not a number or the product is 0."""
    numbers = [
        int(count) for count in counts if isinstance(count, str) and count.isdecimal() and len(count) < 10
    ]
    return math.prod(numbers) or None if len(numbers) == len(counts) else None


# Shell variables that decide the number of processes.


def variables_deciding_processes(shell: ShellCommand) -> tuple[str, ...]:
    """Return the unset shell variables that determine the process count, those for the node count first."""
    if not shell.dependencies:
        return ()
    unset: dict[str, None] = {}
    for flags, variable in ((_NODE_FLAGS, 0), (_PROCESS_FLAGS, 1)):
        for word in _words_with_flag_values(shell.words, flags):
            unset |= dict.fromkeys(sorted(shell.dependencies.get(word, ())))
        for names in _LAUNCHER_VARIABLES:
            unset |= dict.fromkeys(sorted(shell.dependencies.get(names[variable], ())))
    return tuple(sorted(unset, key=lambda name: _COUNT_NAMES.search(name) is None))[:_MAX_VARIABLES]


def _words_with_flag_values(words: tuple[str, ...], flags: tuple[str, ...]) -> Iterator[str]:
    """Yield the words that contain the value of one of `flags`, either alone or as `--flag=value`."""
    for word, following in pairwise((*words, "")):
        name, equals, _ = word[2:].partition("=")
        if word.startswith("--") and name.replace("-", "_") in flags:
            yield word if equals else following


class HasWorldSize(Protocol):
    """A command whose world size can be computed."""

    @property
    def world_size(self) -> int | None:
        """Number of processes on all nodes, or None if unknown."""


CommandT = TypeVar("CommandT", bound=HasWorldSize)


def solve_variables_for_ranks(
    evaluate: Callable[[Mapping[str, str]], CommandT | None], names: tuple[str, ...], ranks: int
) -> tuple[CommandT, dict[str, str]] | None:
    """Find values of shell variables for which a command starts `ranks` processes, or return None.

    `evaluate` returns the command for given values. One variable at a time is set to the missing factor, first with the
    others unset, then with the others set to 1.
    """
    command = evaluate({})
    if command is not None and command.world_size == ranks:
        return command, {}
    ones = dict.fromkeys(names, "1")
    for others, order in (({}, names), (ones, names[::-1])):
        for name in order:
            with_one = evaluate({**others, name: "1"})
            if with_one is None or with_one.world_size is None or ranks % with_one.world_size:
                continue
            values = {**others, name: str(ranks // with_one.world_size)}
            solution = evaluate(values)
            if solution is not None and solution.world_size == ranks:
                return solution, values
    return None
