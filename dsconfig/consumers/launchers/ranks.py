"""How many processes a command starts, and what the job's shell holds where they are to be others."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Protocol, TypeVar

from dsconfig.consumers.launchers.shell import ShellCommand
from dsconfig.json_types import Json

_PROCESSES = ("num_gpus", "nproc_per_node", "num_processes")
_NODES = ("nnodes", "num_nodes", "num_machines")
_VARIABLES = (("NNODES", "NPROC_PER_NODE"), ("PET_NNODES", "PET_NPROC_PER_NODE"))
"""What launchers read beside their flags.

Sources: ms-swift cli/main.py; torch distributed/argparse_util.py:env.
"""
_START = 40
"""Among so many words a command says how it starts its processes."""
_MOST = 8
"""So many variables of a job's shell are tried."""
_COUNTS = re.compile("node|gpu|proc|num|world|worker|machine|device|rank", re.IGNORECASE)
"""What the names of counts have in them: these are tried first."""


def world_size(given: Mapping[str, Json], shell: ShellCommand) -> int | None:
    """The processes of all nodes, where the command says how many; Accelerate counts them over all nodes."""
    name = next((name for name in _PROCESSES if name in given), None)
    known = shell.variables
    if name is not None:
        nodes = next((given[node] for node in _NODES if node in given), known.get("PET_NNODES", "1"))
        return _product(given[name], "1" if name == "num_processes" else nodes)
    if (ranks := _of_mpi(shell.words)) is not None:
        return ranks
    if (listed := given.get("include")) and isinstance(listed, str):
        hosts = [host.partition(":")[2] for host in listed.split("@")]
        return sum(len(slots.split(",")) for slots in hosts) if all(hosts) else None
    for nodes, processes in _VARIABLES:
        if (count := known.get(processes)) is not None:
            return _product(count, known.get(nodes, "1"))
    if shell.words[0] == "srun":
        return _of_slurm(shell)
    devices = known.get("CUDA_VISIBLE_DEVICES", "")
    if shell.words[0] == "deepspeed" and not {"hostfile", "num_nodes"} & given.keys() and devices:
        return len(devices.split(",")) if "$" not in devices else None
    return None


def _of_mpi(words: tuple[str, ...]) -> int | None:
    """The processes of `mpirun -np N`; None where another program starts them."""
    if words[0].rpartition("/")[2] not in ("mpirun", "mpiexec"):
        return None
    return next((_product(count) for flag, count in _pairs(words, ("-np", "-n", "--np"))), None)


def _of_slurm(shell: ShellCommand) -> int | None:
    """The tasks of a step, where each is a process that trains: `srun python train.py`."""
    started = next((word for word in shell.words[1:_START] if _is_program(word)), "")
    if not started.rpartition("/")[2].startswith("python"):
        return None
    at = shell.words.index(started)
    if "-m" in shell.words[at + 1 : at + 3]:  # perhaps a launcher
        return None
    own = dict(_pairs(shell.words[:at], ("-n", "--ntasks", "-N", "--nodes", "--ntasks-per-node")))
    known = shell.variables
    if (count := own.get("--ntasks", own.get("-n"))) is not None:
        return _product(count)
    if own:
        nodes = own.get("--nodes", own.get("-N", known.get("SLURM_NNODES", "1")))
        return _product(nodes, own.get("--ntasks-per-node", known.get("SLURM_NTASKS_PER_NODE", "1")))
    return _product(known.get("SLURM_NTASKS"))


def _is_program(word: str) -> bool:
    return word.rpartition("/")[2].startswith(("python", "torchrun", "accelerate", "deepspeed", "bash"))


def _pairs(words: tuple[str, ...], flags: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Such flags among the first words, each with its value."""
    for word, following in pairwise((*words[:_START], "")):
        name, equals, value = word.partition("=")
        if name in flags:
            yield name, value if equals else following


def _product(*counts: Json) -> int | None:
    known = [
        int(count) for count in counts if isinstance(count, str) and count.isdecimal() and len(count) < 10
    ]
    return math.prod(known) or None if len(known) == len(counts) else None


# Where the job's own shell says how many
# --------------------------------------------------------------------------------------------------


def open_of(shell: ShellCommand) -> tuple[str, ...]:
    """What of the job's own shell decides how many processes a command starts: of the nodes first."""
    if not shell.open:
        return ()
    found: dict[str, None] = {}
    for flags, variable in ((_NODES, 0), (_PROCESSES, 1)):
        for word in _words_of(shell.words, flags):
            found |= dict.fromkeys(sorted(shell.open.get(word, ())))
        for names in _VARIABLES:
            found |= dict.fromkeys(sorted(shell.open.get(names[variable], ())))
    return tuple(sorted(found, key=lambda name: _COUNTS.search(name) is None))[:_MOST]


def _words_of(words: tuple[str, ...], flags: tuple[str, ...]) -> Iterator[str]:
    """The words that are the value of one of these flags, or hold it."""
    for word, following in pairwise((*words, "")):
        name, equals, _ = word[2:].partition("=")
        if word.startswith("--") and name.replace("-", "_") in flags:
            yield word if equals else following


class Started(Protocol):
    """A command, of which it is known how many processes it starts."""

    @property
    def world_size(self) -> int | None:
        """Of all nodes; None: not known."""


AnyStarted = TypeVar("AnyStarted", bound=Started)


def solved(
    read: Callable[[Mapping[str, str]], AnyStarted | None], names: tuple[str, ...], ranks: int
) -> tuple[AnyStarted, dict[str, str]] | None:
    """The command that starts so many processes, and what its job's shell holds then; None: there is none.

    `read`: reads the command with such values in the job's shell.
    """
    plain = read({})
    if plain is not None and plain.world_size == ranks:
        return plain, {}
    ones = dict.fromkeys(names, "1")
    for others, order in (({}, names), (ones, names[::-1])):
        for name in order:
            alone = read({**others, name: "1"})
            if alone is None or alone.world_size is None or ranks % alone.world_size:
                continue
            values = {**others, name: str(ranks // alone.world_size)}
            found = read(values)
            if found is not None and found.world_size == ranks:
                return found, values
    return None


def of_one_node(read: Callable[[Mapping[str, str]], AnyStarted | None], names: tuple[str, ...]) -> int | None:
    """The processes where what is not known is 1, if those of a node are known."""
    for name in names:
        found = read({name: "1"})
        if found is not None and found.world_size is not None:
            return found.world_size
    return None
