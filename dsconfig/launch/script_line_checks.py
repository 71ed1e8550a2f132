"""Problems of launcher commands that show in the lines of a script: cut-off commands, variables, reused ports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from dsconfig.core.json_types import NamedTuple
from dsconfig.launch.launched_job import LaunchedJob
from dsconfig.launch.launcher_call import DEEPSPEED, TORCHRUN

Kind: TypeAlias = Literal[
    "ignored devices",
    "conflict",
    "hostfile",
    "rendezvous",
    "too few devices",
    "cut command",
    "misplaced flag",
    "no launcher",
    "port",
    "idle devices",
    "no torchrun",
]


class LauncherProblem(NamedTuple):
    """A problem with a launcher command, its fix, and the launcher releases that behave this way."""

    kind: Kind
    message: str
    help: str
    since: str = ""
    """First DeepSpeed release with this behavior; empty for all releases."""
    until: str = ""
    """Last DeepSpeed release with this behavior; empty if the newest still has it."""
    line: int | None = None
    """Line of the problem in the script, if it is not the first line of the command."""


_FLAG_LINE = re.compile(r"--?[A-Za-z][\w.-]*")


def cut_command(text: str, line: int) -> Iterator[LauncherProblem]:
    """Yield a problem for a line of flags that a missing `\\` separates from the command before it.

    `line` is the first line of the command, counted from 1.
    """
    lines = text.splitlines()
    above = lines[line - 2] if line > 1 else ""
    if above != above.rstrip() and above.rstrip().endswith("\\") and not above.lstrip().startswith("#"):
        yield LauncherProblem(
            "cut command",
            f"line {line} is a command of its own: a blank follows the `\\` of line {line - 1}",
            "end each line but the last with `\\`, without comments, blanks and empty lines between them",
            line=line,
        )
        return
    if text.split("\n")[line - 1].endswith("\\\r"):
        yield LauncherProblem(
            "cut command",
            f"line {line} ends with a carriage return, as on Windows: bash joins no lines, so the command ends there",
            "convert the script to Unix line ends, for example with `dos2unix`",
            line=line,
        )
        return
    at = line - 1
    while at + 1 < len(lines) and lines[at].endswith("\\") and not lines[at].lstrip().startswith("#"):
        at += 1
    last, reason = at, f"line {at + 1} does not end with `\\`"
    if lines[at].lstrip().startswith("#"):
        reason = f"the comment in line {at + 1} ends it"
    elif not lines[at].strip():
        reason = f"the empty line {at + 1} ends it"
    elif lines[at].rstrip().endswith("\\"):
        reason = f"a blank follows the `\\` of line {at + 1}"
    following = (number for number in range(last + 1, len(lines)) if _is_command(lines[number]))
    number = next(following, None)
    flag = _FLAG_LINE.match(lines[number].strip()) if number is not None else None
    if number is None or flag is None:
        return
    yield LauncherProblem(
        "cut command",
        f"line {number + 1} starts with `{flag[0]}`, which is not part of the command in line {line}: {reason}",
        "end each line but the last with `\\`, without comments, blanks and empty lines between them",
        line=number + 1,
    )


def _is_command(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


_VARIABLES = re.compile(
    r"\b(?:swift\s+[a-z]+|llamafactory-cli\s+train|\w+\.py)\s(?:[^\n;&|]|\\\n)*?\s"
    r"(?P<variable>(?:CUDA_VISIBLE_DEVICES|NPROC_PER_NODE|NNODES|NODE_RANK|MASTER_ADDR|MASTER_PORT|FORCE_TORCHRUN)=\S+)"
)
"""Pattern of a command with an assignment of a variable behind its program."""


_LONGEST_COMMAND = 8_000


def variables_behind_program(text: str, line: int) -> Iterator[LauncherProblem]:
    """Yield a problem for an environment variable after the program, where it is only an argument.

    `line` is the first line of the command, counted from 1.
    """
    lines = text.splitlines()
    last = line - 1
    while last + 1 < len(lines) and lines[last].rstrip().endswith("\\"):
        last += 1
    if match := _VARIABLES.search("\n".join(lines[line - 1 : last + 1])[:_LONGEST_COMMAND]):
        yield LauncherProblem(
            "misplaced flag",
            f"`{match['variable']}` comes after the program, so it is an argument instead of an environment variable",
            f"write `{match['variable']}` before the command",
        )


_DEFAULT_PORT = 29500
"""Port of `deepspeed` and torchrun without `--master_port`: deepspeed constants.py, torch distributed/run.py."""


def ports_used_twice(text: str, jobs: list[LaunchedJob]) -> Iterator[tuple[LaunchedJob, LauncherProblem]]:
    """Yield a problem for each command that starts while a background command still uses the same port.

    `accelerate launch` since 1.7 looks for a free port itself.
    """
    lines, running = text.splitlines(), dict[int, int]()
    by_line = {job.line: job for job in jobs if job.line is not None}
    for line, job in sorted(by_line.items()):
        port = _port_of_launcher(job)
        if port is None:
            continue
        last = line - 1
        while last + 1 < len(lines) and lines[last].rstrip().endswith("\\"):
            last += 1
        if _ELSEWHERE.search(" ".join(lines[line - 1 : last + 1])):
            continue
        first = running.get(port)
        if first is not None and not any(map(_ENDS.match, lines[first : line - 1])):
            yield (
                job,
                LauncherProblem(
                    "port",
                    f"port {port} is in use by the command of line {first}, which runs in the background: the ranks"
                    " cannot listen on it",
                    f"pass another `--master_port`, such as {port + 1}",
                ),
            )
        if _BACKGROUND.search(lines[last]):
            running.setdefault(port, line)


_ELSEWHERE = re.compile(r"\b(?:ssh|srun|pdsh|mpirun|docker|kubectl|singularity|apptainer)\b")
"""Pattern of commands that start another one on other machines or in a network of its own."""
_ENDS = re.compile(r"\s*(?:wait\b|done\b|fi\b|else\b|elif\b|}|exit\b)")
"""Pattern of lines after which a command in the background has ended, or is one of several alternatives."""
_BACKGROUND = re.compile(r"(?<!&)&\s*(?:#.*)?$")


_OTHER_RENDEZVOUS = frozenset(
    {
        "hostfile",
        "standalone",
        "rdzv_endpoint",
        "rdzv_backend",
        "rdzv_conf",
        "master_addr",
        "nnodes",
        "num_nodes",
    }
)
"""Flags with which the ranks may meet at another port or on another node."""


def _port_of_launcher(job: LaunchedJob) -> int | None:
    """Return the port on which rank 0 of a local job listens, or None if it is unknown or chosen at run time."""
    launcher = job.launcher
    if launcher is None or launcher.name not in (DEEPSPEED, TORCHRUN):
        return None
    if _OTHER_RENDEZVOUS & launcher.flags.keys():
        return None
    if "master_port" not in launcher.flags:
        return _DEFAULT_PORT
    return launcher.integer_flag("master_port") or None
