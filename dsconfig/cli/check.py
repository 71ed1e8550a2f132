"""`dsconfig check`: read, check, show."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import (
    add_checking,
    add_color,
    add_fixing,
    add_result,
    add_settings,
    add_verbosity,
    refuse_stdin_name_alone,
    tell_exit_codes,
)
from dsconfig.cli.errors import CLEAN, FAILED, FINDINGS, refuse
from dsconfig.render import FORMATS, TEXT

if TYPE_CHECKING:
    from dsconfig.check.effective_settings import Options
    from dsconfig.check.report import Report
    from dsconfig.cli.run_check import Checker, Tally
    from dsconfig.cli.run_fix import Fixer
    from dsconfig.render.terminal import Style


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    add_checking(parser)
    add_result(parser)
    add_fixing(parser, option=True)
    output = parser.add_argument_group("output")
    add = output.add_argument
    told = f"how findings are shown: {', '.join(FORMATS)} (default: full)"
    add("--output-format", choices=FORMATS, default="full", metavar="FORMAT", help=told)
    add("-o", "--output-file", metavar="FILE", help="write them to this file (default: `-`, stdout)")
    add_color(output)
    add("--statistics", action="store_true", help="count the findings of each rule")
    add_verbosity(output, "show findings only")
    add = parser.add_argument_group("instead of a report").add_argument
    add("--add-ignore", action="store_true", help="write into the files to ignore what is found today")
    add("-w", "--watch", action="store_true", help="check again whenever a file changes, until Ctrl-C")
    add("--show-files", action="store_true", help="list the files that would be checked, and stop")
    add("--show-settings", action="store_true", help="show the settings in force, and stop")
    add_settings(parser)
    tell_exit_codes(parser, {CLEAN: "nothing as severe as --fail-on", FINDINGS: "findings as severe"})


def run(args: argparse.Namespace) -> int:
    """Check what the arguments name."""
    _check_usage(args)
    if args.watch:
        from dsconfig.cli.watch import watch

        return watch(args, _run)
    if args.output_file in (None, "-"):
        return _run(args)[0]
    from dsconfig.cli.inputs import into_file, refuse_input

    args.color = "never" if args.color == "auto" else args.color
    refuse_input(args.output_file, *args.paths)  # before anything is fixed
    return into_file(args.output_file, lambda: _run(args))


def _run(args: argparse.Namespace) -> tuple[int, set[str]]:
    """Check once; returns the exit code, and the files that it depends on."""
    from dsconfig.cli.inputs import as_toml, resolve

    options = resolve(args)
    if args.show_settings:
        sys.stdout.write(as_toml(options))
        return CLEAN, set()
    fixer = _fixer(args, options)
    checker = _checker(options, fixer)
    names = checker.gather(args.paths or ["."])
    if fixer is not None:
        fixer.named_by = checker.named_by
    if args.show_files:
        from dsconfig.render.terminal import printable

        sys.stdout.writelines(f"{printable(line)}\n" for line in checker.listed(names))
    elif args.add_ignore:
        from dsconfig.cli.add_ignore import add_ignores

        add_ignores(checker, names, quiet=args.quiet)
    else:
        reports = list(checker.unread)
        for name in _tracked(args, names):  # not through `reports`, whose frame stands over every rule
            for document in checker.documents(name):
                reports += checker.attempt(name, document)
        _show(args, checker, names, reports, fixer)
    seen = {*names, *checker.tally.paths, *options.finder.paths}
    return _code(args, checker, fixer), seen


def _code(args: argparse.Namespace, checker: Checker, fixer: Fixer | None) -> int:
    if checker.failed:
        return FAILED
    to_do = checker.tally.failed or (args.exit_non_zero_on_fix and fixer is not None and fixer.changed)
    return FINDINGS if to_do and not args.exit_zero else CLEAN


def _check_usage(args: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    refuse_stdin_name_alone(args)
    if not args.fix:
        for option in ("unsafe_fixes", "diff", "show_fixes", "exit_non_zero_on_fix"):
            if getattr(args, option):
                refuse(f"--{option.replace('_', '-')} goes with --fix")
    if args.diff and args.output_format not in TEXT:
        refuse(f"a diff cannot stand in the {args.output_format} output: use --output-format concise")
    if args.fix and "-" in args.paths:
        refuse("stdin cannot be fixed in place: use `dsconfig fix -`")
    if args.add_ignore:
        for option in ("fix", "no_ignores", "watch"):
            if getattr(args, option):
                refuse(f"--add-ignore and --{option.replace('_', '-')} do not go together: one of the two")
        if "-" in args.paths:
            refuse("nothing can be written into stdin: name the file")
    if args.watch and ("-" in args.paths or args.output_file or args.output_format not in TEXT):
        refuse("--watch shows files on the terminal: it goes with no stdin, --output-file or machine format")


def _fixer(args: argparse.Namespace, options: Options) -> Fixer | None:
    if not args.fix:
        return None
    from dsconfig.cli.run_fix import Fixer

    return Fixer(options, unsafe=args.unsafe_fixes, diff=args.diff)


def _checker(options: Options, fixer: Fixer | None) -> Checker:
    from dsconfig.cli.run_check import Checker

    return Checker(options, fixer)


def _tracked(args: argparse.Namespace, names: list[str]) -> Iterable[str]:
    """The names, with a line of progress where there are many."""
    from dsconfig.cli.run_check import tracked

    return names if args.quiet else tracked(names)


def _show(
    args: argparse.Namespace, checker: Checker, names: list[str], reports: list[Report], fixer: Fixer | None
) -> None:
    from dsconfig.render import renderer
    from dsconfig.render.terminal import style_of

    style = style_of(sys.stdout, args.color)
    for text in renderer(args.output_format)(reports, checker.options.target, style):
        sys.stdout.write(text)
    # Output for machines, or a diff, stays one document: everything else goes to stderr.
    aside = sys.stdout if args.output_format in TEXT and not args.diff else sys.stderr
    if args.statistics:
        _show_statistics(args, checker.tally, style)
    if not args.quiet and names:
        if fixer is not None and checker.tally.readers:
            aside.write(fixer.outcome(sum(checker.tally.by_severity.values())))
            if args.show_fixes:
                aside.writelines(fixer.files())
        aside.write(checker.tally.closing(style if aside is sys.stdout else style_of(aside, args.color)))


def _show_statistics(args: argparse.Namespace, tally: Tally, style: Style) -> None:
    from dsconfig.render.summary import statistics

    stream = sys.stdout if args.output_format in TEXT else sys.stderr
    stream.write(statistics(tally.by_rule, style))
