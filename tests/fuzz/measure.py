"""One run of the command in a process of its own: its exit code, CPU time, memory, and what went wrong."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dsconfig.cli import main

MEMORY = 1 << 30
"""Bytes of address space beyond the start at which a run is stopped."""

VERBS: dict[str, tuple[str, ...]] = {
    "check": ("check",),
    "check range": ("check", "--target", ">=0.3.1"),
    "check sarif": ("check", "--output-format", "sarif"),
    "check json": ("check", "--output-format", "json"),
    "check full": ("check", "--output-format", "full", "--color", "always"),
    "check github": ("check", "--output-format", "github"),
    "check gitlab": ("check", "--output-format", "gitlab"),
    "check junit": ("check", "--output-format", "junit"),
    "check transformers": ("check", "--consumer", "transformers"),
    "fix": ("fix", "--diff"),
    "fix unsafe": ("fix", "--unsafe-fixes", "--diff"),
    "migrate": ("migrate", "--from", "0.14.5", "--to", "0.19.8", "--diff"),
    "resolve": ("resolve", "--world-size", "8"),
    "show": ("show",),
    "compat": ("compat",),
}
"""What is run on each file."""


class Outcome(NamedTuple):
    """What one run came to: seconds of CPU time, MB above the start, exit code, and the fault, if any."""

    seconds: float
    megabytes: float
    code: int
    fault: str


def run(verb: str, path: Path, limit: int) -> Outcome:
    """Run a verb on a file in a forked process, stopped after `limit` seconds of CPU time."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _child(writer, [*VERBS[verb], str(path)], limit)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    _, status, used = os.wait4(child, 0)
    seconds = used.ru_utime + used.ru_stime
    if not said:
        return Outcome(seconds, used.ru_maxrss / 1024, -1, f"ended by signal {os.WTERMSIG(status)}")
    start, code, fault = said.split("\n", 2)
    return Outcome(seconds, (used.ru_maxrss - int(start)) / 1024, int(code), fault)


def _child(writer: int, argv: Sequence[str], limit: int) -> None:
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    os.environ["DSCONFIG_DEBUG"] = "1"
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    errors = os.memfd_create("stderr")
    os.dup2(errors, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", errors="replace"), os.fdopen(2, "w", errors="replace")
    code, fault = 99, ""
    try:
        code = main(argv)
        sys.stdout.flush()
    except BaseException as error:
        fault = f"{type(error).__name__}: {error}"[:300]
    sys.stderr.flush()
    said = os.pread(errors, 1 << 20, 0).decode(errors="replace")
    if "Traceback" in said or "internal error" in said:
        fault = fault or " / ".join(said.strip().splitlines()[-3:])[:300]
    os.write(writer, f"{start}\n{code}\n{fault}".encode())
    os._exit(0)
