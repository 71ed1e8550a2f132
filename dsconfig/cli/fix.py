"""`dsconfig fix`: apply fixes, and list them and the remaining problems."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import (
    add_check_options,
    add_exit_options,
    add_fix_options,
    add_settings_options,
    add_verbosity_options,
    check_stdin_filename,
    set_exit_codes,
)
from dsconfig.cli.errors import CLEAN, FAILED, PROBLEMS, fail_with_usage_error

if TYPE_CHECKING:
    from dsconfig.check.report import Report
    from dsconfig.cli.fix_files import FileFixer
    from dsconfig.core.releases import ReleaseTarget
    from dsconfig.render.terminal_style import TerminalStyle


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig fix` to its parser."""
    parser.set_defaults(run=run)
    add_check_options(parser)
    add_fix_options(parser)
    add_exit_options(parser)
    add_verbosity_options(parser.add_argument_group("output"), "print only errors")
    add_settings_options(parser)
    left = "a remaining problem reaches --fail-on; with --diff, also if a file would change"
    set_exit_codes(parser, {CLEAN: "no remaining problem reaches --fail-on", PROBLEMS: left})


def run(args: argparse.Namespace) -> int:
    """Run `dsconfig fix`, and return the exit code."""
    from dsconfig.cli.check_files import FileChecker
    from dsconfig.cli.command_inputs import options_from_arguments
    from dsconfig.cli.fix_files import FileFixer
    from dsconfig.render.terminal_style import style_of, wrap_lines

    check_stdin_filename(args)
    if "-" in args.paths and len(args.paths) > 1:
        fail_with_usage_error("`-` cannot be combined with other paths: the fixed text goes to stdout")
    options = options_from_arguments(args)
    fixer = FileFixer(options, unsafe=args.unsafe_fixes, diff=args.diff)
    checker = FileChecker(options, fixer, quiet=args.quiet)
    checker.finds_jobs = True
    names = checker.gather_files(args.paths or ["."])
    fixer.named_by = checker.named_by
    left = list(checker.report_on_files(names))
    if not args.quiet and checker.tally.readers:
        # The fixed text or the diff is the only output on stdout.
        stream = sys.stderr if args.diff or names == ["-"] else sys.stdout
        style = style_of(stream)
        stream.write(wrap_lines("".join(_fix_summary_lines(fixer, left, options.target, style)), style))
        stream.write(checker.tally.overview_by_rule(style, fixing=True))
        stream.write(wrap_lines(fixer.outcome_line(sum(map(len, left))), style))
    if checker.failed:
        return FAILED
    has_problems = checker.tally.failed or (fixer.changed and (args.diff or args.exit_non_zero_on_fix))
    return PROBLEMS if has_problems and not args.exit_zero else CLEAN


def _fix_summary_lines(
    fixer: FileFixer, left: list[Report], target: ReleaseTarget, style: TerminalStyle
) -> Iterator[str]:
    """Yield a line for each applied fix, each remaining problem and each note."""
    from dsconfig.render.concise import render
    from dsconfig.render.terminal_style import escape_unprintable

    yield from fixer.applied_fix_lines()
    yield from render(left, target, style)
    yield from (f"note: {escape_unprintable(each)}\n" for each in fixer.notes)
