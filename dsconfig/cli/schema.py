"""`dsconfig schema`: the JSON Schema for editors, as text or as a path."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.errors import CLEAN, refuse
from dsconfig.consumers import CONSUMERS

if TYPE_CHECKING:
    from pathlib import Path

    from dsconfig.releases import Target


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    add_reading(parser)
    add = parser.add_argument
    add("-o", "--output", metavar="FILE", help="write the schema to this file (default: stdout)")
    add("--path", action="store_true", help="say where the schema is kept on this machine, and stop")


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Declare the release and the consumer, for the verbs that serve editors."""
    add = parser.add_argument
    add("--target", metavar="RELEASE", help="the release that reads the config (default: the installed one)")
    add("--consumer", choices=CONSUMERS, help="who reads the file (default: any, so far as `auto` goes)")


def run(args: argparse.Namespace) -> int:
    """Write the schema, or say where it is."""
    from dsconfig.document.pretty import pretty_file
    from dsconfig.schema import json_schema

    if args.path and args.output:
        refuse("--path and --output do not go together: one of the two")
    target, consumer = reading(args)
    if args.path:
        print(kept(target, consumer))
        return CLEAN
    schema = pretty_file(json_schema(target, consumer))
    if args.output:
        from dsconfig.cli.single import write

        write(args.output, schema.encode())
    else:
        sys.stdout.write(schema)
    return CLEAN


def reading(args: argparse.Namespace) -> tuple[Target, str | None]:
    """The release and the consumer in force; without one, the schema holds for all consumers."""
    from dsconfig.cli.arguments import in_force
    from dsconfig.settings import find

    args.world_size = None
    target, _, _ = in_force(args)
    if len(target.releases) > 1:
        print(
            f"dsconfig: note: of {target.text} the newest release counts, {target.releases[-1]}",
            file=sys.stderr,
        )
    elif target.note:
        print(f"dsconfig: note: {target.note}", file=sys.stderr)
    return target, args.consumer or find().consumer


def note(text: str) -> None:
    """Say something beside the result."""
    print(f"dsconfig: note: {text}", file=sys.stderr)


def kept(target: Target, consumer: str | None) -> Path:
    """The file of the schema; that none is kept ends the run."""
    from dsconfig.schema.files import file_of

    found = None if consumer else file_of(target)
    if found is None:
        reader = f" --consumer {consumer}" if consumer else ""
        release = target.releases[-1]
        what = f"{release} as {consumer} reads it" if consumer else release
        refuse(
            f"no schema of {what} is kept as a file: write one with "
            f"`dsconfig schema --target {release}{reader} -o FILE`"
        )
    return found
