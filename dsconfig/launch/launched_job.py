"""Job as its launch file describes it: config, consumer, arguments, and number of processes."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeVar

from dsconfig.consumers.accelerate_launch_file import BLOCK, LINK, block
from dsconfig.consumers.consumer_versions import does
from dsconfig.core.json_types import Json, JsonObject, KeyPath, NamedTuple
from dsconfig.document import Document, Span
from dsconfig.job.detect_consumer import Given, Reader
from dsconfig.job.run_facts import Known, Model
from dsconfig.launch.format_table import Format
from dsconfig.launch.repository import Place, is_name

if TYPE_CHECKING:
    from dsconfig.launch.shell_interpreter import ShellCommand


# How many processes a command starts, and what the job's shell holds where they are to be others.

_PROCESSES = ("num_gpus", "nproc_per_node", "num_processes")
_NODES = ("nnodes", "num_nodes", "num_machines")
_VARIABLES = (("NNODES", "NPROC_PER_NODE"), ("PET_NNODES", "PET_NPROC_PER_NODE"))
"""What launchers read beside their flags: those that start torchrun themselves, and torchrun.

Sources: ms-swift cli/main.py; torch distributed/argparse_util.py:env.
"""
_START = 40
"""Among so many words a command says how it starts its processes."""
_MOST = 8
"""So many variables of a job's shell are tried."""
_COUNTS = re.compile("node|gpu|proc|num|world|worker|machine|device|rank", re.IGNORECASE)
"""What the names of counts have in them: these are tried first."""


class Processes(NamedTuple):
    """How many processes a command starts."""

    ranks: int | None
    """Of all nodes; None: only a run shows it."""
    open: tuple[str, ...] = ()
    """What leaves it to the run, as it is written: `--nproc_per_node=$NGPU`."""
    per_node: int | None = None
    """The processes of a node, where the number of nodes alone is left to the run."""


def processes(given: Mapping[str, Json], shell: ShellCommand) -> Processes:
    """The processes of all nodes; Accelerate counts them over all nodes."""
    name = next((name for name in _PROCESSES if name in given), None)
    if name is not None:
        return _of_flags(name, given, shell.variables)
    if (found := _of_mpi(shell.words)) is not None:
        return found
    if "include" in given or "exclude" in given:
        return _of_filter(given)
    launchers = _VARIABLES if _reads_variables(shell.words) else ()
    for nodes, counts in launchers:
        if (count := shell.variables.get(counts)) is not None:
            known = {counts: count, nodes: shell.variables.get(nodes, "1")}
            return _multiplied(known, nodes, counts)
    if shell.words[0] == "srun":
        return _of_slurm(shell)
    devices = shell.variables.get("CUDA_VISIBLE_DEVICES", "")
    if shell.words[0] == "deepspeed" and not {"hostfile", "num_nodes"} & given.keys() and devices:
        if _OPEN.search(devices):
            return Processes(None, (f"CUDA_VISIBLE_DEVICES={devices}",))
        return Processes(len(devices.split(",")))
    return Processes(
        None, tuple(_written(f"--{flag}", given[flag]) for flag in ("hostfile",) if flag in given)
    )


_OPEN = re.compile(r"[$`]")


def _of_flags(name: str, given: Mapping[str, Json], variables: Mapping[str, str]) -> Processes:
    counts = {f"--{name}": given[name]}
    if name == "num_processes":
        return _multiplied(counts, "", f"--{name}")
    node = next((node for node in _NODES if node in given), None)
    if node is not None:
        counts[f"--{node}"] = given[node]
    elif name == "num_gpus" and "hostfile" in given:
        # launcher/runner.py:main starts as many on each host of the file, whose length nobody knows here.
        counts["--hostfile"] = None if given["hostfile"] is None else _written("", given["hostfile"])
        return _multiplied(counts, "--hostfile", f"--{name}")
    elif name == "nproc_per_node":
        counts["PET_NNODES"] = variables.get("PET_NNODES", "1")
    return _multiplied(counts, f"--{node}" if node else "PET_NNODES", f"--{name}")


def _multiplied(counts: Mapping[str, Json], nodes: str, processes: str) -> Processes:
    """The product of counts by what they are written as."""
    ranks = _product(*counts.values())
    opened = tuple(_written(name, count) for name, count in counts.items() if _product(count) is None)
    alone = len(opened) == 1 and nodes in counts and _product(counts[nodes]) is None
    return Processes(ranks, opened, _product(counts[processes]) if alone else None)


_SHOWN = 60
_SUBSTITUTION = re.compile(r"`([^`]*)`")
"""The old form of `$(...)`, in which backticks would end the quotation of a message."""


def _written(name: str, value: Json) -> str:
    """A flag or a variable as it stands in a command."""
    text = "" if value in (None, True) else _SUBSTITUTION.sub(r"$(\1)", str(value))
    text = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
    return f"{name}={text}" if name and text else name or text


