"""`dsconfig check --watch`: repeat the check whenever a file changes."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from dsconfig.cli.errors import UsageError, print_error, print_note
from dsconfig.render.terminal_style import understands_escapes

_Stamps: TypeAlias = "dict[str, tuple[int, int]]"
PAUSE = 0.4
"""Minimal number of seconds between two polls of the files."""
SHARE = 0.05
"""Maximal share of a processor's time that polling may take."""
CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def watch_files(args: argparse.Namespace, run: Callable[[argparse.Namespace], tuple[int, set[str]]]) -> int:
    """Run a check now and after every change of the files, until Ctrl-C.

    `run` returns the exit code and the files on which the result depends. After a usage error, the next change triggers
    a new check.
    """
    dependencies: set[str] = set()
    while True:
        before = _file_stamps(args, dependencies)
        if sys.stdout.isatty() and understands_escapes(sys.stdout):
            sys.stdout.write(CLEAR)
        latest: set[str] = set()
        try:
            latest = {os.path.abspath(path) for path in run(args)[1]}
        except UsageError as error:
            print_error(str(error))
        print_note("watching for changes (Ctrl-C to stop)")
        sys.stderr.flush()
        dependencies |= latest
        after = _file_stamps(args, dependencies)
        # Files that this run discovered or has written do not count as changed.
        _wait_for_change(
            args,
            dependencies,
            after if args.fix else {**{p: after[p] for p in latest & after.keys()}, **before},
        )


def _wait_for_change(args: argparse.Namespace, dependencies: Iterable[str], before: _Stamps) -> None:
    """Wait until one of the watched files changes."""
    pause = PAUSE
    while True:
        time.sleep(pause)
        start = time.process_time()
        if _file_stamps(args, dependencies) != before:
            return
        pause = max(PAUSE, (time.process_time() - start) / SHARE)


def _file_stamps(args: argparse.Namespace, dependencies: Iterable[str]) -> _Stamps:
    """Return the modification time and size of each file on which the result may depend."""
    stamps: _Stamps = {}
    for path in (*_watched_files(args.paths or ["."]), *dependencies, *filter(None, [args.config])):
        try:
            status = os.stat(path)
        except OSError:
            continue
        stamps[os.path.abspath(path)] = status.st_mtime_ns, status.st_size
    return stamps


def _watched_files(paths: Iterable[str]) -> Iterator[str]:
    """Yield the named files, files that may be configs, and the settings files next to them."""
    from dsconfig.check.discover import SKIPPED, may_be_config
    from dsconfig.job.settings_file import FILE, PROJECT

    for path in paths:
        if not os.path.isdir(path):
            yield path
            yield from (os.path.join(os.path.dirname(path), name) for name in (FILE, PROJECT))
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith(".")]
            for name in names:
                if may_be_config(name) or name in (FILE, PROJECT):
                    yield os.path.join(folder, name)
