"""`dsconfig fix`: fix, and say what was done."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import (
    add_checking,
    add_fixing,
    add_result,
    add_settings,
    add_verbosity,
    refuse_stdin_name_alone,
    tell_exit_codes,
)
from dsconfig.cli.errors import CLEAN, FAILED, FINDINGS, refuse

if TYPE_CHECKING:
    from dsconfig.cli.run_fix import Fixer


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    add_checking(parser)
    add_fixing(parser)
    add_result(parser)
    add_verbosity(parser.add_argument_group("output"), "say nothing but errors")
    add_settings(parser)
    told = "findings as severe are left, or more; with --diff, also where a file would change"
    tell_exit_codes(parser, {CLEAN: "nothing as severe as --fail-on is left", FINDINGS: told})


def run(args: argparse.Namespace) -> int:
    """Fix what the arguments name."""
    from dsconfig.cli.inputs import resolve
    from dsconfig.cli.run_check import Checker
    from dsconfig.cli.run_fix import Fixer
    from dsconfig.render.terminal import flowed, style_of

    refuse_stdin_name_alone(args)
    if "-" in args.paths and len(args.paths) > 1:
        refuse("`-` is fixed alone: its text goes to stdout")
    options = resolve(args)
    fixer = Fixer(options, unsafe=args.unsafe_fixes, diff=args.diff)
    checker = Checker(options, fixer)
    names = checker.gather(args.paths or ["."])
    fixer.named_by = checker.named_by
    left = sum(len(report) for report in checker.reports(names))
    if not args.quiet and checker.tally.readers:
        # The text or the diff has stdout to itself.
        stream = sys.stderr if args.diff or names == ["-"] else sys.stdout
        stream.write(flowed(_told(fixer, left), style_of(stream)))
    if checker.failed:
        return FAILED
    to_do = checker.tally.failed or (fixer.changed and (args.diff or args.exit_non_zero_on_fix))
    return FINDINGS if to_do and not args.exit_zero else CLEAN


def _told(fixer: Fixer, left: int) -> str:
    """What was done, finding by finding, and how much is left to do."""
    from dsconfig.render.terminal import printable

    lines = []
    for name, applied in fixer.by_file.items():
        for found in applied:
            assert found.fix is not None
            where = f"{name}: {found.dotted}" if found.path else name
            lines.append(printable(f"{where}: {found.fix.title} ({found.code} {found.name})") + "\n")
    lines += (f"note: {printable(each)}\n" for each in fixer.notes)
    return "".join(lines) + fixer.outcome(left)
