"""The command of a job, in a shell script or a manifest: which config it names, with which arguments."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import pairwise

from dsconfig.consumers.launchers.job import text_of
from dsconfig.consumers.launchers.places import is_name
from dsconfig.consumers.launchers.shell import Shell, ShellCommand
from dsconfig.consumers.launchers.table import FORMATS, Format
from dsconfig.json_types import Json, NamedTuple

READERS = {
    "deepspeed_config_file": "accelerate",
    "deepspeed_config": "deepspeed",
    "deepspeed": "transformers",
    "config_file": "accelerate",
}
"""Flags that name a config, or Accelerate's launch file, and who reads it then."""
_SUFFIXES = (".json", ".yaml", ".yml", ".conf", ".hjson", ".jsonc")
_PROCESSES = ("num_gpus", "nproc_per_node", "num_processes")
_NODES = ("nnodes", "num_nodes")
_PROGRAMS = [each for each in FORMATS if each.programs]
_BEFORE_ARGUMENTS = 40
"""Among so many words a command says which program it runs."""


class Command(NamedTuple):
    """A command that runs DeepSpeed with a config."""

    path: str
    """The config as it is written: a path or a preset's name; empty where the program makes it itself."""
    flag: str
    reader: str
    format: Format | None
    """The program, where it is one of those that have a row."""
    arguments: dict[str, Json]
    """Its flags, without their dashes (None: known to the job's shell alone); `ENV`: its variables."""
    world_size: int | None
    offset: int
    """Where it begins in the text."""
    folder: str
    """Where the script has gone before."""
    is_whole: bool = False
    """Whether all of its flags are known."""


def commands_in(shell: Shell) -> Iterator[Command]:
    """Each command of a shell text that runs DeepSpeed with a config."""
    for each in shell.commands():
        if found := _command(each):
            yield found


def _command(shell: ShellCommand) -> Command | None:
    words = shell.words
    given = _flags(words)
    if (path := _of_elastic(words)) is not None:
        return Command(
            path, "elastic run", "elastic", None, given, _world(given, shell), shell.offset, shell.folder
        )
    program = _program(words) if given else None
    flag = next((flag for flag in READERS if _names(flag, given, words, program)), "")
    if not flag and not (program is not None and program.makes) and not _plugin(words, given):
        return None
    reader = READERS.get(flag, "accelerate")
    if program is not None and flag in ("deepspeed", ""):
        reader = program.reader
    unknown = [name for name, value in given.items() if isinstance(value, str) and "$" in value]
    return Command(
        str(given[flag]) if flag else "",
        f"--{flag}" if flag else words[0],
        reader,
        program,
        {**given, **dict.fromkeys(unknown), "ENV": dict(shell.variables)},
        _world(given, shell),
        shell.offset,
        shell.folder,
        not any("$" in word for last, word in zip(("", *words), words, strict=False) if last[:2] != "--"),
    )


def _of_elastic(words: tuple[str, ...]) -> str | None:
    """The config of `dsconfig elastic run`; None for any other command."""
    for at, word in enumerate(words[:-3]):
        if word.endswith("dsconfig") and words[at + 1 : at + 3] == ("elastic", "run"):
            return next((path for path in words[at + 3 :] if path.endswith(_SUFFIXES) or "$" in path), None)
    return None


def _program(words: tuple[str, ...]) -> Format | None:
    """The program that a command runs, where the table has a row for it."""
    first = [word for word in words[:_BEFORE_ARGUMENTS] if not word.startswith("-")]
    for each in _PROGRAMS:
        if any(fnmatchcase(word, pattern) for word in first for pattern in each.programs):
            return each
    return None


def _flags(words: tuple[str, ...]) -> dict[str, Json]:
    """The long flags of a command: text, or true where nothing follows."""
    given: dict[str, Json] = {}
    for word, following in zip(words, [*words[1:], "--"], strict=False):
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            alone = following.startswith("-") and not following[1:2].isdigit()
            given[name.replace("-", "_")] = value if equals else True if alone else following
    return given


def _names(flag: str, given: Mapping[str, Json], words: tuple[str, ...], program: Format | None) -> bool:
    """Whether a flag names the config."""
    value = given.get(flag)
    if not isinstance(value, str) or not value:
        return False
    if flag == "config_file":
        return "launch" in words and any(word.endswith("accelerate") for word in words)
    if flag == "deepspeed" and program is not None and program.preset and is_name(value):
        return True
    return flag == "deepspeed_config" or value.endswith(_SUFFIXES) or "$" in value or bool(text_of(value))


def _plugin(words: tuple[str, ...], given: Mapping[str, Json]) -> bool:
    """Whether `accelerate launch` makes the config of its flags."""
    return "use_deepspeed" in given and "launch" in words


def _world(given: Mapping[str, Json], shell: ShellCommand) -> int | None:
    """The processes of all nodes, where the command says how many; Accelerate counts them over all nodes."""
    name = next((name for name in _PROCESSES if name in given), None)
    if name is not None:
        nodes = next((given[node] for node in _NODES if node in given), "1")
        return _product(given[name], "1" if name == "num_processes" else nodes)
    if (ranks := _of_mpi(shell.words)) is not None:
        return ranks
    if (listed := given.get("include")) and isinstance(listed, str):
        hosts = [host.partition(":")[2] for host in listed.split("@")]
        return sum(len(slots.split(",")) for slots in hosts) if all(hosts) else None
    if (count := shell.variables.get("NPROC_PER_NODE")) is not None:
        return _product(count, shell.variables.get("NNODES", "1"))
    devices = shell.variables.get("CUDA_VISIBLE_DEVICES", "")
    if shell.words[0] == "deepspeed" and not {"hostfile", "num_nodes"} & given.keys() and devices:
        return len(devices.split(",")) if "$" not in devices else None
    return None


def _of_mpi(words: tuple[str, ...]) -> int | None:
    """The processes of `mpirun -np N`; None where another program starts them."""
    if words[0].rpartition("/")[2] not in ("mpirun", "mpiexec"):
        return None
    pairs = pairwise(words[:_BEFORE_ARGUMENTS])
    return next((_product(count) for flag, count in pairs if flag in ("-np", "-n", "--np")), None)


def _product(*counts: Json) -> int | None:
    known = [
        int(count) for count in counts if isinstance(count, str) and count.isdecimal() and len(count) < 9
    ]
    return math.prod(known) or None if len(known) == len(counts) else None
