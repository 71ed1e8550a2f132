"""Parse hostfiles of DeepSpeed's launcher: hosts, slots, rejected lines, and the number of processes started."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from dsconfig.core.file_access import is_absolute, read_contents
from dsconfig.core.json_types import NamedTuple
from dsconfig.document import TextSpan
from dsconfig.launch.repository_files import resolve_written_path

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.launch.launcher_call import LauncherCall
    from dsconfig.launch.shell.interpreter import ShellInterpreter


class HostfileProblem(NamedTuple):
    """A reason why the launcher rejects a hostfile, with the line (counted from 1, or 0 for the whole file)."""

    line: int
    message: str


class Hostfile(NamedTuple):
    """A parsed hostfile: slots by host in file order, and the problems in its lines."""

    slots: dict[str, int]
    problems: tuple[HostfileProblem, ...]


_ENTRY = r"(?a)(\S+)\s+slots=(\d{1,9})"


def read_hostfile(text: str) -> Hostfile:
    """Parse a hostfile like DeepSpeed 0.8.0 and later: `worker-0 slots=8`, one host per line, `#` for comments.

    Earlier releases allow neither comments nor any text after the slots.

    Source: deepspeed launcher/runner.py:_parse_hostfile.
    """
    slots: dict[str, int] = {}
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        match = re.match(_ENTRY, entry)
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


def span_of_line(text: str, line: int) -> TextSpan:
    """Return the span of a line without its line ending; lines count from 1, and line 0 is the start of the text."""
    lines = text.split("\n")[:line]
    end = len("\n".join(lines))
    return TextSpan(end - len(lines[-1]), end) if lines else TextSpan(0, 0)


def is_hostfile(name: str, text: str) -> bool:
    """Return whether a file is a hostfile, based on its name and lines."""
    base, _, suffix = name.replace("\\", "/").rpartition("/")[2].partition(".")
    if suffix not in ("", "txt") or text.lstrip().startswith(("{", "[", "#!")):
        return False
    lines = [line.strip() for line in text.splitlines()[:_MOST_LINES]]
    return "hostfile" in base.lower() or any(re.match(_ENTRY, line) for line in lines)


_MOST_LINES = 1000


def parse_slot_filter(words: str) -> dict[str, list[int] | None] | None:
    """Parse the value of `--include` or `--exclude` into slots by host; None stands for all slots of a host.

    Return None if DeepSpeed cannot parse the filter: DeepSpeed splits it at `@`, `:` and `,` and converts each
    slot to an integer.

    Source: deepspeed launcher/runner.py:parse_node_config_list.
    """
    hosts: dict[str, list[int] | None] = {}
    for node in words.split("@"):
        host, colon, slots = node.partition(":")
        if not colon:
            hosts.setdefault(host, None)
            continue
        numbers = [part.strip() for part in slots.split(",")]
        if not all(part.isdecimal() and len(part) < _LONGEST_NUMBER for part in numbers):
            return None
        hosts[host] = [*(hosts.get(host) or ()), *map(int, numbers)]
    return hosts


_LONGEST_NUMBER = 10


# Processes that `deepspeed` starts on the hosts.

_MAX_SIZE = 1 << 20
_MAX_SLOTS = 1024


def hosts_of(path: str, folder: str, script: ShellInterpreter) -> Mapping[str, int] | None:
    """Return the slots by host of a hostfile that a script names, or None if it is unknown or DeepSpeed rejects it.

    A file that the script itself writes is known if it is a here-document. `folder` is the directory that the script
    has entered with `cd`.
    """
    if not path or "$" in path or "`" in path or is_absolute(path):
        return None  # the repository does not say what stands at /job/hostfile
    if (written := script.output.documents.get(path)) is not None:
        text = written.text
    else:
        file = resolve_written_path(path, script.location, folder).path if script.location else None
        if file is None or _may_write(script, path):
            return None
        try:
            text = read_contents(file, _MAX_SIZE).decode("utf-8", "replace")
        except OSError:
            return None
    hostfile = read_hostfile(text)
    return None if hostfile.problems or "$" in text else hostfile.slots


_REDIRECTION = re.compile(
    r"""(?:>|\btee\s+(?:-a\s+)?|\b(?:cp|mv|sed\s+-i)\s[^\n|;&]{0,200}?\s)\s*["']?([\w./${}-]+)"""
)
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


def _may_write(script: ShellInterpreter, path: str) -> bool:
    """Return whether a script may redirect output to a file named like `path`."""
    name = os.path.basename(path)
    for match in _REDIRECTION.finditer(script.text):
        variable = _VARIABLE.fullmatch(match[1])
        targets = script.values.variables.get(variable[1], ()) if variable else (match[1],)
        if any(os.path.basename(each) == name for each in targets):
            return True
    return False


def count_slots(slots: Mapping[str, int], launcher: LauncherCall) -> int | None:
    """Return how many processes `deepspeed` starts on the hosts of a hostfile, or None if it rejects the flags.

    Source: deepspeed launcher/runner.py:parse_resource_filter, main.
    """
    flags = launcher.flags
    include, exclude = flags.get("include", ""), flags.get("exclude", "")
    has_gpus = not {"num_gpus", "num_accelerators"}.isdisjoint(flags)
    if (include and exclude) or ((include or exclude) and (has_gpus or "num_nodes" in flags)):
        return None
    active = {host: set(range(min(count, _MAX_SLOTS))) for host, count in slots.items()}
    if include or exclude:
        chosen = parse_slot_filter(include or exclude)
        if chosen is None or any(
            host not in active or not active[host].issuperset(numbers or ())
            for host, numbers in chosen.items()
        ):
            return None
        if include and None in chosen.values():
            return None  # releases 0.15.2 to 0.19.6 leave out a host without slots (#8239), all others use all of it
        named = {host: active[host] if numbers is None else set(numbers) for host, numbers in chosen.items()}
        active = named if include else {host: all_ - named.get(host, set()) for host, all_ in active.items()}
    hosts = [numbers for numbers in active.values() if numbers]
    if "num_nodes" in flags:
        nodes = launcher.integer_flag("num_nodes")
        if not nodes:
            return None
        hosts = hosts[:nodes]
    if has_gpus:
        gpus = launcher.integer_flag("num_gpus", "num_accelerators")
        return gpus * len(hosts) if gpus else None
    return sum(map(len, hosts)) or None
