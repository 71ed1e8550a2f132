"""`dsconfig fix`: mend, and say what was done."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.check import add_judgement, add_mending, add_result, check_usage
from dsconfig.cli.errors import CLEAN, FAILED, FINDINGS, refuse

if TYPE_CHECKING:
    from dsconfig.cli.mending import MendingRun


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    add_judgement(parser)
    add_mending(parser)
    add_result(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors")


def run(args: argparse.Namespace) -> int:
    """Mend what the arguments name."""
    from dsconfig.cli.arguments import resolve
    from dsconfig.cli.mending import MendingRun

    check_usage(args)
    if "-" in args.paths and len(args.paths) > 1:
        refuse("`-` is mended alone: its text goes to stdout")
    job = MendingRun(resolve(args), unsafe=args.unsafe_fixes, diff=args.diff)
    names = job.gather(args.paths or ["."])
    for _ in job.reports(names):
        pass
    if not args.quiet and names:
        # The text or the diff has stdout to itself.
        (sys.stderr if args.diff or names == ["-"] else sys.stdout).write(_told(job, would=args.diff))
    if job.failed:
        return FAILED
    left = job.reaches(job.options.fail_on) or (args.diff and job.changed)
    return FINDINGS if left and not args.exit_zero else CLEAN


def _told(job: MendingRun, *, would: bool) -> str:
    """What was done, and what is left to do."""
    from dsconfig.render.summary import count
    from dsconfig.render.text import printable

    lines = []
    for name, found in job.applied:
        assert found.fix is not None
        where = f"{name}: {found.dotted}" if found.path else name
        lines.append(printable(f"{where}: {found.fix.title} ({found.code} {found.name})"))
    done = f"{'Would fix' if would else 'Fixed'} {count(len(job.applied), 'finding')}"
    done = f"{done} in {count(job.changed, 'file')}" if job.applied else "Nothing to fix"
    left = sum(job.by_severity.values())
    more = f", {job.more} of them fixable with --unsafe-fixes" if job.more and not job.unsafe else ""
    lines.append(f"{done}; {count(left, 'finding')} left{more}." if left else f"{done}.")
    return "\n".join(lines) + "\n"
