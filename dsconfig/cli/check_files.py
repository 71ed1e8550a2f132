"""Check the named files one after another, with totals and a progress line."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import monotonic

from dsconfig.check.build_job import why_not_config
from dsconfig.check.check import apply_options, check
from dsconfig.check.discover import stands_for_config
from dsconfig.check.effective_settings import Options
from dsconfig.check.report import Report
from dsconfig.cli.command_inputs import read_stdin, reason
from dsconfig.cli.errors import UsageError, print_error, print_internal_error, print_note
from dsconfig.core.diagnostic import SEVERITIES
from dsconfig.core.file_access import register_named_paths
from dsconfig.core.releases import Target
from dsconfig.document import Document
from dsconfig.job.detect_consumer import Reader, named_consumer
from dsconfig.launch.locate_jobs import locate_jobs
from dsconfig.launch.read_passed_config import read_config as read_file
from dsconfig.render.terminal_style import TerminalStyle, columns, printable

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.cli.fix_files import Fixer
    from dsconfig.job.job import Job
    from dsconfig.launch.located_config import LocatedConfig


# Checking.


class Checker:
    """Check each file, and fix it if there is a fixer; an unreadable file does not stop the others."""

    def __init__(self, options: Options, fixer: Fixer | None = None, *, quiet: bool = False) -> None:
        self.options, self.fixer = options, fixer
        self.progress = Progress(quiet=quiet)
        self.tally = Tally(options)
        self.named_by: Mapping[str, Sequence[str]] = {}
        """Launch files among the checked files, by the absolute paths of the configs that they name."""
        self.failed = False
        self.finds_jobs = False
        """Whether a directory also stands for the scripts in it that start jobs."""
        self.named: set[str] = set()
        """Files named on the command line, as opposed to those that config detection selected."""
        self.unread: list[Report] = []
        """Report for each path that could not be read, with the reason."""

    def gather(self, paths: Sequence[str]) -> list[str]:
        """Files to check, each once, in the given order; a directory stands for the configs in it."""
        from dsconfig.check.discover import linked_configs

        files: dict[str, str] = {}
        # A pre-commit hook passes every committed file, so these paths do not count as requested by the user.
        register_named_paths(
            each for each in paths if not self.options.overrides.force_exclude or os.path.isdir(each)
        )
        if self.options.overrides.verbose:
            print_note(f"settings: {self.options.settings.where}")
        for path in paths:
            names = self._configs_in(path) if os.path.isdir(path) else self._select(path)
            for name in names:
                if name == "-" or os.path.lexists(name):
                    key = "-" if name == "-" else os.path.realpath(name)
                    if key not in files or os.path.islink(files[key]):
                        files[key] = name  # a link and its target are one file
                else:
                    self._report_unreadable(name, "no such file or directory")
        # Configs that a launch file names are checked together with it.
        self.named_by = linked_configs(files.values())
        return [name for name in files.values() if os.path.realpath(name) not in self.named_by]

    def _configs_in(self, folder: str) -> list[str]:
        from dsconfig.check.discover import find_configs

        requested = self.options.overrides
        try:
            os.scandir(folder).close()
        except OSError as error:
            self._report_unreadable(folder, reason(error))
            return []
        hidden: list[str] = []
        paths = find_configs(folder, self._excludes, print_note, hidden.append, launches=self.finds_jobs)
        names = [name for name in paths if not self.options.of(name).excludes(name)]
        self.progress.clear()
        for each in hidden if requested.verbose else ():
            print_note(f"skipped the hidden directory {each}")
        if not names and not requested.force_exclude:
            self._report_unreadable(folder, "no DeepSpeed configs found in this directory")
        return names

    def _excludes(self, path: str) -> bool:
        """Whether the settings exclude a file or folder; called for each that the search for configs meets."""
        self.progress.show(f"Searching for configs: {printable(path)}")
        return self.options.excludes(path)

    def _select(self, name: str) -> list[str]:
        """The named file, unless `--force-exclude` is given and the file is excluded or not a config."""
        from dsconfig.check.discover import is_config, is_skipped

        if not self.options.overrides.force_exclude or name == "-" or not os.path.lexists(name):
            self.named.add(name)
            return [name]
        if is_skipped(name) or self.options.of(name).excludes(name) or not is_config(name):
            return []
        return [name]

    def reports(self, names: Sequence[str]) -> Iterator[Report]:
        """Reports on the files, including those that could not be read."""
        yield from self.unread
        for name in self.progress.over(names):
            for document in self.documents(name):
                yield from self.attempt(name, document)

    def listed(self, names: Sequence[str]) -> Iterator[str]:
        """A line for each file to check with its consumer; configs follow the launch files that name them."""
        from dsconfig.check.check import check_jobs, job_of

        launches = {launch for several in self.named_by.values() for launch in several}
        listed: set[str] = set()
        for name in names:
            try:
                document = self._read(name)
                if why := why_not_config(document):
                    yield f"{name}: {why}"
                    continue
                yield f"{name}: {job_of(document, self.options).reader}"
                children = (
                    [child for report in check_jobs(document, self.options) for child in report.children]
                    if name in launches
                    else []
                )
            except OSError as error:
                yield f"{name}: {reason(error)}"
                continue
            for child in children:
                children += child.children
                if child.name not in listed and os.path.isfile(child.name):
                    yield f"{child.name}: {child.reader}"
                listed.add(child.name)

    def _read(self, name: str) -> Document:
        return read_stdin(self.options.stdin_name) if name == "-" else read_file(name)

    def documents(self, name: str) -> Iterator[Document | None]:
        """Yield the configs in a file, several for a Python source; None if the file cannot be read.

        With a fixer, each config comes from the text after the fixes of the configs before it.
        """
        try:
            documents = [self._read(name)]
            if documents[0].is_in_program:
                from dsconfig.launch.python.config_dicts import siblings_of

                documents = siblings_of(documents[0])
        except OSError as error:
            self._report_unreadable(name, reason(error))
            yield None
            return
        except Exception as error:  # a bug in a reader must not stop the other files
            print_internal_error(error, name)
            self._fail(name, "internal error")
            yield None
            return
        for number, document in enumerate(documents):
            self.is_counted = number > 0
            yield document if self.fixer is None else self.fixer.latest(document, number)
        if self.fixer is not None:
            self.fixer.finish(name)

    def attempt(self, name: str, document: Document | None) -> list[Report]:
        """Return the reports on a config and the files that it names, or the report of why it cannot be read."""
        if document is None:
            return self.unread[-1:]
        unread_before = len(self.unread)
        try:
            if self.fixer is None:
                reports = []
                # Here, not in a method: its frame would be on the stack of every rule.
                for located in locate_jobs(document):
                    job = self.options.of(document.name).job(located)
                    reports.append(self._completed(check(located, job), located, job))
            else:
                reports = [self.fixer.fix(name, document)]
        except OSError as error:
            if error.filename is None:  # stdout cannot be written
                raise
            self._report_unreadable(name, reason(error))
        except UsageError as error:
            print_error(str(error))
            self._fail(name, str(error))
        except Exception as error:  # a bug in a rule must not stop the other files
            print_internal_error(error, name)
            self._fail(name, "internal error")
        else:
            result: list[Report] = []
            for report in reports:
                kept = report
                if report.why_not_config and (name in self.named or stands_for_config(report.document)):
                    print_error(f"{report.name}: {report.why_not_config}")
                    self.failed = True
                    kept = report.copy_with(notes=())
                result += self.tally.counted(kept, again=self.is_counted)
                self.is_counted = True
            return [*result, *self.unread[unread_before:]]
        return self.unread[unread_before:]

    def _completed(self, report: Report, located: LocatedConfig, job: Job) -> Report:
        """The report with the options applied, fixes verified, and a line on the job that was followed."""
        report = _with_verified_fixes(apply_options(report, self.options))
        if located.job is None:
            return report
        from dsconfig.resolve.job_summary import with_summary

        return with_summary(report, located, job)

    def _report_unreadable(self, name: str, why: str) -> None:
        print_error(f"{name}: {why}")
        self._fail(name, why)

    def _fail(self, name: str, why: str) -> None:
        self.failed = True
        shown = self.options.stdin_name if name == "-" else name
        reader = self.options.reader or named_consumer("deepspeed")
        self.unread.append(Report(shown, self.options.target, reader, None, (), read_error=why))


def _with_verified_fixes(report: Report) -> Report:
    """Verify the fixes of a report; `fix.verify` is imported only for reports that have fixes."""
    if not report.has_fixes:
        return report
    from dsconfig.fix.verify_fixes import with_verified_fixes

    return with_verified_fixes(report)


# Totals.


class Tally:
    """Totals over the reports of a run, and their notes."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.targets: Counter[str] = Counter()
        self.readers: Counter[Reader] = Counter()
        self.failed = False
        """Whether a diagnostic reaches `--fail-on` for its file."""
        self.shows_jobs = False
        """Whether the output has a line for each job, which stands for some of the notes."""
        self.suppressed = 0
        self.by_severity: Counter[str] = Counter()
        self.by_rule: Counter[tuple[str, str]] = Counter()
        self.fixable: Counter[tuple[str, str]] = Counter()
        """Diagnostics with a safe fix, by rule."""
        self.notes: list[str] = [options.target.note] if options.target.note else []
        self.sizes: dict[str, str] = {}
        """World sizes at which the batch works, by file, for files that do not work at all of them."""
        self._reported: dict[str, set[tuple[str, str, str]]] = {}
        """Diagnostics already reported on configs that launch files name, by path."""

    @property
    def paths(self) -> Iterable[str]:
        """Files that were checked because others name them."""
        return self._reported

    def counted(self, report: Report, *, again: bool = False) -> Iterator[Report]:
        """The report and those on the files that it names, counted; diagnostics reported before are left out."""
        self._count(report, again=again)
        yield report
        for child in report.children:
            path = os.path.realpath(child.name)
            again, reported = path in self._reported, self._reported.setdefault(path, set())
            new = tuple(each for each in child if (each.code, each.dotted, each.message) not in reported)
            reported |= {(each.code, each.dotted, each.message) for each in new}
            if new or not again:
                yield from self.counted(child.copy_with(diagnostics=new), again=again)

    def _count(self, report: Report, *, again: bool) -> None:
        """Count the diagnostics of a report, and its file unless it was counted before."""
        notes = report.shown_notes if self.shows_jobs else report.notes
        if report.why_not_config:
            self.notes.extend(each for each in notes if each not in self.notes)
            return
        if report.target.note:
            notes = (report.target.note, *notes)
        self.notes.extend(each for each in notes if each not in self.notes)
        options = self.options.of(report.name)
        if not again:
            self._count_file(report, options)
        self.failed |= any(
            _reaches(diagnostic.severity, options.fail_on) for diagnostic in report.diagnostics
        )
        for diagnostic in report.diagnostics:
            self.by_severity[diagnostic.severity] += 1
            self.by_rule[diagnostic.code, diagnostic.name] += 1
            self.fixable[diagnostic.code, diagnostic.name] += (
                diagnostic.fix is not None and diagnostic.fix.safe
            )

    def _count_file(self, report: Report, options: Options) -> None:
        """Count what is independent of the job that loads the file."""
        self.targets[self._against(report.target, options)] += 1
        self.readers[report.reader] += 1
        self.suppressed += len(report.suppressed)
        if report.world_sizes:
            self.sizes[report.name] = report.world_sizes

    @staticmethod
    def _against(target: Target, options: Options) -> str:
        from dsconfig.render.summary import against

        return against(target, options.settings.where if options.settings.path else None)

    def closing(self, style: TerminalStyle) -> str:
        """The notes and the summary line."""
        from dsconfig.render.summary import note, summary, working_sizes

        counts = {**self.by_severity, "suppressed": self.suppressed}
        last = summary(counts, self.targets, self.readers.most_common(), style)
        notes = dict.fromkeys((*self.notes, *working_sizes(self.sizes, every=self.options.overrides.verbose)))
        return "".join(note(text, style) for text in notes) + last

    def overview(self, style: TerminalStyle, *, fixing: bool, listed: bool = False) -> str:
        """The number of diagnostics by rule and where to start, for a long report; empty for a short one."""
        from dsconfig.render.summary import overview

        errors = self.by_severity["error"]
        fixable = 0 if fixing else sum(self.fixable.values())
        return overview(self.by_rule, fixable, errors, style, listed=listed)


