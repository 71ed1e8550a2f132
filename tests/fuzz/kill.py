"""`kill -9` in the middle of `fix`: `python -m tests.fuzz.kill [--times N] [--seed N] [--files N]`.

Kills the installed command at random moments while it fixes a folder, and a forked one right before, in the
middle of and right after each call to the system that writing makes. After each kill every file must hold its
old text or its new one, and after the next run the new one, with nothing left beside it. Prints the figures;
ends in 1 where it is not so.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dsconfig.cli import main as run

COMMAND = (str(Path(sys.executable).parent / "dsconfig"), "fix", "--target", "0.19.8", "-q")
BIG = 1_500_000
CALLS = ("open", "write", "fsync", "fchown", "fchmod", "setxattr", "close", "replace", "unlink")
"""Of module `os`, all that writing uses and that changes something."""
Files = Mapping[str, bytes]


class Kill(NamedTuple):
    """What one kill left behind."""

    cut: int
    """Files that hold neither their old text nor their new one."""
    fixed: int
    drafts: int
    kept: int
    """Drafts, and files that are not as they should be, after the next run."""
    ended: bool
    """The run was over before the kill."""


def texts(count: int) -> Iterator[tuple[str, bytes, bytes]]:
    """So many names of files with their old and their new text; every fourth is big."""
    for number in range(count):
        filler = "x" * (BIG if number % 4 == 3 else 50 * number)
        old = (
            f'{{\n  "train_batch_size": 8, // {number}\r\n  "prescale_gradients": 1, "job": "{filler}"\n}}\n'
        )
        new = old.replace('gradients": 1', 'gradients": true')
        yield f"ds_config_{number}.json", old.encode(), new.encode()


class Folder:
    """A folder of configs to be fixed."""

    def __init__(self, path: str, count: int) -> None:
        self.path = path
        self.old: Files = {name: old for name, old, _ in texts(count)}
        self.new: Files = {name: new for name, _, new in texts(count)}

    def restore(self) -> None:
        """Write the old texts."""
        for name, data in self.old.items():
            (Path(self.path) / name).write_bytes(data)

    def after(self, ended: bool) -> Kill:
        """Look at what a kill left, run once more, and look again."""
        found = {name: (Path(self.path) / name).read_bytes() for name in self.old}
        cut = sum(data not in (self.old[name], self.new[name]) for name, data in found.items())
        fixed = sum(data == self.new[name] for name, data in found.items())
        drafts = len(self.drafts())
        forked(lambda: run([*COMMAND[1:], self.path]))
        wrong = sum((Path(self.path) / name).read_bytes() != self.new[name] for name in self.new)
        return Kill(cut, fixed, drafts, wrong + len(self.drafts()), ended)

    def drafts(self) -> list[str]:
        """What stands in the folder besides the configs."""
        return [name for name in os.listdir(self.path) if name not in self.old and name != ".git"]


def forked(action: Callable[[], object]) -> int:
    """Do it in a process of its own, which need not import everything again; how it ended."""
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


def at_a_moment(folder: Folder, seconds: float) -> Kill:
    """Kill the installed command so long after its start."""
    folder.restore()
    with subprocess.Popen([*COMMAND, folder.path], stdout=subprocess.DEVNULL) as process:
        time.sleep(seconds)
        ended = process.poll() is not None
        process.kill()
    return folder.after(ended)


def duration(folder: Folder) -> tuple[float, float]:
    """When the first file is written and when the run ends, in seconds after its start."""
    folder.restore()
    start, first = time.monotonic(), 0.0
    with subprocess.Popen([*COMMAND, folder.path], stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            if not first and folder.drafts():
                first = time.monotonic() - start
            time.sleep(0.0005)
    end = time.monotonic() - start
    return first or end / 2, end


def at_a_call(folder: Folder, number: int, how: str) -> Kill | None:
    """Kill a forked run `before`, `within` or `after` its call with this number; None: it made no more."""
    folder.restore()
    status = forked(lambda: _child(folder.path, number, how))
    return folder.after(ended=False) if os.WIFSIGNALED(status) else None


def _child(path: str, number: int, how: str) -> None:
    made = [0]
    for name in CALLS:
        setattr(os, name, _fatal(getattr(os, name), name, made, number, how))
    run([*COMMAND[1:], path])


def _fatal(real: Callable[..., Any], name: str, made: list[int], number: int, how: str) -> Callable[..., Any]:
    """The call, which kills its process when it is the one with this number."""

    def call(*args: Any, **options: Any) -> Any:
        made[0] += 1
        if made[0] != number:
            return real(*args, **options)
        if how == "within" and name == "write":
            real(args[0], args[1][: len(args[1]) // 2])
        elif how == "after":
            real(*args, **options)
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    return call


def every_call(folder: Folder) -> Iterator[Kill]:
    """A kill at each call in turn."""
    for how in ("before", "within", "after"):
        number = 1
        while (found := at_a_call(folder, number, how)) is not None:
            yield found
            number += 1


def told(what: str, kills: list[Kill], seconds: float) -> int:
    """Print what came of these kills, and say how many things went wrong."""
    count = len(kills)
    running = sum(not kill.ended for kill in kills)
    between = sum(kill.fixed > 0 for kill in kills if not kill.ended)
    cut, drafts, kept = (sum(getattr(kill, name) for kill in kills) for name in ("cut", "drafts", "kept"))
    print(
        f"{what}: {count} kills in {seconds:.0f} s, {running} of a running process, {between} after its first"
        f" file; {drafts} drafts left, {cut} files cut, {kept} drafts or unfixed files after the next run",
        flush=True,
    )
    return cut + kept


def main() -> int:
    """Kill as often as was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", type=int, default=12)
    args = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as path:
        os.mkdir(f"{path}/.git")
        os.chdir(path)
        folder = Folder(path, 2)
        folder.restore()
        run([*COMMAND[1:], path])  # imports everything
        start = time.monotonic()
        wrong += told("at each call", list(every_call(folder)), time.monotonic() - start)
        for name in os.listdir(path):
            if name != ".git":
                os.unlink(name)
        folder, spread, start = Folder(path, args.files), random.Random(args.seed), time.monotonic()
        kills: list[Kill] = []
        for number in range(3 * args.times):
            if number % 25 == 0:  # the machine may have other things to do
                first, end = duration(folder)
            kills.append(at_a_moment(folder, spread.uniform(first * 0.9, end)))
            if sum(not kill.ended for kill in kills) == args.times:
                break
        wrong += told("at random moments", kills, time.monotonic() - start)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
