"""Job as its launch file describes it: config, consumer, arguments, and number of processes."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeVar

from dsconfig.core.json_types import Json, JsonObject, KeyPath, NamedTuple
from dsconfig.document import Document, Span
from dsconfig.job.consumers.accelerate_launch_file import BLOCK, LINK, block, loads_whole
from dsconfig.job.consumers.consumer import consumer_of
from dsconfig.job.consumers.consumer_versions import does
from dsconfig.job.detect_consumer import LaunchArguments, Reader
from dsconfig.job.job_facts import Model, RunFacts
from dsconfig.launch.launch_file_formats import Format
from dsconfig.launch.launcher_call import LauncherCall
from dsconfig.launch.repository import Lookup, is_preset_name, search

if TYPE_CHECKING:
    from dsconfig.launch.shell.interpreter import ShellCommand


# Number of processes of a command, and the shell variables to change for another number.

_PROCESS_FLAGS = ("num_gpus", "nproc_per_node", "num_processes")
_RAY_FLAGS = (("actor.num_nodes", "actor.num_gpus_per_node"), ("actor_num_nodes", "actor_num_gpus_per_node"))
"""Flags of OpenRLHF for the ranks of the trained model, which Ray starts: openrlhf cli/train_ppo_ray.py."""
_NODE_FLAGS = ("nnodes", "num_nodes", "num_machines")
_LAUNCHER_VARIABLES = (("NNODES", "NPROC_PER_NODE"), ("PET_NNODES", "PET_NPROC_PER_NODE"))
"""Environment variables that launchers read besides their flags: programs that start torchrun, then torchrun
itself.

Sources: ms-swift cli/main.py; torch distributed/argparse_util.py:env.
"""
_MAX_WORDS = 40
"""Number of leading words searched for the launcher's flags."""
_MAX_VARIABLES = 8
"""Most shell variables tried to reach a world size."""
_COUNT_NAMES = re.compile("node|gpu|proc|num|world|worker|machine|device|rank", re.IGNORECASE)
"""Typical parts of the names of counts; variables with such names are tried first."""


class Processes(NamedTuple):
    """Number of processes that a command starts."""

    ranks: int | None
    """World size; None: unknown before the run."""
    open_expressions: tuple[str, ...] = ()
    """Expressions that leave it open, as written: `--nproc_per_node=$NGPU`."""
    per_node: int | None = None
    """Processes per node, if only the number of nodes is unknown."""


def count_processes(flags: Mapping[str, Json], shell: ShellCommand) -> Processes:
    """Count the processes of a command on all nodes, from flags, MPI, filters, variables or Slurm.

    `accelerate launch --num_processes` is the total; the flags of `deepspeed` and `torchrun` count per node.
    """
    for nodes, counts in _RAY_FLAGS:
        if nodes in flags and counts in flags:
            return _product_of_counts({nodes: flags[nodes], counts: flags[counts]}, nodes, counts)
    name = next((name for name in _PROCESS_FLAGS if name in flags), None)
    if name is not None:
        return _from_flags(name, flags, shell.variables)
    if (mpi_processes := _from_mpi(shell.words)) is not None:
        return mpi_processes
    # launcher/runner.py:main rejects these filters together with --num_nodes and --num_gpus.
    if "include" in flags or "exclude" in flags:
        return _from_filter(flags)
    launchers = _LAUNCHER_VARIABLES if _reads_variables(shell.words) else ()
    for nodes, counts in launchers:
        if (count := shell.variables.get(counts)) is not None:
            values = {counts: count, nodes: shell.variables.get(nodes, "1")}
            return _product_of_counts(values, nodes, counts)
    if shell.words[0] == "srun":
        return _from_slurm(shell)
    # launcher/runner.py:main reads CUDA_VISIBLE_DEVICES as the local slots if there is no hostfile.
    devices = shell.variables.get("CUDA_VISIBLE_DEVICES", "")
    if shell.words[0] == "deepspeed" and not {"hostfile", "num_nodes"} & flags.keys() and devices:
        if _UNEXPANDED.search(devices):
            return Processes(None, (f"CUDA_VISIBLE_DEVICES={devices}",))
        return Processes(len(devices.split(",")))
    return Processes(
        None, tuple(_as_written(f"--{flag}", flags[flag]) for flag in ("hostfile",) if flag in flags)
    )


_UNEXPANDED = re.compile(r"[$`]")


