"""`dsconfig check --add-ignore`: what is found today is ignored from now on, each file in its own manner."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dsconfig.check.report import Report
from dsconfig.cli.errors import complain
from dsconfig.cli.inputs import reason
from dsconfig.cli.output import is_whole, replace
from dsconfig.cli.run_check import Checker
from dsconfig.fix.write_suppressions import accepts_comments, add_suppressions
from dsconfig.render.summary import count


def add_ignores(checker: Checker, names: Sequence[str], *, quiet: bool) -> None:
    """Write suppressions into the files, and say how many; what cannot be ignored there counts as found."""
    reports: dict[str, list[Report]] = {}
    for report in checker.reports(names):
        if report.diagnostics:
            reports.setdefault(report.name, []).append(report)
    done = files = 0
    checker.tally.failed = False
    for name, found in reports.items():
        ignored = _add(checker, name, found)
        files += ignored > 0
        done += ignored
    if not quiet:
        where = f" in {count(files, 'file')}" if done else ""
        sys.stdout.write(f"Added suppressions of {count(done, 'finding')}{where}.\n")


def _add(checker: Checker, name: str, reports: Sequence[Report]) -> int:
    """Write those of one file; returns how many findings they silence."""
    document = reports[0].document
    found = [each for report in reports for each in report.diagnostics]
    if document is None or not is_whole(document):
        complain(f"{name}: is not UTF-8 text, and left as it is: use --per-file-ignores")
        checker.failed = True
        return 0
    done = add_suppressions(document, found, comments=accepts_comments(document, reports[0].consumer))
    if left := len(done.unsuppressed):
        checker.failed = True
        what = f"{count(left, 'finding')} cannot be ignored in the file itself"
        complain(f"{name}: {what} ({done.unsuppressed[0].code}): use --per-file-ignores")
    try:
        replace(name, document, done.text)
    except OSError as error:
        checker.failed = True
        complain(f"{name}: {reason(error)}")
        return 0
    return len(found) - left
