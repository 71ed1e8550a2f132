"""One run: the files named, a report for each, and what they add up to."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dsconfig.checking.check import check_document
from dsconfig.checking.report import Report
from dsconfig.cli.arguments import Options
from dsconfig.cli.errors import complain, complain_internal
from dsconfig.cli.single import reason
from dsconfig.diagnostic import SEVERITIES, Diagnostic
from dsconfig.document import MAX_SIZE, Document, read_bytes, read_file
from dsconfig.render.style import Style


class Run:
    """Checks files one after the other. A bad path is said at once and does not stop the others."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.failed = False
        self.files = 0
        self.suppressed = 0
        self.children: set[tuple[str, tuple[tuple[str, str, str], ...]]] = set()
        self.by_severity: Counter[str] = Counter()
        self.by_rule: Counter[tuple[str, str]] = Counter()
        self.notes: list[str] = [options.target.note] if options.target.note else []

    def gather(self, paths: Sequence[str]) -> list[str]:
        """The files to check, in the order given, each once; a directory stands for the configs in it."""
        found: dict[str, str] = {}
        for path in paths:
            names = self._below(path) if os.path.isdir(path) else [path]
            for name in names:
                if name == "-" or os.path.exists(name):
                    found.setdefault("-" if name == "-" else os.path.abspath(name), name)
                else:
                    self._refuse(f"{name}: no such file or directory")
        named = _named([name for name in found.values() if name.lower().endswith((".yaml", ".yml"))])
        return [name for path, name in found.items() if path not in named]

    def _below(self, folder: str) -> list[str]:
        from dsconfig.checking.discover import configs

        settings = self.options.settings
        try:
            os.scandir(folder).close()
        except OSError as error:
            self._refuse(f"{folder}: {reason(error)}")
            return []
        names = list(configs(folder, settings.root, settings.exclude))
        if not names:
            self._refuse(f"{folder}: no DeepSpeed config found in this directory")
        return names

    def reports(self, names: Sequence[str]) -> Iterator[Report]:
        """A report for each file that can be read."""
        for name in names:
            if (report := self._attempt(name)) is not None:
                self._count(report)
                yield report
                for child in report.children:
                    if self._is_new(child):
                        self._count(child)
                        yield child

    def _is_new(self, child: Report) -> bool:
        """Whether nothing of the kind was said yet of a config that several launch files name."""
        said = (os.path.abspath(child.name), tuple((d.code, d.dotted, d.message) for d in child.diagnostics))
        new = said not in self.children
        self.children.add(said)
        return new

    def _attempt(self, name: str) -> Report | None:
        try:
            return self._check(name)
        except OSError as error:
            self._refuse(f"{name}: {reason(error)}")
        except Exception as error:  # the fault is ours; the other files are still worth checking
            self.failed = True
            complain_internal(error, name)
        return None

    def _check(self, name: str) -> Report:
        return self.judge(self.stdin() if name == "-" else read_file(name))

    def judge(self, document: Document) -> Report:
        """The report of one document, without what is switched off."""
        options = self.options
        report = check_document(
            document, options.target, world_size=options.world_size, consumer=options.consumer
        )
        if report.children:
            report = replace(report, children=tuple(self._select(child) for child in report.children))
        return self._select(report)

    def stdin(self) -> Document:
        """The document on stdin."""
        name = self.options.stdin_name
        yaml = name.lower().endswith((".yaml", ".yml"))
        return read_bytes(sys.stdin.buffer.read(MAX_SIZE + 1), name, "yaml" if yaml else "json")

    def _select(self, report: Report) -> Report:
        """The report with what the selection and the per-file ignores silence moved to `suppressed`."""
        off = self.options.off | self._ignored(report.name)
        silenced = tuple(found for found in report.diagnostics if found.code in off)
        if not silenced:
            return report
        kept = tuple(found for found in report.diagnostics if found.code not in off)
        return replace(report, diagnostics=kept, suppressed=(*report.suppressed, *silenced))

    def _ignored(self, name: str) -> frozenset[str]:
        if not self.options.per_file_ignores:
            return frozenset()
        from dsconfig.checking.discover import excluded

        root = self.options.settings.root
        hits = (codes for pattern, codes in self.options.per_file_ignores if excluded(name, root, (pattern,)))
        return frozenset().union(*hits)

    def _count(self, report: Report) -> None:
        self.files += 1
        self.suppressed += len(report.suppressed)
        for found in report.diagnostics:
            self.by_severity[found.severity] += 1
            self.by_rule[_rule(found)] += 1
        self.notes.extend(report.notes)
        if report.world_sizes:
            self.notes.append(f"{report.name} works at these world sizes: {report.world_sizes}")

    def _refuse(self, message: str) -> None:
        self.failed = True
        complain(message)

    def reaches(self, severity: str) -> bool:
        """Whether anything as grave as this was found; nothing is as grave as `never`."""
        if severity == "never":
            return False
        gravest_first: tuple[str, ...] = SEVERITIES
        return any(self.by_severity[each] for each in gravest_first[: gravest_first.index(severity) + 1])

    def closing(self, style: Style) -> str:
        """The notes and the summary."""
        from dsconfig.render.summary import note, summary

        settings = self.options.settings
        source = settings.where if settings.path else None
        counts = {**self.by_severity, "suppressed": self.suppressed}
        last = summary(self.files, counts, self.options.target, style, source)
        return "".join(note(text, style) for text in self.notes) + last


def _named(names: Sequence[str]) -> set[str]:
    """The configs that launch files among these name: they are checked with them."""
    found = set()
    for name in names:
        from dsconfig.checking.discover import content, is_launch
        from dsconfig.consumers.launch_file import linked

        if is_launch(content(name)) and (link := linked(read_file(name))) and link[1]:
            found.add(os.path.abspath(link[1]))
    return found


def _rule(found: Diagnostic) -> tuple[str, str]:
    return found.code, found.name