def _from_flags(name: str, flags: Mapping[str, Json], variables: Mapping[str, str]) -> Processes:
    counts = {f"--{name}": flags[name]}
    if name == "num_processes":
        return _product_of_counts(counts, "", f"--{name}")
    node_flag = next((node_flag for node_flag in _NODE_FLAGS if node_flag in flags), None)
    if node_flag is not None:
        counts[f"--{node_flag}"] = flags[node_flag]
    elif name == "num_gpus" and "hostfile" in flags:
        # launcher/runner.py:apply_num_nodes_and_gpus starts `--num_gpus` processes on each host of the file.
        counts["--hostfile"] = None if flags["hostfile"] is None else _as_written("", flags["hostfile"])
        return _product_of_counts(counts, "--hostfile", f"--{name}")
    elif name == "nproc_per_node":
        # torchrun takes PET_NNODES as the default of --nnodes: torch distributed/argparse_util.py:env.
        counts["PET_NNODES"] = variables.get("PET_NNODES", "1")
    return _product_of_counts(counts, f"--{node_flag}" if node_flag else "PET_NNODES", f"--{name}")


def _product_of_counts(counts: Mapping[str, Json], nodes: str, processes: str) -> Processes:
    """Multiply counts, which are named by their flags or variables."""
    ranks = _product(*counts.values())
    open_counts = tuple(_as_written(name, count) for name, count in counts.items() if _product(count) is None)
    only_nodes_open = len(open_counts) == 1 and nodes in counts and _product(counts[nodes]) is None
    return Processes(ranks, open_counts, _product(counts[processes]) if only_nodes_open else None)


_MAX_LENGTH = 60
_SUBSTITUTION = re.compile(r"`([^`]*)`")
"""The backtick form of `$(...)`, whose backticks would end the code quote in a message."""


def _as_written(name: str, value: Json) -> str:
    """A flag or variable as shown in messages."""
    text = "" if value in (None, True) else _SUBSTITUTION.sub(r"$(\1)", str(value))
    text = text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"
    return f"{name}={text}" if name and text else name or text


def _from_filter(flags: Mapping[str, Json]) -> Processes:
    """The number of slots in `--include` of the launcher `deepspeed`; unknown with `--exclude`.

    Source: deepspeed launcher/runner.py:parse_resource_filter, where hosts are separated by `@`.
    """
    included = flags.get("include")
    if not isinstance(included, str) or "exclude" in flags:
        name = "include" if "include" in flags else "exclude"
        return Processes(None, (_as_written(f"--{name}", flags[name]),))
    hosts = [host.partition(":")[2] for host in included.split("@")]
    if all(hosts) and all(slot.isdecimal() for slots in hosts for slot in slots.split(",")):
        return Processes(sum(len(slots.split(",")) for slots in hosts))
    return Processes(None, (_as_written("--include", included),))


def _reads_variables(words: tuple[str, ...]) -> bool:
    """Whether a command's launcher reads the environment variables; `deepspeed` does not."""
    first = words[0].rpartition("/")[2]
    # `deepspeed` and `accelerate launch` do not read these variables.
    return first not in ("deepspeed", "accelerate") and not (
        first.startswith("python")
        and "-m" not in words[1:3]
        and not _TORCHRUN_WRAPPERS.search(" ".join(words[:3]))
    )


_TORCHRUN_WRAPPERS = re.compile(r"torch|swift|factory|xtuner|launch")


def _from_mpi(words: tuple[str, ...]) -> Processes | None:
    """The processes of `mpirun -np N`; None for any other command."""
    if words[0].rpartition("/")[2] not in ("mpirun", "mpiexec"):
        return None
    for flag, count in _flag_values(words, ("-np", "-n", "--np")):
        ranks = _product(count)
        return Processes(ranks, () if ranks else (f"{flag} {count}",))
    return Processes(None)


