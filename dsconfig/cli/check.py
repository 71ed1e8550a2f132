"""`dsconfig check`: read, check, show."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.errors import CLEAN, FAILED, FINDINGS, refuse
from dsconfig.cli.parser import words, world_size
from dsconfig.consumers import CONSUMERS
from dsconfig.render import FORMATS
from dsconfig.settings import FAIL_ON

if TYPE_CHECKING:
    from dsconfig.cli.arguments import Options
    from dsconfig.cli.run import Run
    from dsconfig.render.style import Style


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    add_judgement(parser)
    add_result(parser)
    add_mending(parser)
    output = parser.add_argument_group("output")
    add = output.add_argument
    add("--output-format", choices=FORMATS, default="full", help="how findings are shown (default: full)")
    add("--color", choices=("auto", "always", "never"), default="auto", help="default: on a terminal")
    add("--statistics", action="store_true", help="count the findings of each rule")
    add("-q", "--quiet", action="store_true", help="show findings only")
    add("--show-files", action="store_true", help="list the files that would be checked, and stop")
    add("--show-settings", action="store_true", help="show the settings in force, and stop")


def add_judgement(parser: argparse.ArgumentParser) -> None:
    """Declare what is checked, and against what."""
    add = parser.add_argument
    add("paths", nargs="*", metavar="PATH", help="files, directories, or `-` for stdin (default: .)")
    add("--stdin-filename", metavar="NAME", help="the name that stdin's text goes by")
    what = parser.add_argument_group("what it is checked against")
    add = what.add_argument
    add("--target", metavar="RELEASE", help="a release, a range such as '>=0.14,<0.19.8', or installed")
    add("--world-size", type=world_size, metavar="N", help="the number of processes; unknown by default")
    add("--consumer", choices=CONSUMERS, help="who reads the file (default: deepspeed)")
    which = parser.add_argument_group(
        "which rules", "RULES: codes, starts of codes, or names, joined by commas"
    )
    for option, told in (
        ("--select", "switch on these rules only"),
        ("--ignore", "switch off these rules"),
        ("--extend-select", "switch on these rules besides"),
    ):
        which.add_argument(option, type=words, action="extend", metavar="RULES", help=told)


def add_result(parser: argparse.ArgumentParser) -> None:
    """Declare what the exit code says."""
    add = parser.add_argument_group("result").add_argument
    add("--fail-on", choices=FAIL_ON, help="the least severity that ends in exit code 1 (default: warning)")
    add("--exit-zero", action="store_true", help="end in exit code 0 whatever is found")


def add_mending(parser: argparse.ArgumentParser) -> None:
    """Declare how far mending goes."""
    add = parser.add_argument_group("mending").add_argument
    if parser.prog.endswith("check"):
        add("--fix", action="store_true", help="mend what can be mended safely, and show what is left")
    add("--unsafe-fixes", action="store_true", help="mend also where values change or something is lost")
    add("--diff", action="store_true", help="show the changes, and write none")


def run(args: argparse.Namespace) -> int:
    """Check what the arguments name."""
    from dsconfig.cli.arguments import resolve, show

    check_usage(args)
    options = resolve(args)
    if args.show_settings:
        sys.stdout.write(show(options))
        return CLEAN
    job = _job(args, options)
    names = job.gather(args.paths or ["."])
    if args.show_files:
        sys.stdout.writelines(f"{name}\n" for name in names)
    else:
        _show(args, job, names, options)
    if job.failed:
        return FAILED
    return FINDINGS if job.reaches(options.fail_on) and not args.exit_zero else CLEAN


def check_usage(args: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if args.stdin_filename and "-" not in args.paths:
        refuse("--stdin-filename goes with `-` as PATH")
    if not getattr(args, "fix", True):
        if args.unsafe_fixes or args.diff:
            refuse("--unsafe-fixes and --diff go with --fix")
    elif "-" in args.paths and hasattr(args, "fix"):
        refuse("stdin cannot be fixed in place: use `dsconfig fix -`")


def _job(args: argparse.Namespace, options: Options) -> Run:
    from dsconfig.cli.run import Run

    if not args.fix:
        return Run(options)
    from dsconfig.cli.mending import MendingRun

    return MendingRun(options, unsafe=args.unsafe_fixes, diff=args.diff)


def _show(args: argparse.Namespace, job: Run, names: list[str], options: Options) -> None:
    from dsconfig.cli.progress import tracked
    from dsconfig.render import renderer
    from dsconfig.render.style import style_of

    style = style_of(sys.stdout, args.color)
    reports = job.reports(names)
    if not args.quiet:
        reports = tracked(reports, len(names))
    for text in renderer(args.output_format)(reports, options.target, style):
        sys.stdout.write(text)
    # The document for machines stays whole: whatever else there is to say goes to stderr.
    aside = sys.stdout if args.output_format == "full" else sys.stderr
    if args.statistics:
        _statistics(args, job, style)
    if not args.quiet and names:
        aside.write(job.closing(style if aside is sys.stdout else style_of(aside, args.color)))


def _statistics(args: argparse.Namespace, job: Run, style: Style) -> None:
    from dsconfig.render.summary import statistics

    stream = sys.stdout if args.output_format in ("full", "concise") else sys.stderr
    stream.write(statistics(job.by_rule, style))
