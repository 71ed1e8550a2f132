"""The checker in a browser's worker finds what the command finds: the same JSON, byte for byte.

`python -m tests.parity.browser DIR` compares every file below a directory, as a worker sees it among the
others; with `--alone` as the text alone, too, which starts the command once for each. It needs `make worker`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.source import ROOT

WORKER = ROOT / "editors" / "dist" / "stdio.mjs"
CHECK = ("check", "--output-format", "json", "--quiet")
COMMAND = str(Path(sys.executable).with_name("dsconfig"))


Message = dict[str, Any]


class Worker:
    """A worker that sees the files below some directories."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.count = process, 0

    def run(self, *arguments: str, stdin: str = "", folder: str = "/") -> tuple[int, str, str]:
        """Run the command in the worker; returns its exit code and what it wrote."""
        params = {"arguments": arguments, "stdin": stdin, "folder": folder}
        result = self.ask("dsconfig/run", params)
        return result["code"], result["stdout"], result["stderr"]

    def ask(self, method: str, params: object) -> Message:
        """The result of a request."""
        self.count += 1
        message = {"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}
        self.tell(message)
        while (answer := self.hear()).get("id") != self.count:
            pass
        assert "error" not in answer, answer["error"]
        result: Message = answer["result"]
        return result

    def tell(self, message: Message) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Message:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, "the worker has ended"
        message: Message = json.loads(line)
        return message


@contextmanager
def worker(*folders: Path) -> Iterator[Worker]:
    """A worker in Node, for as long as it is needed."""
    command = ["node", str(WORKER), *map(str, folders)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Worker(process)


def command(*arguments: str, stdin: str = "", folder: str = "/") -> tuple[int, str, str]:
    """Run the installed command."""
    result = subprocess.run(
        [COMMAND, *arguments],
        input=stdin.encode("utf-8", "surrogatepass"),
        cwd=folder,
        capture_output=True,
        check=False,
    )
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def alone(path: Path) -> str | None:
    """The text of a file, as an editor hands it over; None where it is none."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        return None


def differing(folder: Path, ours: Worker) -> Iterator[str]:
    """What is said otherwise in the worker than by the command."""
    names = sorted(os.path.relpath(path, folder) for path in folder.rglob("*") if path.is_file())
    for start in range(0, len(names), 200):
        several = names[start : start + 200]
        here, there = (run(*CHECK, *several, folder=str(folder)) for run in (ours.run, command))
        for one, other in zip(here[1].splitlines(), there[1].splitlines(), strict=True):
            if one != other:
                yield f"{one}\n{other}"
        if here != there:
            yield f"{here[0]} {here[2]}\n{there[0]} {there[2]}"


def differing_alone(folder: Path, ours: Worker) -> Iterator[str]:
    """The same of each file's text, of whose folder nothing is known."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        text = alone(path)
        if text is None:
            continue
        arguments = (*CHECK, "--stdin-filename", f"alone{path.suffix}", "-")
        if ours.run(*arguments, stdin=text) != command(*arguments, stdin=text):
            yield f"{path}, as text alone"


def main() -> int:
    """Compare; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--alone", action="store_true", help="compare each file as text alone, too")
    args = parser.parse_args()
    folder = args.folder.resolve()
    files = sum(path.is_file() for path in folder.rglob("*"))
    with worker(folder) as ours:
        found = list(differing(folder, ours))
        if args.alone:
            found += differing_alone(folder, ours)
    print(*found, f"{files} files, {len(found)} differences", sep="\n")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
