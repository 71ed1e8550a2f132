"""Check the named files one by one, with totals and a progress line."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import monotonic

from dsconfig.check.build_job import why_not_config
from dsconfig.check.check import apply_options_to_report, check
from dsconfig.check.discover import has_config_name
from dsconfig.check.effective_settings import EffectiveOptions
from dsconfig.check.report import Report
from dsconfig.cli.command_inputs import os_error_reason, read_stdin
from dsconfig.cli.errors import UsageError, print_error, print_internal_error, print_note
from dsconfig.core.diagnostic import SEVERITIES, Diagnostic
from dsconfig.core.file_access import register_named_paths
from dsconfig.core.releases import ReleaseTarget
from dsconfig.document import Document
from dsconfig.job.detect_consumer import ConsumerEvidence, consumer_named_by_user
from dsconfig.launch.config_source import read_config_at_path as read_file
from dsconfig.launch.locate_configs_of_jobs import locate_jobs
from dsconfig.render.terminal_style import TerminalStyle, escape_unprintable, terminal_width

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.cli.fix_files import FileFixer
    from dsconfig.job.job import Job
    from dsconfig.launch.located_config import LocatedConfig


# Checking.


class FileChecker:
    """Checks files one by one, and fixes them if given a fixer; an unreadable file does not end the run."""

    def __init__(
        self, options: EffectiveOptions, fixer: FileFixer | None = None, *, quiet: bool = False
    ) -> None:
        self.options, self.fixer = options, fixer
        self.progress = ProgressLine(quiet=quiet)
        self.tally = DiagnosticTotals(options)
        self.named_by: Mapping[str, Sequence[str]] = {}
        """Launch files among the checked files, by the absolute paths of the configs that they name."""
        self.failed = False
        self.finds_jobs = False
        """Whether scripts that start jobs are also checked in a directory."""
        self.named: set[str] = set()
        """Files named on the command line, as opposed to those that config detection selected."""
        self._configs_of_program: list[Document] = []
        """All configs of the Python source that is being checked."""
        self._reports_of_program: list[Report] = []
        self.unread: list[Report] = []
        """Report for each path that could not be read, with the reason."""

    def gather_files(self, paths: Sequence[str]) -> list[str]:
        """Return the files to check in the given order, without duplicates; directories are searched for configs."""
        from dsconfig.check.discover import linked_configs_by_path

        files: dict[str, str] = {}
        # A pre-commit hook passes every committed file, so these paths do not count as requested by the user.
        real_paths = register_named_paths(
            each for each in paths if not self.options.overrides.force_exclude or os.path.isdir(each)
        )
        if self.options.overrides.verbose:
            print_note(f"settings: {self.options.settings.shown_path}")
        for path in paths:
            names = (
                self._find_configs_in_folder(path) if os.path.isdir(path) else self._select_named_file(path)
            )
            for name in names:
                if name == "-" or os.path.lexists(name):
                    key = "-" if name == "-" else real_paths.get(name) or os.path.realpath(name)
                    if key not in files or os.path.islink(files[key]):
                        files[key] = name  # a link and its target are one file
                else:
                    self._report_unreadable_file(name, "no such file or directory")
        # Configs that a launch file names are checked together with it.
        self.named_by = linked_configs_by_path(files.values())
        return [name for path, name in files.items() if path not in self.named_by]

    def _find_configs_in_folder(self, folder: str) -> list[str]:
        from dsconfig.check.discover import find_configs

        requested = self.options.overrides
        try:
            os.scandir(folder).close()
        except OSError as error:
            self._report_unreadable_file(folder, os_error_reason(error))
            return []
        hidden: list[str] = []
        paths = find_configs(folder, self._is_excluded, print_note, hidden.append, launches=self.finds_jobs)
        names = [name for name in paths if not self.options.options_of_file(name).is_path_excluded(name)]
        self.progress.clear_line()
        for each in hidden if requested.verbose else ():
            print_note(f"skipped the hidden directory {each}")
        if not names and not requested.force_exclude:
            self._report_unreadable_file(folder, "no DeepSpeed configs found in this directory")
        return names

    def _is_excluded(self, path: str) -> bool:
        """Return whether the settings exclude a file or folder found while searching for configs."""
        self.progress.show_line(f"Searching for configs: {escape_unprintable(path)}")
        return self.options.is_path_excluded(path)

    def _select_named_file(self, name: str) -> list[str]:
        """Return the named file, or nothing if `--force-exclude` applies because it is excluded or not a config."""
        from dsconfig.check.discover import is_config_file, is_skipped_by_discovery

        if not self.options.overrides.force_exclude or name == "-" or not os.path.lexists(name):
            self.named.add(name)
            return [name]
        if (
            is_skipped_by_discovery(name)
            or self.options.options_of_file(name).is_path_excluded(name)
            or not is_config_file(name)
        ):
            return []
        return [name]

    def report_on_files(self, names: Sequence[str]) -> Iterator[Report]:
        """Yield a report for each file, including files that cannot be read."""
        yield from self.unread
        for name in self.progress.track_names(names):
            for document in self.documents_in_file(name):
                yield from self.try_to_check(name, document)

    def list_files(self, names: Sequence[str]) -> Iterator[str]:
        """Yield a line with the consumer of each file to check; configs follow the launch files that name them."""
        from dsconfig.check.check import check_jobs, job_with_options

        launches = {launch for several in self.named_by.values() for launch in several}
        listed: set[str] = set()
        for name in names:
            try:
                document = self._read_document(name)
                if why := why_not_config(document):
                    yield f"{name}: {why}"
                    continue
                yield f"{name}: {job_with_options(document, self.options).reader}"
                children = (
                    [child for report in check_jobs(document, self.options) for child in report.children]
                    if name in launches
                    else []
                )
            except OSError as error:
                yield f"{name}: {os_error_reason(error)}"
                continue
            for child in children:
                children += child.children
                if child.name not in listed and os.path.isfile(child.name):
                    yield f"{child.name}: {child.reader}"
                listed.add(child.name)

    def _read_document(self, name: str) -> Document:
        return read_stdin(self.options.stdin_name) if name == "-" else read_file(name)

    def documents_in_file(self, name: str) -> Iterator[Document | None]:
        """Yield each config in a file, or None if the file cannot be read.

        A Python program may contain several configs. With a fixer, each config comes from the text after the
        fixes of the configs before it.
        """
        try:
            documents = [self._read_document(name)]
            if documents[0].is_in_program:
                from dsconfig.launch.python.config_dicts import sibling_documents

                documents = sibling_documents(documents[0])
        except OSError as error:
            self._report_unreadable_file(name, os_error_reason(error))
            yield None
            return
        except Exception as error:  # a bug in a reader must not stop the other files
            print_internal_error(error, name)
            self._record_failed_file(name, "internal error")
            yield None
            return
        self._configs_of_program, self._reports_of_program = documents, []
        for number, document in enumerate(documents):
            self.is_counted = number > 0
            yield document if self.fixer is None else self.fixer.latest_config(document, number)
        if self.fixer is not None:
            self.fixer.write_python_source(name)

    def try_to_check(self, name: str, document: Document | None) -> list[Report]:
        """Return the reports on a config and the files that it names, or one on why it cannot be read."""
        if document is None:
            return self.unread[-1:]
        unread_before = len(self.unread)
        try:
            if self.fixer is None:
                reports = []
                if document.is_in_program and len(self._configs_of_program) > 1:
                    reports.append(self._report_of_sibling(document))
                # Here, not in a method: its frame would be on the stack of every rule.
                for located in () if reports else locate_jobs(document):
                    job = self.options.options_of_file(document.name).job_with_options(located)
                    reports.append(self._complete_report(check(located, job), located, job))
                reports = _report_once(reports)
            else:
                reports = [self.fixer.fix_file(name, document)]
        except OSError as error:
            if error.filename is None:  # stdout cannot be written
                raise
            self._report_unreadable_file(name, os_error_reason(error))
        except UsageError as error:
            print_error(str(error))
            self._record_failed_file(name, str(error))
        except Exception as error:  # a bug in a rule must not stop the other files
            print_internal_error(error, name)
            self._record_failed_file(name, "internal error")
        else:
            result: list[Report] = []
            for report in reports:
                kept = report
                if report.why_not_config and (name in self.named or has_config_name(report.document)):
                    print_error(f"{report.name}: {report.why_not_config}")
                    self.failed = True
                    kept = report.copy_with(notes=())
                result += self.tally.count_reports(kept, again=self.is_counted)
                self.is_counted = True
            return [*result, *self.unread[unread_before:]]
        return self.unread[unread_before:]

    def _report_of_sibling(self, document: Document) -> Report:
        """Return the report on one of several configs in a Python source, whose fixes must be verified together."""
        if not self._reports_of_program:
            from dsconfig.check.check import check_with_options
            from dsconfig.fix.verify_fixes_in_python import verify_fixes_in_python

            reports = [check_with_options(each, self.options) for each in self._configs_of_program]
            self._reports_of_program = verify_fixes_in_python(reports)
        return self._reports_of_program[self._configs_of_program.index(document)]

    def _complete_report(self, report: Report, located: LocatedConfig, job: Job) -> Report:
        """Apply the options to a report, verify its fixes, and describe the job that loads the config."""
        report = _with_verified_fixes(apply_options_to_report(report, self.options))
        if located.job is None:
            return report
        from dsconfig.resolve.resolve import add_job_summary

        return add_job_summary(report, located, job)

    def _report_unreadable_file(self, name: str, why: str) -> None:
        print_error(f"{name}: {why}")
        self._record_failed_file(name, why)

    def _record_failed_file(self, name: str, why: str) -> None:
        self.failed = True
        shown = self.options.stdin_name if name == "-" else name
        reader = self.options.reader or consumer_named_by_user("deepspeed")
        self.unread.append(Report(shown, self.options.target, reader, None, (), read_error=why))


def _with_verified_fixes(report: Report) -> Report:
    """Return the report with verified fixes, importing `fix.verify_fixes` only if there are any."""
    if not report.has_fixes:
        return report
    from dsconfig.fix.verify_fixes import verify_fixes_of_reports

    return verify_fixes_of_reports(report)


# Totals.


class DiagnosticTotals:
    """Totals over all reports of a run, and the notes of these reports."""

    def __init__(self, options: EffectiveOptions) -> None:
        self.options = options
        self.targets: Counter[str] = Counter()
        self.readers: Counter[ConsumerEvidence] = Counter()
        self.failed = False
        """Whether a diagnostic reaches the threshold `--fail-on` of its file."""
        self.shows_jobs = False
        """Whether the output has a line for each job, which makes some of the notes unnecessary."""
        self.suppressed = 0
        self.by_severity: Counter[str] = Counter()
        self.by_rule: Counter[tuple[str, str]] = Counter()
        self.fixable: Counter[tuple[str, str]] = Counter()
        """Number of diagnostics with a safe fix, by rule."""
        self.notes: list[str] = [options.target.note] if options.target.note else []
        self.sizes: dict[str, str] = {}
        """World sizes at which the batch works, by file, for files that do not work at all of them."""
        self._reported: dict[str, set[tuple[str, str, str]]] = {}
        """Diagnostics already reported on configs that launch files name, by path."""

    @property
    def linked_file_paths(self) -> Iterable[str]:
        """Paths of the files that were checked only because other files name them."""
        return self._reported

    def count_reports(self, report: Report, *, again: bool = False) -> Iterator[Report]:
        """Count a report and those of linked files, leaving out diagnostics that were reported before."""
        if report.summary and report.summary.config and report.is_embedded:
            # A dict of the program, which other commands start as well.
            report = report.copy_with(diagnostics=self._new_diagnostics(report, report.summary.config))
        elif report.document is not None and report.document.is_in_program:
            report = report.copy_with(diagnostics=self._new_diagnostics(report, _path_of_config(report)))
        self._count_report(report, again=again)
        yield report
        for child in report.children:
            path = _path_of_config(child)
            again = path in self._reported
            if child.document is not None and child.document.is_in_program:
                yield from self.count_reports(child, again=again)
                continue
            new = self._new_diagnostics(child, path)
            if new or not again:
                yield from self.count_reports(child.copy_with(diagnostics=new), again=again)

    def _new_diagnostics(self, report: Report, config: str) -> tuple[Diagnostic, ...]:
        """Return the diagnostics of a config that have not been reported before.

        `config` is the path to the config, or the location of the call that receives it.
        """
        reported = self._reported.setdefault(config, set())
        new = tuple(each for each in report if (each.code, each.dotted, each.message) not in reported)
        reported |= {(each.code, each.dotted, each.message) for each in new}
        return new

    def _count_report(self, report: Report, *, again: bool) -> None:
        """Count a report's diagnostics, and its file unless it has been counted."""
        notes = report.shown_notes if self.shows_jobs else report.notes
        if report.why_not_config:
            self.notes.extend(each for each in notes if each not in self.notes)
            return
        if report.target.note:
            notes = (report.target.note, *notes)
        self.notes.extend(each for each in notes if each not in self.notes)
        options = self.options.options_of_file(report.name)
        if not again:
            self._count_file(report, options)
        self.failed |= any(
            _reaches_threshold(diagnostic.severity, options.fail_on) for diagnostic in report.diagnostics
        )
        for diagnostic in report.diagnostics:
            self.by_severity[diagnostic.severity] += 1
            self.by_rule[diagnostic.code, diagnostic.name] += 1
            self.fixable[diagnostic.code, diagnostic.name] += (
                diagnostic.fix is not None and diagnostic.fix.safe
            )

    def _count_file(self, report: Report, options: EffectiveOptions) -> None:
        """Count a file once, regardless of how many jobs load it."""
        self.targets[self._describe_target(report.target, options)] += 1
        self.readers[report.reader] += 1
        self.suppressed += len(report.suppressed)
        if report.world_sizes:
            self.sizes[report.name] = report.world_sizes

    @staticmethod
    def _describe_target(target: ReleaseTarget, options: EffectiveOptions) -> str:
        from dsconfig.render.summary import format_checked_releases

        return format_checked_releases(target, options.settings.shown_path if options.settings.path else None)

    def closing_lines(self, style: TerminalStyle) -> str:
        """Return the notes and the summary line."""
        from dsconfig.render.summary import format_working_world_sizes, note_line, summary_line

        counts = {**self.by_severity, "suppressed": self.suppressed}
        last = summary_line(counts, self.targets, self.readers.most_common(), style)
        notes = dict.fromkeys(
            (*self.notes, *format_working_world_sizes(self.sizes, every=self.options.overrides.verbose))
        )
        return "".join(note_line(text, style) for text in notes) + last

    def overview_by_rule(self, style: TerminalStyle, *, fixing: bool, listed: bool = False) -> str:
        """Return the number of diagnostics per rule and where to start, or "" for a short report."""
        from dsconfig.render.summary import overview_of_rules

        errors = self.by_severity["error"]
        fixable = 0 if fixing else sum(self.fixable.values())
        return overview_of_rules(self.by_rule, fixable, errors, style, listed=listed)