def _reaches(severity: str, threshold: str) -> bool:
    """Whether a severity is at or above the threshold; nothing reaches `never`."""
    worst_first: tuple[str, ...] = SEVERITIES
    return threshold != "never" and worst_first.index(severity) <= worst_first.index(threshold)


# Progress.

_PATIENCE = 1.0
"""Seconds before a progress line appears: a run that takes less needs none."""
_INTERVAL = 0.1
"""Seconds between two updates of the line."""


class Progress:
    """A line on stderr that says how far a run is, if that is a terminal and the run takes a while."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._shows = not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._next = monotonic() + _PATIENCE
        self._line = ""

    def show(self, line: str) -> None:
        """Replace the line. The cursor stays at its start, so that a message about a file overwrites it."""
        if self._shows and (now := monotonic()) >= self._next:
            self._next = now + _INTERVAL
            width = columns(sys.stderr) - 1
            print(
                f"{line[:width]}{' ' * (min(len(self._line), width) - len(line))}",
                end="\r",
                file=sys.stderr,
                flush=True,
            )
            self._line = line

    def clear(self) -> None:
        """Remove the line."""
        if self._line:
            print(" " * min(len(self._line), columns(sys.stderr) - 1), end="\r", file=sys.stderr, flush=True)
            self._line = ""

    def over(self, names: Sequence[str]) -> Iterator[str]:
        """Yield the names, and show how many of them are checked."""
        from dsconfig.render.summary import count

        total = count(len(names), "file")
        try:
            for number, name in enumerate(names):
                self.show(f"Checking {total}: {100 * number // len(names)}%")
                yield name
        finally:
            self.clear()
