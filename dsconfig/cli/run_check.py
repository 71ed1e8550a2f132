"""Checks the files that are named, one after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dsconfig.check.build_job import foreign
from dsconfig.check.check import check
from dsconfig.check.check_file import finished, prepared
from dsconfig.check.discover import stands_for_config
from dsconfig.check.effective_settings import Options
from dsconfig.check.report import Report
from dsconfig.cli.errors import UsageError, complain, complain_internal, note
from dsconfig.cli.files import read_stdin, reason
from dsconfig.cli.totals import Tally
from dsconfig.core.read_boundary import ask_for
from dsconfig.document import Document
from dsconfig.fix.verify import with_proven_fixes
from dsconfig.job.detect_consumer import given
from dsconfig.launch.passed_path import read_config as read_file

if TYPE_CHECKING:
    from dsconfig.cli.run_fix import Fixer


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
        from dsconfig.check.check_file import job_of, judge

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
                report = with_proven_fixes(finished(check(located, job), self.options))
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
