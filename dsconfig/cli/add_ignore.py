"""`dsconfig check --add-ignore`: add ignore comments for all current problems to the files."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dsconfig.check.report import Report
from dsconfig.cli.check_files import FileChecker
from dsconfig.cli.command_inputs import os_error_reason
from dsconfig.cli.errors import print_error
from dsconfig.cli.output_files import is_lossless, rewrite_document
from dsconfig.fix.write_suppressions import add_suppressions, file_accepts_comments
from dsconfig.render.summary import count_noun


def add_ignores(checker: FileChecker, names: Sequence[str], *, quiet: bool) -> None:
    """Write suppressions to the files, and print how many; problems that cannot be ignored in a file remain."""
    reports: dict[str, list[Report]] = {}
    for report in checker.report_on_files(names):
        if report.diagnostics:
            reports.setdefault(report.name, []).append(report)
    total = changed = 0
    checker.tally.failed = False
    for name, file_reports in reports.items():
        ignored = _write_suppressions(checker, name, file_reports)
        changed += ignored > 0
        total += ignored
    if not quiet:
        suffix = f" in {count_noun(changed, 'file')}" if total else ""
        sys.stdout.write(f"Added suppressions for {count_noun(total, 'problem')}{suffix}.\n")


def _write_suppressions(checker: FileChecker, name: str, reports: Sequence[Report]) -> int:
    """Write the suppressions for one file, and return the number of suppressed problems."""
    document = reports[0].document
    diagnostics = [each for report in reports for each in report.diagnostics]
    if document is None or not is_lossless(document):
        print_error(f"{name}: not UTF-8 text, so the file was not changed; use --per-file-ignores")
        checker.failed = True
        return 0
    suppressed = add_suppressions(
        document, diagnostics, comments=file_accepts_comments(document, reports[0].consumer)
    )
    if left := len(suppressed.unsuppressed):
        checker.failed = True
        message = f"{count_noun(left, 'problem')} cannot be ignored in the file"
        print_error(f"{name}: {message} ({suppressed.unsuppressed[0].code}): use --per-file-ignores")
    try:
        rewrite_document(name, document, suppressed.text)
    except OSError as error:
        checker.failed = True
        print_error(f"{name}: {os_error_reason(error)}")
        return 0
    return len(diagnostics) - left
