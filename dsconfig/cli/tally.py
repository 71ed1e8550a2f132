"""What the reports of many files add up to."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

from dsconfig.checking.report import Report
from dsconfig.cli.options import Options
from dsconfig.diagnostic import SEVERITIES
from dsconfig.render.style import Style


class Tally:
    """Counts the reports that pass, and keeps their notes."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.files = 0
        self.suppressed = 0
        self.by_severity: Counter[str] = Counter()
        self.by_rule: Counter[tuple[str, str]] = Counter()
        self.notes: list[str] = [options.target.note] if options.target.note else []
        self._linked: set[tuple[str, tuple[tuple[str, str, str], ...]]] = set()

    def counted(self, report: Report) -> Iterator[Report]:
        """The report and those of the files that it names, each counted; what was said before is left out."""
        self._count(report)
        yield report
        for child in report.children:
            if self._is_new(child):
                self._count(child)
                yield child

    def _is_new(self, child: Report) -> bool:
        """Whether nothing of the kind was said yet of a config that several launch files name."""
        said = (os.path.abspath(child.name), tuple((d.code, d.dotted, d.message) for d in child.diagnostics))
        new = said not in self._linked
        self._linked.add(said)
        return new

    def _count(self, report: Report) -> None:
        self.files += 1
        self.suppressed += len(report.suppressed)
        for found in report.diagnostics:
            self.by_severity[found.severity] += 1
            self.by_rule[found.code, found.name] += 1
        self.notes.extend(report.notes)
        if report.world_sizes:
            self.notes.append(f"{report.name} works at these world sizes: {report.world_sizes}")

    def reaches(self, severity: str) -> bool:
        """Whether anything of this severity or above was found; nothing reaches `never`."""
        if severity == "never":
            return False
        worst_first: tuple[str, ...] = SEVERITIES
        return any(self.by_severity[each] for each in worst_first[: worst_first.index(severity) + 1])

    def closing(self, style: Style) -> str:
        """The notes and the summary."""
        from dsconfig.render.summary import note, summary

        settings = self.options.settings
        source = settings.where if settings.path else None
        counts = {**self.by_severity, "suppressed": self.suppressed}
        last = summary(self.files, counts, self.options.target, style, source)
        return "".join(note(text, style) for text in self.notes) + last
