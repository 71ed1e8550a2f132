"""`dsconfig schema`: the JSON Schema for editors, as text or as a path."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import add_schema_choice, add_settings, tell_exit_codes, to_file
from dsconfig.cli.errors import CLEAN, refuse

if TYPE_CHECKING:
    from pathlib import Path

    from dsconfig.core.releases import Target


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    add_schema_choice(parser)
    add = parser.add_argument
    told = "write the schema to this file (default: `-`, stdout)"
    add("-o", "--output", type=to_file, metavar="FILE", help=told)
    add("--path", action="store_true", help="say where the schema is kept on this machine, and stop")
    add_settings(parser)
    tell_exit_codes(parser, {CLEAN: "written"})


def run(args: argparse.Namespace) -> int:
    """Write the schema, or say where it is."""
    from dsconfig.cli.inputs import schema_choice
    from dsconfig.document.json_format import pretty_file
    from dsconfig.schema import json_schema

    if args.path and args.output:
        refuse("--path and --output do not go together: one of the two")
    target, consumer = schema_choice(args)
    if args.path:
        print(_kept(target, consumer))
        return CLEAN
    schema = pretty_file(json_schema(target, consumer))
    if args.output:
        from dsconfig.cli.inputs import write

        write(args.output, schema.encode())
    else:
        sys.stdout.write(schema)
    return CLEAN


def _kept(target: Target, consumer: str | None) -> Path:
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
