"""Checks of the named files one after the other, with their totals and a progress line."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dsconfig.check.build_job import foreign
from dsconfig.check.check import check, finished, prepared
from dsconfig.check.discover import stands_for_config
from dsconfig.check.effective_settings import Options
from dsconfig.check.report import Report
from dsconfig.cli.errors import UsageError, complain, complain_internal, note
from dsconfig.cli.inputs import read_stdin, reason
from dsconfig.core.diagnostic import SEVERITIES
from dsconfig.core.file_access import ask_for
from dsconfig.core.releases import Target
from dsconfig.document import Document
from dsconfig.job.detect_consumer import Reader, given
from dsconfig.launch.config_references import read_config as read_file
from dsconfig.render.terminal import Style

if TYPE_CHECKING:
    from dsconfig.cli.run_fix import Fixer


# Checks the files that are named, one after the other.


class Checker:
    """Makes a report of each file, and fixes it where there is a fixer; a bad path stops no other file."""

    def __init__(self, options: Options, fixer: Fixer | None = None) -> None:
        self.options, self.fixer = options, fixer
        self.tally = Tally(options)
        self.named_by: Mapping[str, Sequence[str]] = {}
        """The launch files among those to check, by the absolute paths of the configs that they name."""
        self.failed = False
        self.meant: set[str] = set()
        """Files that somebody named, and that were not picked by their content."""
        self.unread: list[Report] = []
        """For each path of which nothing is known, a report that says why."""

    def gather(self, paths: Sequence[str]) -> list[str]:
        """The files to check, in the order given, each once; a directory stands for the configs in it."""
        from dsconfig.check.discover import linked_configs

        found: dict[str, str] = {}
        # A hook names whatever is committed: those are no files that somebody means.
        ask_for(each for each in paths if not self.options.asked.force_exclude or os.path.isdir(each))
        if self.options.asked.verbose:
            note(f"settings: {self.options.settings.where}")
        for path in paths:
            names = self._below(path) if os.path.isdir(path) else self._named(path)
            for name in names:
                if name == "-" or os.path.lexists(name):
                    key = "-" if name == "-" else os.path.realpath(name)
                    if key not in found or os.path.islink(found[key]):
                        found[key] = name  # a link and what it leads to are one file
                else:
                    self._refuse(name, "no such file or directory")
        # They are checked with the launch files that name them.
        self.named_by = linked_configs(found.values())
        return [name for name in found.values() if os.path.realpath(name) not in self.named_by]

    def _below(self, folder: str) -> list[str]:
        from dsconfig.check.discover import configs

        asked = self.options.asked
        try:
            os.scandir(folder).close()
        except OSError as error:
            self._refuse(folder, reason(error))
            return []
        hidden: list[str] = []
        found = configs(folder, self.options.excludes, note, hidden.append)
        names = [name for name in found if not self.options.of(name).excludes(name)]
        for each in hidden if asked.verbose else ():
            note(f"{each} is hidden, and passed over")
        if not names and not asked.force_exclude:
            self._refuse(folder, "no DeepSpeed config found in this directory")
        return names

    def _named(self, name: str) -> list[str]:
        """The file that is named, where it is not left to us to pick those that are meant."""
        from dsconfig.check.discover import is_config, passed_over

        if not self.options.asked.force_exclude or name == "-" or not os.path.lexists(name):
            self.meant.add(name)
            return [name]
        if passed_over(name) or self.options.of(name).excludes(name) or not is_config(name):
            return []
        return [name]

    def reports(self, names: Sequence[str]) -> Iterator[Report]:
        """A report for each file, also for those that could not be read, and for what could not be found."""
        yield from self.unread
        for name in names:
            yield from self.attempt(name)

    def listed(self, names: Sequence[str]) -> Iterator[str]:
        """Each file that would be checked, and who reads it: those that launch files name behind these."""
        from dsconfig.check.check import job_of, judge

        launches = {launch for several in self.named_by.values() for launch in several}
        told: set[str] = set()
        for name in names:
            try:
                document = self._read(name)
                if why := foreign(document):
                    yield f"{name}: {why}"
                    continue
                yield f"{name}: {job_of(document, self.options).reader}"
                below = list(judge(document, self.options).children) if name in launches else []
            except OSError as error:
                yield f"{name}: {reason(error)}"
                continue
            for child in below:
                below += child.children
                if child.name not in told and os.path.isfile(child.name):
                    yield f"{child.name}: {child.reader}"
                told.add(child.name)

    def _read(self, name: str) -> Document:
        return read_stdin(self.options.stdin_name) if name == "-" else read_file(name)

    def attempt(self, name: str) -> list[Report]:
        """The report of a file and of those that it names, or the one that says why it was not read."""
        known = len(self.unread)
        try:
            document = self._read(name)
            if self.fixer is None:
                located, job = prepared(document, self.options)
                report = _with_proven_fixes(finished(check(located, job), self.options))
            else:
                report = self.fixer.fix(name, document)
        except OSError as error:
            if error.filename is None:  # it is the output that cannot be written
                raise
            self._refuse(name, reason(error))
        except UsageError as error:
            complain(str(error))
            self._fail(name, str(error))
        except Exception as error:  # the fault is ours; the other files are still worth checking
            complain_internal(error, name)
            self._fail(name, "internal error")
        else:
            if report.foreign and (name in self.meant or stands_for_config(report.document)):
                complain(f"{report.name}: {report.foreign}")
                self.failed = True
                report = report.replaced(notes=())
            return [*self.tally.counted(report), *self.unread[known:]]
        return self.unread[known:]

    def _refuse(self, name: str, why: str) -> None:
        complain(f"{name}: {why}")
        self._fail(name, why)

    def _fail(self, name: str, why: str) -> None:
        self.failed = True
        shown = self.options.stdin_name if name == "-" else name
        reader = self.options.reader or given("deepspeed")
        self.unread.append(Report(shown, self.options.target, reader, None, (), unread=why))


def _with_proven_fixes(report: Report) -> Report:
    """Try the fixes of a report; what does that is not imported for the many files that need none."""
    if not report.has_fixes:
        return report
    from dsconfig.fix.verify import with_proven_fixes

    return with_proven_fixes(report)


# What the reports of many files add up to.


class Tally:
    """Counts the reports that pass, and keeps their notes."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.targets: Counter[str] = Counter()
        self.readers: Counter[Reader] = Counter()
        self.failed = False
        """Whether a finding is as severe as the options for its file do not let pass."""
        self.suppressed = 0
        self.by_severity: Counter[str] = Counter()
        self.by_rule: Counter[tuple[str, str]] = Counter()
        self.notes: list[str] = [options.target.note] if options.target.note else []
        self.sizes: dict[str, str] = {}
        """By file, the world sizes at which its batch works, where it does not at all of them."""
        self._said: dict[str, set[tuple[str, str, str]]] = {}
        """By the path of a config that launch files name, what was said of it."""

    @property
    def paths(self) -> Iterable[str]:
        """The files that were judged because others name them."""
        return self._said

    def counted(self, report: Report, *, again: bool = False) -> Iterator[Report]:
        """The report and those of the files that it names, each counted; what was said before is left out."""
        self._count(report, again=again)
        yield report
        for child in report.children:
            path = os.path.realpath(child.name)
            again, said = path in self._said, self._said.setdefault(path, set())
            left = tuple(each for each in child if (each.code, each.dotted, each.message) not in said)
            said |= {(each.code, each.dotted, each.message) for each in left}
            if left or not again:
                yield from self.counted(child.replaced(diagnostics=left), again=again)

    def _count(self, report: Report, *, again: bool) -> None:
        """Count the findings of a report, and its file where that was not counted yet."""
        self.notes.extend(each for each in report.notes if each not in self.notes)
        if report.foreign:
            return
        options = self.options.of(report.name)
        if not again:
            self._count_file(report, options)
        self.failed |= any(_reaches(found.severity, options.fail_on) for found in report.diagnostics)
        for found in report.diagnostics:
            self.by_severity[found.severity] += 1
            self.by_rule[found.code, found.name] += 1

    def _count_file(self, report: Report, options: Options) -> None:
        """Count what stands once for each file, whoever reads it."""
        self.targets[self._against(report.target, options)] += 1
        self.readers[report.reader] += 1
        self.suppressed += len(report.suppressed)
        if report.world_sizes:
            self.sizes[report.name] = report.world_sizes

    @staticmethod
    def _against(target: Target, options: Options) -> str:
        from dsconfig.render.summary import against

        return against(target, options.settings.where if options.settings.path else None)

    def closing(self, style: Style) -> str:
        """The notes and the summary."""
        from dsconfig.render.summary import note, summary, working_sizes

        counts = {**self.by_severity, "suppressed": self.suppressed}
        last = summary(counts, self.targets, self.readers.most_common(), style)
        notes = dict.fromkeys((*self.notes, *working_sizes(self.sizes, every=self.options.asked.verbose)))
        return "".join(note(text, style) for text in notes) + last


def _reaches(severity: str, least: str) -> bool:
    """Whether a finding is of this severity or above; nothing reaches `never`."""
    worst_first: tuple[str, ...] = SEVERITIES
    return least != "never" and worst_first.index(severity) <= worst_first.index(least)


# A line that counts, where many files are read and someone watches.

MANY = 50


def tracked(names: Sequence[str]) -> Iterator[str]:
    """The same names. With many files, and stderr a terminal, a line counts while each is worked on."""
    if len(names) < MANY or not sys.stderr.isatty():
        yield from names
        return
    line, total = "", len(names)
    try:
        for number, name in enumerate(names, 1):
            percent = min(100 * number // total, 100)
            if f" {percent}%" not in line:
                line = f"Checking {total} files: {percent}%"
                # The cursor stays in front, so that what is said of a file meanwhile stands over the line.
                print(line, end="\r", file=sys.stderr, flush=True)
            yield name
    finally:
        print(" " * len(line), end="\r", file=sys.stderr, flush=True)
