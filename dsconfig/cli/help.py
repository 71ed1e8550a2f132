"""`dsconfig help`: the help of a command, as `--help` after it shows it."""

from __future__ import annotations

import argparse

from dsconfig.cli.arguments import tell_exit_codes
from dsconfig.cli.errors import CLEAN


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    told = "such as `check`, or `elastic plan` (default: all of them)"
    parser.add_argument("command", nargs="*", metavar="COMMAND", help=told)
    tell_exit_codes(parser, {CLEAN: "shown"})


def run(args: argparse.Namespace) -> int:
    """Show it."""
    from dsconfig.cli import main

    return main([*args.command, "--help"])
