"""Runs the programs of `tests/parity/workers/` with a release of DeepSpeed."""

from __future__ import annotations

import json
import subprocess
import tempfile
from typing import Any

from tests.parity import environment


def command(name: str, *arguments: str) -> list[str]:
    """The command line of a worker."""
    return [str(environment.python()), "-W", "ignore", str(environment.WORKERS / name), *arguments]


def answers(release: str, name: str, given: str) -> list[dict[str, Any]]:
    """What a worker writes when it is given this text: a JSON value on each line.

    Raises:
        RuntimeError: the worker failed; the message shows the end of what it complained of.
    """
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        done = subprocess.run(
            command(name),
            input=given,
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment.clean_variables(release),
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{name} failed with DeepSpeed {release}:\n{done.stderr[-1500:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]
