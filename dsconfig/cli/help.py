"""`dsconfig help`: show the help of a command, like `COMMAND --help`."""

from __future__ import annotations

import argparse

from dsconfig.cli.arguments import set_exit_codes
from dsconfig.cli.errors import CLEAN


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig help` to its parser."""
    parser.set_defaults(run=run)
    description = "a command such as `check` or `elastic plan` (default: list all)"
    parser.add_argument("command", nargs="*", metavar="COMMAND", help=description)
    set_exit_codes(parser, {CLEAN: "help shown"})


def run(args: argparse.Namespace) -> int:
    """Run `dsconfig help`, and return the exit code."""
    from dsconfig.cli import main

    return main([*args.command, "--help"])