def _from_slurm(shell: ShellCommand) -> Processes:
    """The tasks of a Slurm step if each is a training process: `srun python train.py`."""
    launcher = next((word for word in shell.words[1:_MAX_WORDS] if _is_launcher(word)), "")
    if not launcher.rpartition("/")[2].startswith("python"):
        return Processes(None)
    at = shell.words.index(launcher)
    if "-m" in shell.words[at + 1 : at + 3]:  # perhaps a launcher
        return Processes(None)
    options = dict(_flag_values(shell.words[:at], ("-n", "--ntasks", "-N", "--nodes", "--ntasks-per-node")))
    variables = shell.variables
    for flag in ("--ntasks", "-n"):
        if flag in options:
            return _product_of_counts({flag: options[flag]}, "", flag)
    if not options:
        tasks = variables.get("SLURM_NTASKS")
        return (
            Processes(None)
            if tasks is None
            else _product_of_counts({"SLURM_NTASKS": tasks}, "", "SLURM_NTASKS")
        )
    counts: dict[str, Json] = {}
    for flags, variable in (
        (("--nodes", "-N"), "SLURM_NNODES"),
        (("--ntasks-per-node",), "SLURM_NTASKS_PER_NODE"),
    ):
        flag = next((flag for flag in flags if flag in options), variable)
        counts[flag] = options.get(flag, variables.get(variable, "1"))
    nodes, tasks_per_node = counts
    return _product_of_counts(counts, nodes, tasks_per_node)


def _is_launcher(word: str) -> bool:
    return word.rpartition("/")[2].startswith(("python", "torchrun", "accelerate", "deepspeed", "bash"))


