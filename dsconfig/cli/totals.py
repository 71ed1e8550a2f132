"""What the reports of many files add up to."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator

from dsconfig.check.effective_settings import Options
from dsconfig.check.report import Report
from dsconfig.core.diagnostic import SEVERITIES
from dsconfig.core.releases import Target
from dsconfig.job.detect_consumer import Reader
from dsconfig.render.terminal import Style


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
