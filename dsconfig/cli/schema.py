"""`dsconfig schema`: print the JSON Schema, or the path to the installed schema file."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import add_schema_options, add_settings_options, parse_output_path, set_exit_codes
from dsconfig.cli.errors import CLEAN, fail_with_usage_error
from dsconfig.render.terminal_style import use_utf8

if TYPE_CHECKING:
    from pathlib import Path

    from dsconfig.core.releases import ReleaseTarget


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig schema` to its parser."""
    parser.set_defaults(run=run)
    add_schema_options(parser)
    add = parser.add_argument
    output = "write the schema to this file (default: `-`, stdout)"
    add("-o", "--output", type=parse_output_path, metavar="FILE", help=output)
    add("--path", action="store_true", help="print the path to the installed schema file, and exit")
    add_settings_options(parser)
    set_exit_codes(parser, {CLEAN: "schema or path printed"})


def run(args: argparse.Namespace) -> int:
    """Run `dsconfig schema`, and return the exit code."""
    from dsconfig.cli.command_inputs import schema_release_and_consumer
    from dsconfig.document.pretty_print import format_generated_file
    from dsconfig.schema import json_schema

    if args.path and args.output:
        fail_with_usage_error("--path and --output exclude each other")
    target, consumer = schema_release_and_consumer(args)
    if args.path:
        print(_schema_path(target, consumer))
        return CLEAN
    schema = format_generated_file(json_schema(target, consumer))
    if args.output:
        from dsconfig.cli.command_inputs import write_output_file

        write_output_file(args.output, schema.encode())
    else:
        use_utf8(sys.stdout)
        sys.stdout.write(schema)
    return CLEAN


def _schema_path(target: ReleaseTarget, consumer: str | None) -> Path:
    """Return the path to the installed schema file for a release and consumer, or end the run with an error."""
    from dsconfig.schema.schema_files import schema_file_of_target

    path = None if consumer else schema_file_of_target(target)
    if path is None:
        option = f" --consumer {consumer}" if consumer else ""
        release = target.releases[-1]
        description = f"{release} and {consumer}" if consumer else release
        fail_with_usage_error(
            f"no schema file for {description} is installed; write one with "
            f"`dsconfig schema --target {release}{option} -o FILE`"
        )
    return path
