"""Hostfile of DeepSpeed's launcher: hosts with slots, and the lines that the launcher rejects."""

from __future__ import annotations

import re

from dsconfig.core.json_types import NamedTuple


class HostfileProblem(NamedTuple):
    """A line that the launcher rejects (counted from 1; 0 for the file as a whole), and why."""

    line: int
    message: str


class Hostfile(NamedTuple):
    """Slots by host, in the order of the file, and the problems."""

    slots: dict[str, int]
    problems: tuple[HostfileProblem, ...]


_ENTRY = re.compile(r"(\S+)\s+slots=(\d{1,9})", re.ASCII)


def read_hostfile(text: str) -> Hostfile:
    """Read a hostfile as DeepSpeed does since 0.8.0: `worker-0 slots=8`, one host a line, `#` for comments.

    Earlier releases know no comments and nothing behind the slots.

    Source: deepspeed launcher/runner.py:_parse_hostfile.
    """
    slots: dict[str, int] = {}
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        match = _ENTRY.match(entry)
        if match is None:
            shown = entry if len(entry) <= _LONGEST else f"{entry[:_LONGEST]}…"
            problems.append(HostfileProblem(number, f"`{shown}` is not `HOST slots=N`"))
        elif match[1] in slots:
            problems.append(HostfileProblem(number, f"host `{match[1]}` is listed twice"))
        else:
            slots[match[1]] = int(match[2])
    if not slots and not problems:
        problems.append(HostfileProblem(0, "the file lists no host"))
    return Hostfile(slots, tuple(problems))


_LONGEST = 60


def included_slots(words: str) -> dict[str, list[int] | None] | None:
    """Parse `--include` or `--exclude`: slots by host, None for all slots of a host.

    None if DeepSpeed cannot parse it: it splits at `@`, `:` and `,` and converts each slot to an integer.

    Source: deepspeed launcher/runner.py:parse_node_config_list.
    """
    hosts: dict[str, list[int] | None] = {}
    for node in words.split("@"):
        host, colon, slots = node.partition(":")
        if not colon:
            hosts[host] = None
            continue
        numbers = [part.strip() for part in slots.split(",")]
        if not all(part.isdecimal() and len(part) < _LONGEST_NUMBER for part in numbers):
            return None
        hosts[host] = [int(part) for part in numbers]
    return hosts


_LONGEST_NUMBER = 10
