"""`dsconfig check`: check configs and report their problems."""

from __future__ import annotations

import argparse
import sys

from dsconfig.cli.arguments import (
    add_check_options,
    add_color_option,
    add_exit_options,
    add_fix_options,
    add_settings_options,
    add_verbosity_options,
    check_stdin_filename,
    set_exit_codes,
)
from dsconfig.cli.errors import CLEAN, FAILED, PROBLEMS, fail_with_usage_error
from dsconfig.render import FORMATS, TEXT

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.check.effective_settings import EffectiveOptions
    from dsconfig.check.report import Report
    from dsconfig.cli.check_files import DiagnosticTotals, FileChecker
    from dsconfig.cli.fix_files import FileFixer
    from dsconfig.render.terminal_style import TerminalStyle


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig check` to its parser."""
    parser.set_defaults(run=run)
    add_check_options(parser)
    add_exit_options(parser)
    add_fix_options(parser, option=True)
    output = parser.add_argument_group("output")
    add = output.add_argument
    formats = f"output format: {', '.join(FORMATS)} (default: full)"
    add("--output-format", choices=FORMATS, default="full", metavar="FORMAT", help=formats)
    add("-o", "--output-file", metavar="FILE", help="write the report to this file (default: `-`, stdout)")
    add_color_option(output)
    add("--statistics", action="store_true", help="print the number of problems of each rule")
    add_verbosity_options(output, "print only the problems")
    add = parser.add_argument_group("other actions").add_argument
    add("--add-ignore", action="store_true", help="add ignores for all current problems to the files")
    add("-w", "--watch", action="store_true", help="check again whenever a file changes")
    add("--show-files", action="store_true", help="list the files that would be checked, and exit")
    add("--show-settings", action="store_true", help="print the settings in use, and exit")
    add_settings_options(parser)
    set_exit_codes(parser, {CLEAN: "no problem reaches --fail-on", PROBLEMS: "a problem reaches --fail-on"})


def run(args: argparse.Namespace) -> int:
    """Run `dsconfig check`, and return the exit code."""
    _reject_conflicting_options(args)
    if args.watch:
        from dsconfig.cli.watch import watch_files

        return watch_files(args, _run_check)
    if args.output_file in (None, "-"):
        return _run_check(args)[0]
    from dsconfig.cli.command_inputs import forbid_overwrite, redirect_to_file

    args.color = "never" if args.color == "auto" else args.color
    forbid_overwrite(args.output_file, *args.paths)  # before anything is fixed
    return redirect_to_file(args.output_file, lambda: _run_check(args))


def _run_check(args: argparse.Namespace) -> tuple[int, set[str]]:
    """Check the files once; return the exit code and the files on which the result depends."""
    from dsconfig.cli.command_inputs import options_as_toml, options_from_arguments

    options = options_from_arguments(args)
    if args.show_settings:
        sys.stdout.write(options_as_toml(options))
        return CLEAN, set()
    from dsconfig.launch.repository_files import assume_unchanged_files

    # Not in a function of its own: its frame would be on the stack of every rule.
    with assume_unchanged_files():
        fixer = _make_fixer(args, options)
        checker = _make_checker(options, fixer, quiet=args.quiet)
        checker.finds_jobs = True
        checker.tally.shows_jobs = args.output_format == "full"
        names = checker.gather_files(args.paths or ["."])
        if fixer is not None:
            fixer.named_by = checker.named_by
        if args.show_files:
            from dsconfig.render.terminal_style import escape_unprintable

            sys.stdout.writelines(f"{escape_unprintable(line)}\n" for line in checker.list_files(names))
        elif args.add_ignore:
            from dsconfig.cli.add_ignore import add_ignores

            add_ignores(checker, names, quiet=args.quiet)
        else:
            reports = list(checker.unread)
            # Not through `reports`: its frame would be on the stack of every rule.
            for name in checker.progress.track_names(names):
                for document in checker.documents_in_file(name):
                    reports += checker.try_to_check(name, document)
            _print_reports(args, checker, names, reports, fixer)
        dependencies = {*names, *checker.tally.linked_file_paths, *options.finder.settings_paths}
        return _exit_code_of_check(args, checker, fixer), dependencies


def _exit_code_of_check(args: argparse.Namespace, checker: FileChecker, fixer: FileFixer | None) -> int:
    if checker.failed:
        return FAILED
    has_problems = checker.tally.failed or (args.exit_non_zero_on_fix and fixer is not None and fixer.changed)
    return PROBLEMS if has_problems and not args.exit_zero else CLEAN


def _reject_conflicting_options(args: argparse.Namespace) -> None:
    """Reject options that exclude each other or that lack a required option."""
    check_stdin_filename(args)
    if not args.fix:
        for option in ("unsafe_fixes", "diff", "show_fixes", "exit_non_zero_on_fix"):
            if getattr(args, option):
                fail_with_usage_error(f"--{option.replace('_', '-')} requires --fix")
    if args.diff and args.output_format not in TEXT:
        fail_with_usage_error(
            f"--diff cannot be combined with {args.output_format} output; use --output-format concise"
        )
    if args.fix and "-" in args.paths:
        fail_with_usage_error("--fix cannot change stdin; use `dsconfig fix -`")
    if args.add_ignore:
        for option in ("fix", "no_ignores", "watch"):
            if getattr(args, option):
                fail_with_usage_error(f"--add-ignore and --{option.replace('_', '-')} exclude each other")
        if "-" in args.paths:
            fail_with_usage_error("--add-ignore cannot write to stdin; pass the file")
    if args.watch and ("-" in args.paths or args.output_file or args.output_format not in TEXT):
        fail_with_usage_error("--watch excludes stdin, --output-file and machine-readable output formats")


def _make_fixer(args: argparse.Namespace, options: EffectiveOptions) -> FileFixer | None:
    if not args.fix:
        return None
    from dsconfig.cli.fix_files import FileFixer

    return FileFixer(options, unsafe=args.unsafe_fixes, diff=args.diff)


def _make_checker(options: EffectiveOptions, fixer: FileFixer | None, *, quiet: bool) -> FileChecker:
    from dsconfig.cli.check_files import FileChecker

    return FileChecker(options, fixer, quiet=quiet)


def _print_reports(
    args: argparse.Namespace,
    checker: FileChecker,
    names: list[str],
    reports: list[Report],
    fixer: FileFixer | None,
) -> None:
    from dsconfig.render import UTF8, renderer
    from dsconfig.render.terminal_style import style_of, use_utf8, wrap_lines

    style = style_of(sys.stdout, args.color)
    if args.output_format in UTF8:
        use_utf8(sys.stdout)
    for text in renderer(args.output_format)(reports, checker.options.target, style):
        sys.stdout.write(text)
    # Machine-readable output and a diff stay one document: the summary goes to stderr.
    side = sys.stdout if args.output_format in TEXT and not args.diff else sys.stderr
    if args.statistics:
        _print_statistics(args, checker.tally, style)
    if not args.quiet and names:
        if side is sys.stdout:
            side.write(checker.tally.overview_by_rule(style, fixing=args.fix, listed=args.statistics))
        if fixer is not None and checker.tally.readers:
            if side is sys.stdout:
                side.write(wrap_lines("".join(fixer.applied_fix_lines()), style))
            side.write(fixer.outcome_line(sum(checker.tally.by_severity.values())))
            if args.show_fixes:
                side.writelines(fixer.fixed_file_lines())
        side.write(checker.tally.closing_lines(style if side is sys.stdout else style_of(side, args.color)))


def _print_statistics(args: argparse.Namespace, tally: DiagnosticTotals, style: TerminalStyle) -> None:
    from dsconfig.render.summary import rule_statistics

    stream = sys.stdout if args.output_format in TEXT else sys.stderr
    stream.write(rule_statistics(tally.by_rule, style))
