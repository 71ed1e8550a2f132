"""Record what every verb prints for a folder of configs, and compare two such records byte by byte.

A refactoring must not change what users see. Record before and after, then compare:

    python -m tests.tools.pin_outputs record DIR before.gz
    python -m tests.tools.pin_outputs record DIR after.gz
    python -m tests.tools.pin_outputs compare before.gz after.gz

`DIR` is any folder of configs; the launch files of `tests/launches.py` are recorded as well.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path

import yaml

from dsconfig.cli import main as dsconfig
from tests.launches import AUTO, COMMANDS, JOBS

RELEASES = ("0.19.8", "0.16.9", "0.9.5")
CONSUMERS = (None, "deepspeed", "transformers", "accelerate")
VERBS = (
    ("check", "--output-format", "json"),
    ("check", "--output-format", "sarif"),
    ("fix", "--diff"),
    ("resolve", "--world-size", "8"),
    ("show",),
)
"""Recorded for each release and consumer."""
ONCE = (("compat",), ("migrate", "--from", "0.9.5", "--to", "0.19.8", "--diff"))
"""Recorded for each consumer: these verbs compare releases themselves."""


def cases(folder: Path | None) -> Iterator[tuple[str, dict[str, str], list[str]]]:
    """Yield the name, the files and the path to check of each case."""
    for path in sorted(folder.rglob("*")) if folder else ():
        if path.is_file():
            suffix = path.suffix if path.suffix in (".json", ".yaml", ".yml", ".hjson") else ".json"
            text = path.read_text("utf-8", errors="surrogateescape")
            yield str(path.relative_to(folder or path)), {f"config{suffix}": text}, [f"config{suffix}"]
    config = json.dumps(AUTO, indent=2)
    for name, job in JOBS.items():
        files = {"launch/train.yaml": yaml.safe_dump(job), "ds/z.json": config}
        yield f"launch file: {name}", files, ["launch/train.yaml"]
    for name, (command, _) in COMMANDS.items():
        yield f"script: {name}", {"run.sh": f"#!/bin/bash\n{command}\n", "ds/z.json": config}, ["run.sh"]


def commands() -> Iterator[list[str]]:
    """Yield the arguments of each recorded command, without the path."""
    for consumer in CONSUMERS:
        who = ["--consumer", consumer] if consumer else []
        for release in RELEASES:
            for verb in VERBS:
                yield [*verb, "--target", release, *who]
        for verb in ONCE:
            yield [*verb, *who]


def run(argv: list[str]) -> tuple[int, str]:
    """The exit code of a command, and what it prints on both streams."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = dsconfig(argv)
    return code, f"{out.getvalue()}--- stderr\n{err.getvalue()}"


def record(folder: Path | None, output: Path) -> int:
    """Write the record; returns the number of commands."""
    count, home = 0, os.getcwd()
    with gzip.open(output, "wt", encoding="utf-8", errors="surrogateescape", compresslevel=3) as file:
        for name, files, paths in cases(folder):
            with tempfile.TemporaryDirectory(prefix="pin") as temporary:
                for path, text in files.items():
                    target = Path(temporary, path)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(text.encode("utf-8", errors="surrogateescape"))
                os.chdir(temporary)
                try:
                    for argv in commands():
                        code, text = run([*argv, *paths])
                        text = text.replace(temporary, "<folder>")
                        file.write(json.dumps([name, argv, code, text]) + "\n")
                        count += 1
                finally:
                    os.chdir(home)
    return count


def compare(before: Path, after: Path, shown: int) -> int:
    """Print the first differences and how many there are; returns that number."""
    different: dict[str, int] = {}
    with gzip.open(before, "rt", encoding="utf-8") as old, gzip.open(after, "rt", encoding="utf-8") as new:
        for first, second in zip(old, new, strict=True):
            if first == second:
                continue
            name, argv, code, text = json.loads(first)
            other = json.loads(second)
            assert [name, argv] == other[:2], "the records are of different cases"
            different[argv[0]] = different.get(argv[0], 0) + 1
            if sum(different.values()) <= shown:
                print(f"== {name}: dsconfig {' '.join(argv)}: exit code {code}, then {other[2]}")
                print("\n".join(unified_diff(text.split("\n"), other[3].split("\n"), lineterm="", n=1)))
    print(f"{sum(different.values())} commands differ", different or "")
    return sum(different.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Record or compare, as the arguments say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording = verbs.add_parser("record")
    recording.add_argument("folder", type=Path, help="a folder of configs; `-` for the launch files alone")
    recording.add_argument("output", type=Path)
    comparing = verbs.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--shown", type=int, default=10, help="differences that are printed")
    args = parser.parse_args(arguments)
    if args.verb == "compare":
        return int(compare(args.before, args.after, args.shown) > 0)
    folder = None if str(args.folder) == "-" else args.folder
    print(f"{record(folder, args.output.resolve())} commands recorded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
