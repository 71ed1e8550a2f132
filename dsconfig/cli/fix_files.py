"""Apply fixes to files, and report the remaining problems."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from dsconfig.check.check import apply_options_to_report, check_jobs, job_checker, recheck_function
from dsconfig.check.discover import SKIPPED
from dsconfig.check.effective_settings import EffectiveOptions
from dsconfig.check.report import Report, combine_jobs
from dsconfig.cli.errors import print_note
from dsconfig.cli.output_files import is_lossless, print_diff, rewrite_document, unified_diff, write_text
from dsconfig.core.diagnostic import Diagnostic
from dsconfig.core.file_access import may_read_file
from dsconfig.document import Document
from dsconfig.document.apply_operations import reparse_document
from dsconfig.document.atomic_write import remove_stale_drafts
from dsconfig.fix.apply_fixes import Checker, FixedText, combine_checkers, fix_jobs
from dsconfig.fix.verify_fixes import LONG_TEXT, verify_fixes_of_reports
from dsconfig.launch.config_source import read_config_at_path
from dsconfig.launch.locate_configs_of_jobs import locate_jobs
from dsconfig.render.summary import count_noun
from dsconfig.render.terminal_style import escape_unprintable


def belongs_to_repository(path: str, launch: str) -> bool:
    """Return whether a file named by a launch file is in its repository or folder, not in an installed package."""
    return SKIPPED.isdisjoint(path.replace(os.sep, "/").split("/")) and may_read_file(path, launch)


def _fix_title(diagnostic: Diagnostic) -> str | None:
    return diagnostic.fix.title if diagnostic.fix else None


def _with_options(checker: Checker, options: EffectiveOptions) -> Checker:
    return lambda document: apply_options_to_report(checker(document), options)


class FileFixer:
    """Fixes files one by one, or with `diff`, prints the changes without writing anything."""

    def __init__(self, options: EffectiveOptions, *, unsafe: bool, diff: bool) -> None:
        self.options, self.unsafe, self.diff = options, unsafe, diff
        self.by_file: dict[str, tuple[Diagnostic, ...]] = {}
        """Fixed diagnostics by file name."""
        self.changed = 0
        """Number of changed files."""
        self.more = 0
        """Number of remaining diagnostics that only have an unsafe fix."""
        self.notes: list[str] = []
        """Notes of the reports on the fixed files."""
        self.named_by: Mapping[str, Sequence[str]] = {}
        """Launch files by the absolute paths of the configs that they name."""
        self.cut = False
        """Whether a file was too long to try every fix."""
        self._texts: dict[str, str] = {}
        """New texts of configs that launch files name, by path."""
        self._swept: set[str] = set()
        self._source: tuple[Document, str] | None = None
        """Python source whose configs are being fixed, as first read, and its new text."""

    def fix_file(self, name: str, document: Document) -> Report:
        """Fix a document and the files that it names; return the report on the new texts."""
        settings = self.options.options_of_file(document.name)
        # The jobs are those of the original text: a fix may remove the evidence.
        checkers = [
            _with_options(job_checker(located, settings.job_with_options(located)), self.options)
            for located in locate_jobs(document)
        ]
        report = self._fix_document(name, document, checkers)
        children = tuple(self._fix_linked_config(name, child) for child in report.children)
        left = verify_fixes_of_reports(report.copy_with(children=children))
        self.notes += () if left.why_not_config else left.notes
        self.more += sum(diagnostic.fix is not None for each in (left, *left.children) for diagnostic in each)
        return left

    def latest_config(self, document: Document, number: int) -> Document:
        """Return one of several configs in a Python source after the configs before it were fixed."""
        if self._source is None or not document.is_in_program:
            return document
        from dsconfig.launch.python.config_dicts import sibling_documents

        return sibling_documents(document, self._source[1])[number]

    def write_python_source(self, name: str) -> None:
        """Write a Python source once all of its configs are fixed."""
        if self._source is not None:
            document, text = self._source
            self._source = None
            self.changed += 1
            self._write_or_print_diff(name, document, text)

    def _fix_document(self, name: str, document: Document, checkers: Sequence[Checker]) -> Report:
        folder = os.path.dirname(os.path.realpath(name))
        if folder not in self._swept and name != "-" and not self.diff:
            self._swept.add(folder)
            remove_stale_drafts(folder)
        if is_lossless(document):
            # Parse a long text again instead of keeping its tree alive while fixing.
            is_long = len(document.text) > LONG_TEXT
            fixed = fix_jobs(
                reparse_document(document, document.text) if is_long else document,
                checkers,
                unsafe=self.unsafe,
            )
        else:  # the file cannot be rewritten, so report on the text as it is
            fixed = FixedText(document.text, (), combine_jobs([each(document) for each in checkers]))
        self.cut |= fixed.is_partial
        if fixed.text != document.text:
            if document.is_in_program:
                text = document.file_text_with(fixed.text)
                self._source = (self._source[0] if self._source else document, text)
            else:
                self._write_or_print_diff(name, document, fixed.text)
                self.changed += 1
            self.by_file[document.name] = (*self.by_file.get(document.name, ()), *fixed.applied)
        elif name == "-" and not self.diff:
            write_text(document.text)
        return fixed.report

    def _fix_linked_config(self, launch: str, report: Report) -> Report:
        """Fix a config that a launch file names, using only fixes that suit all jobs that load it."""
        document = report.document
        if document is None or launch == "-" or document.is_data or not os.path.isfile(document.name):
            return report
        path, recheck_report = os.path.realpath(document.name), recheck_function(report, self.options)
        if path in self._texts:
            left = recheck_report(reparse_document(document, self._texts[path]))
        elif not belongs_to_repository(path, launch):
            print_note(f"{document.name} is outside of this repository and is not changed")
            without_fixes = (each._replace(fix=None, help=each.help or _fix_title(each)) for each in report)
            left = report.copy_with(diagnostics=tuple(without_fixes))
        else:
            recheck_others = (
                recheck_function(other, self.options)
                for other in self._reports_of_other_launch_files(path, launch)
            )
            checker = combine_checkers([recheck_report, *recheck_others])
            fixed = self._fix_document(document.name, document, [checker])
            left = recheck_report(fixed.document or document)
            self._texts[path] = (fixed.document or document).text
        return left.copy_with(
            children=tuple(self._fix_linked_config(launch, each) for each in report.children)
        )

    def _reports_of_other_launch_files(self, path: str, launch: str) -> Iterator[Report]:
        """Yield reports on a config for the jobs of every other launch file that names it."""
        for name in dict.fromkeys((launch, *self.named_by.get(path, ()))):
            reports = check_jobs(read_config_at_path(name), self.options)
            if name != launch or len(reports) > 1:
                children = (child for report in reports for child in report.children)
                yield from (each for each in children if os.path.realpath(each.name) == path)

    def applied_fix_lines(self) -> Iterator[str]:
        """Yield a line for each applied fix."""
        for name, diagnostics in self.by_file.items():
            for diagnostic in diagnostics:
                location = f"{name}: {diagnostic.dotted}" if diagnostic.path else name
                yield (
                    escape_unprintable(
                        f"{location}: {_fix_title(diagnostic)} ({diagnostic.code} {diagnostic.name})"
                    )
                    + "\n"
                )

    def outcome_line(self, left: int) -> str:
        """Return a line with the numbers of fixed and of remaining problems."""
        number = sum(map(len, self.by_file.values()))
        applied = f"{'Would fix' if self.diff else 'Fixed'} {count_noun(number, 'problem')}"
        applied = f"{applied} in {count_noun(self.changed, 'file')}" if number else "Nothing to fix"
        unsafe = f", {self.more} of them fixable with --unsafe-fixes" if self.more and not self.unsafe else ""
        hint = "; run again to fix more" if number and self.cut else ""
        return f"{applied}; {count_noun(left, 'problem')} left{unsafe}{hint}.\n" if left else f"{applied}.\n"

    def fixed_file_lines(self) -> Iterator[str]:
        """Yield a line for each fixed file with the number of fixes per rule."""
        for name, diagnostics in self.by_file.items():
            rules = Counter((diagnostic.code, diagnostic.name) for diagnostic in diagnostics)
            counts = ", ".join(
                f"{number} x {code} ({rule})" for (code, rule), number in sorted(rules.items())
            )
            yield escape_unprintable(f"- {name}: {counts}") + "\n"

    def _write_or_print_diff(self, name: str, document: Document, text: str) -> None:
        """Write a document's new text, or print the diff."""
        if self.diff:
            print_diff(unified_diff(document.name, document.file_text, text))
        else:
            rewrite_document(name, document, text)
