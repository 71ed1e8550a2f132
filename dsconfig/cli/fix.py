"""`dsconfig fix`: apply fixes, and list them."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import (
    add_check_options,
    add_exit_options,
    add_fix_options,
    add_settings,
    add_verbosity,
    check_stdin_filename,
    set_exit_codes,
)
from dsconfig.cli.errors import CLEAN, FAILED, PROBLEMS, fail

if TYPE_CHECKING:
    from dsconfig.cli.run_fix import Fixer


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.set_defaults(run=run)
    add_check_options(parser)
    add_fix_options(parser)
    add_exit_options(parser)
    add_verbosity(parser.add_argument_group("output"), "print only errors")
    add_settings(parser)
    left = "a remaining problem reaches --fail-on; with --diff, also if a file would change"
    set_exit_codes(parser, {CLEAN: "no remaining problem reaches --fail-on", PROBLEMS: left})


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from dsconfig.cli.inputs import resolve_options
    from dsconfig.cli.run_check import Checker
    from dsconfig.cli.run_fix import Fixer
    from dsconfig.render.terminal import flowed, style_of

    check_stdin_filename(args)
    if "-" in args.paths and len(args.paths) > 1:
        fail("`-` cannot be combined with other paths: the fixed text goes to stdout")
    options = resolve_options(args)
    fixer = Fixer(options, unsafe=args.unsafe_fixes, diff=args.diff)
    checker = Checker(options, fixer)
    names = checker.gather(args.paths or ["."])
    fixer.named_by = checker.named_by
    left = sum(len(report) for report in checker.reports(names))
    if not args.quiet and checker.tally.readers:
        # The fixed text or the diff is the only output on stdout.
        stream = sys.stderr if args.diff or names == ["-"] else sys.stdout
        stream.write(flowed(_summary(fixer, left), style_of(stream)))
    if checker.failed:
        return FAILED
    has_problems = checker.tally.failed or (fixer.changed and (args.diff or args.exit_non_zero_on_fix))
    return PROBLEMS if has_problems and not args.exit_zero else CLEAN


def _summary(fixer: Fixer, left: int) -> str:
    """Lines for each applied fix, the notes, and the number of remaining problems."""
    from dsconfig.render.terminal import printable

    lines = []
    for name, applied in fixer.by_file.items():
        for diagnostic in applied:
            assert diagnostic.fix is not None
            location = f"{name}: {diagnostic.dotted}" if diagnostic.path else name
            lines.append(
                printable(f"{location}: {diagnostic.fix.title} ({diagnostic.code} {diagnostic.name})") + "\n"
            )
    lines += (f"note: {printable(each)}\n" for each in fixer.notes)
    return "".join(lines) + fixer.outcome(left)