def _path_of_config(report: Report) -> str:
    """Return the path of a config, followed by the line if the config is in a program."""
    path, document = os.path.realpath(report.name), report.document
    if document is None or not document.is_in_program or document.root is None:
        return path
    return f"{path}:{document.position(document.root.span.start).line}"


def _reaches_threshold(severity: str, threshold: str) -> bool:
    """Return whether a severity is at or above the threshold; none is for `never`."""
    worst_first: tuple[str, ...] = SEVERITIES
    return threshold != "never" and worst_first.index(severity) <= worst_first.index(threshold)


# Progress.

_PATIENCE = 1.0
"""Seconds before a progress line appears, which a shorter run does not need."""
_INTERVAL = 0.1
"""Seconds between two updates of the progress line."""


class ProgressLine:
    """A progress line on stderr, shown if the run takes a while on a terminal."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._shows = not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._next = monotonic() + _PATIENCE
        self._line = ""

    def show_line(self, line: str) -> None:
        """Replace the progress line, leaving the cursor at its start so that the next message overwrites it."""
        if self._shows and (now := monotonic()) >= self._next:
            self._next = now + _INTERVAL
            width = terminal_width(sys.stderr) - 1
            print(
                f"{line[:width]}{' ' * (min(len(self._line), width) - len(line))}",
                end="\r",
                file=sys.stderr,
                flush=True,
            )
            self._line = line

    def clear_line(self) -> None:
        """Erase the progress line."""
        if self._line:
            print(
                " " * min(len(self._line), terminal_width(sys.stderr) - 1),
                end="\r",
                file=sys.stderr,
                flush=True,
            )
            self._line = ""

    def track_names(self, names: Sequence[str]) -> Iterator[str]:
        """Yield the names while showing on the progress line how many files were checked."""
        from dsconfig.render.summary import count_noun

        total = count_noun(len(names), "file")
        try:
            for number, name in enumerate(names):
                self.show_line(f"Checking {total}: {100 * number // len(names)}%")
                yield name
        finally:
            self.clear_line()


def _report_once(reports: list[Report]) -> list[Report]:
    """Drop diagnostics that an earlier job of the same script has already: each job lists those of all commands."""
    reported: set[tuple[object, ...]] = set()
    result = []
    for report in reports:
        kept = tuple(
            each
            for each in report.diagnostics
            if each.path or (report.name, each.code, each.message, each.location) not in reported
        )
        reported.update((report.name, each.code, each.message, each.location) for each in kept)
        result.append(report if len(kept) == len(report.diagnostics) else report.copy_with(diagnostics=kept))
    return result
