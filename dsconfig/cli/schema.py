"""`dsconfig schema`: print the JSON Schema, or the path of the installed schema file."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import add_schema_choice, add_settings, output_path, set_exit_codes
from dsconfig.cli.errors import CLEAN, fail

if TYPE_CHECKING:
    from pathlib import Path

    from dsconfig.core.releases import Target


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.set_defaults(run=run)
    add_schema_choice(parser)
    add = parser.add_argument
    output = "write the schema to this file (default: `-`, stdout)"
    add("-o", "--output", type=output_path, metavar="FILE", help=output)
    add("--path", action="store_true", help="print the path of the installed schema file, and exit")
    add_settings(parser)
    set_exit_codes(parser, {CLEAN: "schema or path printed"})


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from dsconfig.cli.command_inputs import schema_target
    from dsconfig.document.pretty_print import pretty_file
    from dsconfig.schema import json_schema

    if args.path and args.output:
        fail("--path and --output exclude each other")
    target, consumer = schema_target(args)
    if args.path:
        print(_schema_path(target, consumer))
        return CLEAN
    schema = pretty_file(json_schema(target, consumer))
    if args.output:
        from dsconfig.cli.command_inputs import write

        write(args.output, schema.encode())
    else:
        sys.stdout.write(schema)
    return CLEAN


def _schema_path(target: Target, consumer: str | None) -> Path:
    """Path of the installed schema file; the run ends if there is none for the release and consumer."""
    from dsconfig.schema.schema_files import file_of

    path = None if consumer else file_of(target)
    if path is None:
        option = f" --consumer {consumer}" if consumer else ""
        release = target.releases[-1]
        description = f"{release} and {consumer}" if consumer else release
        fail(
            f"no schema file for {description} is installed; write one with "
            f"`dsconfig schema --target {release}{option} -o FILE`"
        )
    return path
