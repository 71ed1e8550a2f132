"""The command of a job, in a shell script or a manifest: which config it names, with which arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

SCRIPTS = (".sh", ".bash", ".slurm", ".sbatch")
"""Ends of the names of shell scripts."""
_READERS = {
    "deepspeed_config_file": "accelerate",
    "deepspeed_config": "deepspeed",
    "deepspeed": "transformers",
}
"""Flags that name a config, and who reads it then."""
_PROCESSES = ("num_gpus", "nproc_per_node", "num_processes")
_NODES = ("nnodes", "num_nodes")
_ASSIGNMENT = re.compile(r"^\s*(?:export\s+|local\s+)?([A-Za-z_]\w*)=([\"']?)([^\s\"';&|]*)\2\s*(?:[;#].*)?$")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^}]*))?\})")


class Command(NamedTuple):
    """A command that names a config."""

    path: str
    flag: str
    reader: str
    arguments: dict[str, str]
    """Its other flags that have a value, without their dashes."""
    world_size: int | None
    offset: int
    """Where it begins in the text."""


def command_in(text: str) -> Command | None:
    """The first command of a shell text that names a config; None where none does."""
    variables: dict[str, str] = {}
    for offset, line in _lines(text):
        if assigned := _ASSIGNMENT.match(line):
            variables[assigned[1]] = _expanded(assigned[3], variables)
        elif ("--deepspeed" in line or "elastic" in line) and (found := _command(line, offset, variables)):
            return found
    return None


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Each logical line, and where it begins."""
    for match in re.finditer(r"(?:[^\\\n]|\\\n|\\.)+", text):
        yield match.start(), match[0].replace("\\\n", " ")


def _command(line: str, offset: int, variables: dict[str, str]) -> Command | None:
    try:
        words = [_expanded(word, variables) for word in shlex.split(line, comments=True)]
    except ValueError:  # a quote that another line closes
        words = [_expanded(word.strip("\"'"), variables) for word in line.split()]
    given: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            given[name.replace("-", "_")] = value if equals else following
    if (path := _of_elastic(words)) is not None:
        return Command(path, "elastic run", "elastic", given, _world(given), offset)
    flag = next((flag for flag in _READERS if _is_path(given.get(flag, ""))), None)
    if flag is None:
        return None
    reader = "transformers" if flag == "deepspeed" else _READERS[flag]
    return Command(given[flag], f"--{flag}", reader, given, _world(given), offset)


def _of_elastic(words: list[str]) -> str | None:
    """The config of `dsconfig elastic run`; None for any other command."""
    for at, word in enumerate(words[:-3]):
        if word.endswith("dsconfig") and words[at + 1 : at + 3] == ["elastic", "run"]:
            return next((path for path in words[at + 3 :] if _is_path(path)), None)
    return None


def _is_path(value: str) -> bool:
    return value.endswith((".json", ".yaml", ".yml", ".conf", ".hjson")) or "$" in value


def _world(given: dict[str, str]) -> int | None:
    """The processes of all nodes, where the command says how many; Accelerate counts them over all nodes."""
    name = next((name for name in _PROCESSES if given.get(name, "").isdecimal()), None)
    if name is None or (count := int(given[name])) < 1:
        return None
    nodes = next((given[name] for name in _NODES if name in given), "1")
    if name == "num_processes":
        return count
    return count * int(nodes) if nodes.isdecimal() and int(nodes) > 0 else None


def _expanded(word: str, variables: dict[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return variables.get(name, match[3] if match[3] is not None else match[0])

    return _VARIABLE.sub(value, word)