def _of_filter(given: Mapping[str, Json]) -> Processes:
    """The slots that `--include` of the launcher `deepspeed` lists; what `--exclude` leaves nobody knows."""
    listed = given.get("include")
    if not isinstance(listed, str) or "exclude" in given:
        name = "include" if "include" in given else "exclude"
        return Processes(None, (_written(f"--{name}", given[name]),))
    hosts = [host.partition(":")[2] for host in listed.split("@")]
    if all(hosts) and all(slot.isdecimal() for slots in hosts for slot in slots.split(",")):
        return Processes(sum(len(slots.split(",")) for slots in hosts))
    return Processes(None, (_written("--include", listed),))


def _reads_variables(words: tuple[str, ...]) -> bool:
    """Whether a command's program asks the variables: torchrun, or one that starts it; not `deepspeed`."""
    first = words[0].rpartition("/")[2]
    return first not in ("deepspeed", "accelerate") and not (
        first.startswith("python") and "-m" not in words[1:3] and not _STARTERS.search(" ".join(words[:3]))
    )


_STARTERS = re.compile(r"torch|swift|factory|xtuner|launch")


def _of_mpi(words: tuple[str, ...]) -> Processes | None:
    """The processes of `mpirun -np N`; None where another program starts them."""
    if words[0].rpartition("/")[2] not in ("mpirun", "mpiexec"):
        return None
    for flag, count in _pairs(words, ("-np", "-n", "--np")):
        ranks = _product(count)
        return Processes(ranks, () if ranks else (f"{flag} {count}",))
    return Processes(None)


def _of_slurm(shell: ShellCommand) -> Processes:
    """The tasks of a step, where each is a process that trains: `srun python train.py`."""
    started = next((word for word in shell.words[1:_START] if _is_program(word)), "")
    if not started.rpartition("/")[2].startswith("python"):
        return Processes(None)
    at = shell.words.index(started)
    if "-m" in shell.words[at + 1 : at + 3]:  # perhaps a launcher
        return Processes(None)
    own = dict(_pairs(shell.words[:at], ("-n", "--ntasks", "-N", "--nodes", "--ntasks-per-node")))
    known = shell.variables
    for flag in ("--ntasks", "-n"):
        if flag in own:
            return _multiplied({flag: own[flag]}, "", flag)
    if not own:
        tasks = known.get("SLURM_NTASKS")
        return Processes(None) if tasks is None else _multiplied({"SLURM_NTASKS": tasks}, "", "SLURM_NTASKS")
    counts: dict[str, Json] = {}
    for flags, variable in (
        (("--nodes", "-N"), "SLURM_NNODES"),
        (("--ntasks-per-node",), "SLURM_NTASKS_PER_NODE"),
    ):
        flag = next((flag for flag in flags if flag in own), variable)
        counts[flag] = own.get(flag, known.get(variable, "1"))
    nodes, tasks_per_node = counts
    return _multiplied(counts, nodes, tasks_per_node)


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


# A job as its launch file describes it: the config, who reads it, and with which training arguments.


