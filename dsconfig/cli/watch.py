"""`dsconfig check --watch`: checks again whenever a file changes."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from dsconfig.cli.errors import UsageError, complain, note

_Stamps: TypeAlias = "dict[str, tuple[int, int]]"
PAUSE = 0.4
"""Seconds between two looks at the files, at least."""
SHARE = 0.05
"""At most, of a processor's time, for looking."""
CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def watch(args: argparse.Namespace, run: Callable[[argparse.Namespace], tuple[int, set[str]]]) -> int:
    """Check, and again after each change; ends with Ctrl-C, which the command answers.

    `run` returns also which files it depends on. A mistake in the settings waits for its correction.
    """
    seen: set[str] = set()
    while True:
        before = _stamps(args, seen)
        if sys.stdout.isatty():
            sys.stdout.write(CLEAR)
        found: set[str] = set()
        try:
            found = {os.path.abspath(path) for path in run(args)[1]}
        except UsageError as error:
            complain(str(error))
        note("watching for changes; Ctrl-C ends it")
        sys.stderr.flush()
        seen |= found
        after = _stamps(args, seen)
        # What the run has found out by itself is new, and no change; nor is what it has written.
        _wait(args, seen, after if args.fix else {**{p: after[p] for p in found & after.keys()}, **before})


def _wait(args: argparse.Namespace, seen: Iterable[str], before: _Stamps) -> None:
    """Return when a file is not as it was."""
    pause = PAUSE
    while True:
        time.sleep(pause)
        start = time.process_time()
        if _stamps(args, seen) != before:
            return
        pause = max(PAUSE, (time.process_time() - start) / SHARE)


def _stamps(args: argparse.Namespace, seen: Iterable[str]) -> _Stamps:
    """When each file was last written that the outcome may depend on."""
    found: _Stamps = {}
    for path in (*_below(args.paths or ["."]), *seen, *filter(None, [args.config])):
        try:
            status = os.stat(path)
        except OSError:
            continue
        found[os.path.abspath(path)] = status.st_mtime_ns, status.st_size
    return found


def _below(paths: Iterable[str]) -> Iterator[str]:
    """The files that are named or may be configs, and those of settings beside them."""
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
