"""`dsconfig check`: read, check, show."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import (
    add_checking,
    add_color,
    add_fixing,
    add_result,
    refuse_stdin_name_alone,
)
from dsconfig.cli.errors import CLEAN, FAILED, FINDINGS, refuse
from dsconfig.render import FORMATS

if TYPE_CHECKING:
    from dsconfig.cli.checker import Checker
    from dsconfig.cli.fixer import Fixer
    from dsconfig.cli.options import Options
    from dsconfig.cli.tally import Tally
    from dsconfig.render.style import Style


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    add_checking(parser)
    add_result(parser)
    add_fixing(parser, option=True)
    output = parser.add_argument_group("output")
    add = output.add_argument
    add("--output-format", choices=FORMATS, default="full", help="how findings are shown (default: full)")
    add_color(output)
    add("--statistics", action="store_true", help="count the findings of each rule")
    add("-q", "--quiet", action="store_true", help="show findings only")
    add("-v", "--verbose", action="store_true", help="name the hidden folders that are passed over")
    add("--show-files", action="store_true", help="list the files that would be checked, and stop")
    add("--show-settings", action="store_true", help="show the settings in force, and stop")


def run(args: argparse.Namespace) -> int:
    """Check what the arguments name."""
    from dsconfig.cli.options import as_toml, resolve

    _check_usage(args)
    options = resolve(args)
    if args.show_settings:
        sys.stdout.write(as_toml(options))
        return CLEAN
    fixer = _fixer(args, options)
    checker = _checker(options, fixer)
    names = checker.gather(args.paths or ["."])
    if fixer is not None:
        fixer.named_by = checker.named_by
    if args.show_files:
        from dsconfig.render.text import printable

        sys.stdout.writelines(f"{printable(line)}\n" for line in checker.listed(names))
    else:
        _show(args, checker, names, fixer)
    if checker.failed:
        return FAILED
    return FINDINGS if checker.tally.failed and not args.exit_zero else CLEAN


def _check_usage(args: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    refuse_stdin_name_alone(args)
    if not args.fix and (args.unsafe_fixes or args.diff):
        refuse("--unsafe-fixes and --diff go with --fix")
    if args.diff and args.output_format not in ("full", "concise"):
        refuse(f"a diff cannot stand in the {args.output_format} output: use --output-format concise")
    if args.fix and "-" in args.paths:
        refuse("stdin cannot be fixed in place: use `dsconfig fix -`")


def _fixer(args: argparse.Namespace, options: Options) -> Fixer | None:
    if not args.fix:
        return None
    from dsconfig.cli.fixer import Fixer

    return Fixer(options, unsafe=args.unsafe_fixes, diff=args.diff)


def _checker(options: Options, fixer: Fixer | None) -> Checker:
    from dsconfig.cli.checker import Checker

    if fixer is not None:
        return Checker(options, fixer.fix)
    from dsconfig.cli.judge import shown

    return Checker(options, lambda _, document: shown(document, options))


def _show(args: argparse.Namespace, checker: Checker, names: list[str], fixer: Fixer | None) -> None:
    from dsconfig.cli.progress import tracked
    from dsconfig.render import renderer
    from dsconfig.render.style import style_of

    style = style_of(sys.stdout, args.color)
    reports = checker.reports(names)
    if not args.quiet:
        reports = tracked(reports, len(names))
    for text in renderer(args.output_format)(reports, checker.options.target, style):
        sys.stdout.write(text)
    # Output for machines, or a diff, stays one document: everything else goes to stderr.
    aside = sys.stdout if args.output_format == "full" and not args.diff else sys.stderr
    if args.statistics:
        _show_statistics(args, checker.tally, style)
    if not args.quiet and names:
        if fixer is not None:
            aside.writelines((fixer.outcome(sum(checker.tally.by_severity.values())), *fixer.files()))
        aside.write(checker.tally.closing(style if aside is sys.stdout else style_of(aside, args.color)))


def _show_statistics(args: argparse.Namespace, tally: Tally, style: Style) -> None:
    from dsconfig.render.summary import statistics

    stream = sys.stdout if args.output_format in ("full", "concise") else sys.stderr
    stream.write(statistics(tally.by_rule, style))