class Job(NamedTuple):
    """What a launch file leads to."""

    format: Format
    launch: Document
    written: str
    """The path, preset, or dotted key of the config."""
    key: str
    """Where that stands in the launch file, dotted."""
    document: Document | None
    """The config; None where it is not found."""
    place: Place | None
    """Where it was searched; None for a preset, and for a config in the launch file itself."""
    given: Given | None
    """The training arguments; None where nothing compares them with the config."""
    world_size: int | None
    inline: KeyPath | None = None
    """Where the config itself stands in the launch file, if it does."""
    line: int | None = None
    """Where in a script that is; None: where the key is."""
    arguments: Mapping[str, Json] | None = None
    """The flags of its command; None where the launch file's keys are the arguments."""
    encoded: str | None = None
    """How the config itself stands where a path could: `json_text` or `base64`, changes of `versions`."""
    flags: Mapping[str, Json] = MappingProxyType({})
    """Flags of its command that are keys of the block in Accelerate's launch file, which it names."""
    is_written_by_script: bool = False
    """Whether the job's script writes the config itself."""
    is_too_long: bool = False
    """Whether what the script writes is longer than any config."""
    is_template: bool = False
    """Whether the script makes the config of another file, by editing its text."""
    processes: Processes = Processes(None)
    """How many processes its command starts, and what leaves that to the run."""
    program_file: str = ""
    """The Python program that its command starts, as it is written."""
    folder: str = ""
    """Where its script has gone before."""
    others: tuple[str, ...] = ()
    """Who else may read the config, as far as its program tells."""
    why: str = ""
    """What of its program says so, as a clause."""

    @property
    def is_held(self) -> bool:
        """Whether the config is not a file of its own: it stands in the launch file, or is made of it."""
        config = self.document
        own = config is not None and config.name.startswith(f"{self.launch.name}: ")
        return config is not None and (self.inline is not None or config.is_data or own)

    @property
    def is_from_file(self) -> bool:
        """Whether another file's text is the config, or became it."""
        return self.document is not None and (self.is_template or not self.is_held)

    def config(self, version: str | None) -> Document | None:
        """The config, or Accelerate's launch file as a version of Accelerate takes it beside its flags.

        Source: accelerate commands/launch.py:_validate_launch_command.
        """
        data = self.document.value() if self.document and self.flags else None
        if self.document is None or not isinstance(data, dict):
            return self.document
        written, flags = block(data), dict(self.flags)
        precision = flags.pop("mixed_precision", None)
        if LINK in written:  # beside which flags count for nothing
            kept = {key: value for key, value in data.items() if key != "mixed_precision" or not precision}
            return self.document.with_value(kept)
        precision = data.get("mixed_precision") if precision is None else precision
        kept = written | flags if does("flags_first", "accelerate", version) else flags | written
        made: JsonObject = {**data, BLOCK: kept}
        return self.document.with_value(made if precision is None else {**made, "mixed_precision": precision})

    @property
    def reader(self) -> Reader:
        """Who reads the config."""
        name = "it" if self.is_held else self.launch.name
        why = f"{name} is a launch file of {self.format.name}"
        if self.why:
            why = f"{why}, {self.why}"
        likely = bool(self.others)
        return Reader(self.format.reader, why, "launch file", likely, known=self.known, others=self.others)

    @property
    def known(self) -> Known:
        """The model that it trains, where that is on disk."""
        from dsconfig.launch.model_argument import found_from, named, trains_parts
        from dsconfig.launch.training_arguments import parallelism

        data = self.launch.value() if self.arguments is None else self.arguments
        written = named(data)
        found = written and found_from(written, self.launch.name)
        name = self.launch.name if self.launch.name.startswith("<") else os.path.relpath(self.launch.name)
        model = Model(found, f"which {name} names", "launch file") if found else None
        return Known(
            model,
            program=self.format.name,
            adapters=trains_parts(data, self.format.name),
            parallelism=parallelism(self),
        )

    def left_open(self, world_size: int | None) -> list[str]:
        """Say what of the batch only a run shows, a line each. `world_size`: that of the job, if known."""
        line = "" if self.line is None else f":{self.line}"
        where, lines = f"{self.launch.name}{line}", list[str]()
        if world_size is None and self.processes.open:
            words = " and ".join(f"`{word}`" for word in self.processes.open)
            lines.append(f"{where} leaves the number of ranks to the run: {words}; give --world-size")
        if (degree := self.known.parallelism.unknown) is not None:
            lines.append(f"the data-parallel size is not known: {degree}; the batch is not checked")
        return lines

    @property
    def line_span(self) -> Span | None:
        """Where its command stands in a script; None in any other launch file, which has keys."""
        if self.line is None:
            return None
        lines = self.launch.text.split("\n")[: self.line]
        end = len("\n".join(lines))
        return Span(end - len(lines[-1]), end)

    @property
    def note(self) -> str:
        """What is to be said of the way to the config."""
        line = line_of(self.launch, self.key) if self.line is None else f":{self.line}"
        where = f"{self.launch.name}{line}"
        if self.inline is not None:
            return f"{where}: {self.format.name} reads the config that stands here"
        if self.is_too_long:
            return f"{where}: what the script writes into `{self.written}` is too long, and not read"
        if self.document is None:
            if "$" in self.written or self.is_written_by_script:
                return f"{where}: `{self.written}` is known to the job's shell alone, and not checked"
            if self.place is not None and (why := self.place.why_unread):
                return f"{where}: `{self.written}` {why}"
            if self.place is None or not self.place.tried:
                return f"{where}: `{self.written}` is not there, and not checked"
            if self.format.preset and is_name(self.written):
                preset = f"`{self.written}` is a preset of {self.format.name}"
                return f"{where}: {preset}, which is not installed here, and not checked"
            return (
                f"{where}: `{self.written}` is not found from {self.place.folders}, and not checked: "
                "it counts from the folder in which the job is started"
            )
        if self.encoded is not None:
            return f"{where}: {self.format.name} reads the config that stands behind `{self.written}`"
        if self.place is None or not self.place.tried:
            made = self.format.makes and self.document.is_data
            return f"{where}: {self.format.name} " + (
                "makes the config" if made else f"reads `{self.written}`"
            )
        found = f"{self.document.name}, found from {self.place.folder}"
        if "$" in self.written or self.written.startswith("/"):
            found += f" for `{self.written}`"
        return f"{where}: {self.format.name} reads {found}"


class Text(NamedTuple):
    """A config that stands where a path could: its bytes, and the name of the way it is written."""

    data: bytes
    encoded: str


def text_of(written: str) -> Text | None:
    """The config that a word itself is; None where it is a path."""
    if written.lstrip().startswith("{"):
        return Text(written.encode("utf-8", "replace"), "json_text")
    if len(written) < _SHORTEST or not _BASE64.fullmatch(written):
        return None
    from base64 import urlsafe_b64decode

    try:
        data = urlsafe_b64decode(written)
    except ValueError:
        return None
    return Text(data, "base64") if data.lstrip().startswith(b"{") else None


_BASE64 = re.compile(r"[\w-]+={0,2}", re.ASCII)
_SHORTEST = 8


def line_of(document: Document, key: str) -> str:
    """The line of a key, as it follows a file's name; empty where it has none."""
    path = tuple(key.split("."))
    if document.is_data or not document.has_path(path):
        return ""
    return f":{document.position(document.span(path, 'key').start).line}"