def _flag_values(words: tuple[str, ...], flags: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the given flags among the first words, with their values."""
    for word, following in pairwise((*words[:_MAX_WORDS], "")):
        name, equals, value = word.partition("=")
        if name in flags:
            yield name, value if equals else following


def _product(*counts: Json) -> int | None:
    """The product of counts written as decimal text; None if one is not a number or the product is 0."""
    numbers = [
        int(count) for count in counts if isinstance(count, str) and count.isdecimal() and len(count) < 10
    ]
    return math.prod(numbers) or None if len(numbers) == len(counts) else None


# Shell variables that decide the number of processes
# --------------------------------------------------------------------------------------------------


def open_variables(shell: ShellCommand) -> tuple[str, ...]:
    """Unset shell variables that decide how many processes a command starts, those of the nodes first."""
    if not shell.dependencies:
        return ()
    unset: dict[str, None] = {}
    for flags, variable in ((_NODE_FLAGS, 0), (_PROCESS_FLAGS, 1)):
        for word in _values_of_flags(shell.words, flags):
            unset |= dict.fromkeys(sorted(shell.dependencies.get(word, ())))
        for names in _LAUNCHER_VARIABLES:
            unset |= dict.fromkeys(sorted(shell.dependencies.get(names[variable], ())))
    return tuple(sorted(unset, key=lambda name: _COUNT_NAMES.search(name) is None))[:_MAX_VARIABLES]


def _values_of_flags(words: tuple[str, ...], flags: tuple[str, ...]) -> Iterator[str]:
    """Yield the words that are, or contain, the value of one of these flags."""
    for word, following in pairwise((*words, "")):
        name, equals, _ = word[2:].partition("=")
        if word.startswith("--") and name.replace("-", "_") in flags:
            yield word if equals else following


class HasWorldSize(Protocol):
    """A command with a world size."""

    @property
    def world_size(self) -> int | None:
        """Number of processes on all nodes; None if unknown."""


CommandT = TypeVar("CommandT", bound=HasWorldSize)


def solve_for_ranks(
    evaluate: Callable[[Mapping[str, str]], CommandT | None], names: tuple[str, ...], ranks: int
) -> tuple[CommandT, dict[str, str]] | None:
    """Find values of shell variables with which a command starts `ranks` processes; None without a solution.

    `evaluate`: runs the reader with the given values. One variable at a time is set to the factor that is
    missing, first with the others unset, then with the others set to 1.
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


# Job of a launch file: the config, its consumer, and the training arguments.


class LaunchedJob(NamedTuple):
    """One job of a launch file."""

    format: Format
    launch: Document
    reference: str
    """The path, preset, or dotted key of the config, as written."""
    key: str
    """Dotted key, or flag, that names the config."""
    document: Document | None
    """The config; None if it was not found."""
    lookup: Lookup | None
    """Result of the search for its path; None for a preset and for an embedded config."""
    training_arguments: LaunchArguments | None
    """The training arguments; None if no program compares them with the config."""
    world_size: int | None
    embedded_path: KeyPath | None = None
    """Path of the embedded config in the launch file, if it has one."""
    line: int | None = None
    """Line of the command in a script; None: use the line of the key."""
    arguments: Mapping[str, Json] | None = None
    """Flags of the command; None: the keys of the launch file are the arguments."""
    encoding: str | None = None
    """Encoding of a config given instead of a path: `json_text` or `base64`, names in
    `consumer_versions.CHANGES`.
    """
    flags: Mapping[str, Json] = MappingProxyType({})
    """Flags of the command that override keys in the block of its Accelerate launch file."""
    is_written_by_script: bool = False
    """Whether the script writes the config file itself."""
    is_too_long: bool = False
    """Whether the text that the script writes exceeds the size limit for configs."""
    is_template: bool = False
    """Whether the script creates the config from another file with `sed`."""
    processes: Processes = Processes(None)
    """Number of processes that the command starts, and the expressions that leave it open."""
    program_file: str = ""
    """Path of the Python program that the command starts, as written."""
    folder: str = ""
    """Directory that the script has entered with `cd`."""
    launcher: LauncherCall | None = None
    """The launcher of the command with its own flags; None if dsconfig does not know it."""
    other_consumers: tuple[str, ...] = ()
    """Other possible consumers, if the program does not show which one reads the config."""
    why: str = ""
    """Evidence for the consumer in the program, as a clause."""
    started_by: str = ""
    """Location of the command that passes the launch file to its program: `run.sh:12`."""

    @property
    def location(self) -> str:
        """File and line that start the job, as shown in messages."""
        return self.started_by or f"{self.launch.name}{'' if self.line is None else f':{self.line}'}"

    @property
    def identity(self) -> tuple[object, ...]:
        """Facts that decide the diagnostics of the job: equal for jobs that train different data in the same way."""
        arguments = self.training_arguments
        names = consumer_of(self.format.reader).arguments
        relevant = (
            {name: value for name, value in arguments.arguments.items() if name in names} if arguments else {}
        )
        config = self.document
        return (
            self.format.name,
            self.format.reader,
            self.reference,
            None if config is None else config.name,
            repr(config.value()) if config is not None and self.is_embedded else "",
            self.world_size,
            repr(relevant),
            repr(self.flags),
        )

    @property
    def is_embedded(self) -> bool:
        """Whether the config is not a file of its own: it is embedded in the launch file or built from it."""
        config = self.document
        is_built = config is not None and config.name.startswith(f"{self.launch.name}: ")
        return config is not None and (self.embedded_path is not None or config.is_data or is_built)

    @property
    def is_from_file(self) -> bool:
        """Whether the text of the config comes from another file, perhaps edited by `sed`."""
        return self.document is not None and (self.is_template or not self.is_embedded)

    def config(self, version: str | None) -> Document | None:
        """The config; an Accelerate launch file is combined with the flags of its command.

        Source: accelerate commands/launch.py:_validate_launch_command.
        """
        data = self.document.value() if self.document and self.flags else None
        if self.document is None or not isinstance(data, dict):
            return self.document
        settings, flags = block(data), dict(self.flags)
        precision = flags.pop("mixed_precision", None)
        if LINK in settings:  # flags such as --zero_stage are ignored for a config file
            merged = {key: value for key, value in data.items() if key != "mixed_precision" or not precision}
            return self.document.with_value(merged)
        # Accelerate 1.5 lets a flag override the file (#3409); before, the file won.
        # `mixed_precision` is no key of the block: here the flag wins in every version.
        precision = data.get("mixed_precision") if precision is None else precision
        merged = settings | flags if does("flags_first", "accelerate", version) else flags | settings
        changed: JsonObject = {**data, BLOCK: merged}
        return self.document.with_value(
            changed if precision is None else {**changed, "mixed_precision": precision}
        )

    @property
    def reader(self) -> Reader:
        """The consumer of the config, with the launch file as evidence."""
        name = "it" if self.is_embedded else self.launch.name
        why = f"{name} is a launch file of {self.format.name}"
        if self.why:
            why = f"{why}, {self.why}"
        likely = bool(self.other_consumers)
        return Reader(
            self.format.reader, why, "launch file", likely, facts=self.facts, others=self.other_consumers
        )

    @property
    def facts(self) -> RunFacts:
        """Model, adapters, program and parallelism of the job."""
        from dsconfig.launch.model_argument import find_model, model_name, trains_adapters
        from dsconfig.launch.training_arguments import parallelism

        data = self.launch.value() if self.arguments is None else self.arguments
        reference = model_name(data)
        model_path = reference and find_model(reference, self.launch.name)
        name = self.launch.name if self.launch.name.startswith("<") else os.path.relpath(self.launch.name)
        model = Model(model_path, f"which {name} names", "launch file") if model_path else None
        return RunFacts(
            model,
            program=self.format.name,
            adapters=trains_adapters(data, self.format.name),
            parallelism=parallelism(self),
            uses_trainer=self.format.reader == "transformers",
            program_files=self.program_files,
            loads_whole=self.document is not None and loads_whole(self.document.value()),
        )

    @property
    def program_files(self) -> tuple[str, ...]:
        """Path of the Python program that the command starts; empty if it is not in the repository."""
        path = search(self.program_file, self.launch.name, self.folder).path if self.program_file else None
        return () if path is None else (path,)

    def unknown_sizes(self, world_size: int | None) -> list[str]:
        """Say which parts of the batch depend on the run, one line each. `world_size`: the job's, if known."""
        line = "" if self.line is None else f":{self.line}"
        where, lines = f"{self.launch.name}{line}", list[str]()
        if world_size is None and self.processes.open_expressions:
            expressions = " and ".join(f"`{word}`" for word in self.processes.open_expressions)
            lines.append(f"{where}: the world size depends on {expressions}; pass --world-size")
        if (degree := self.facts.parallelism.unknown) is not None:
            lines.append(f"the data-parallel size is not known: {degree}; the batch is not checked")
        return lines

    @property
    def line_span(self) -> Span | None:
        """Span of the command in a script; None for launch files with keys."""
        if self.line is None:
            return None
        lines = self.launch.text.split("\n")[: self.line]
        end = len("\n".join(lines))
        return Span(end - len(lines[-1]), end)

    @property
    def note(self) -> str:
        """How the launch file leads to the config, or why there is none, as a message."""
        line = line_suffix(self.launch, self.key) if self.line is None else f":{self.line}"
        where = f"{self.launch.name}{line}"
        if self.embedded_path is not None:
            return f"{where}: {self.format.name} reads the config that is embedded here"
        if self.is_too_long:
            text = f"the text that the script writes into `{self.reference}`"
            return f"{where}: {text} exceeds the size limit and is not checked"
        if self.document is None:
            if "$" in self.reference or self.is_written_by_script:
                return (
                    f"{where}: `{self.reference}` depends on variables of the job's shell and is not checked"
                )
            if self.lookup is not None and (why := self.lookup.why_unread):
                return f"{where}: `{self.reference}` {why}"
            if self.lookup is None or not self.lookup.tried:
                return f"{where}: `{self.reference}` does not exist here and is not checked"
            if self.format.preset and is_preset_name(self.reference):
                preset = f"`{self.reference}` is a preset of {self.format.name}"
                return f"{where}: {preset} that is not installed here, so it is not checked"
            return (
                f"{where}: `{self.reference}` was not found from {self.lookup.folders}, so it is not checked: "
                "the job resolves it from the folder in which it starts"
            )
        if self.encoding is not None:
            return f"{where}: {self.format.name} reads the config that is encoded in `{self.reference}`"
        if self.lookup is None or not self.lookup.tried:
            is_built = self.format.builds and self.document.is_data
            return f"{where}: {self.format.name} " + (
                "builds the config" if is_built else f"reads `{self.reference}`"
            )
        source = f"{self.document.name}, found from {self.lookup.folder}"
        if "$" in self.reference or self.reference.startswith("/"):
            source += f" for `{self.reference}`"
        return f"{where}: {self.format.name} reads {source}"


class EncodedConfig(NamedTuple):
    """A config given instead of a path: its bytes and its encoding."""

    data: bytes
    encoding: str


def decode_config(word: str) -> EncodedConfig | None:
    """The config that a word contains as JSON or base64; None if the word is a path."""
    if word.lstrip().startswith("{"):
        return EncodedConfig(word.encode("utf-8", "replace"), "json_text")
    if len(word) < _MIN_BASE64 or not _BASE64.fullmatch(word):
        return None
    from base64 import urlsafe_b64decode

    try:
        data = urlsafe_b64decode(word)
    except ValueError:
        return None
    return EncodedConfig(data, "base64") if data.lstrip().startswith(b"{") else None


_BASE64 = re.compile(r"[\w-]+={0,2}", re.ASCII)
_MIN_BASE64 = 8


def line_suffix(document: Document, key: str) -> str:
    """The line of a key as a suffix of a file name, `:12`; empty if the key has no line."""
    path = tuple(key.split("."))
    if document.is_data or not document.has_path(path):
        return ""
    return f":{document.position(document.span(path, 'key').start).line}"
