"""Fixes files, and reports what is left in them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from dsconfig.check.check import check_with_options, job_of, rechecker
from dsconfig.check.discover import SKIPPED
from dsconfig.check.effective_settings import Options
from dsconfig.check.report import Report
from dsconfig.cli.errors import note
from dsconfig.cli.output import difference, is_whole, put, replace, show
from dsconfig.core.diagnostic import Diagnostic
from dsconfig.core.file_access import may_read
from dsconfig.document import Document
from dsconfig.document.atomic_write import sweep
from dsconfig.document.edit import reparse
from dsconfig.fix.fix import Checker, FixedText, combine_checks, fix_document
from dsconfig.fix.verify import LONG_TEXT, with_verified_fixes
from dsconfig.launch.config_references import read_config
from dsconfig.launch.python_config import documents_in
from dsconfig.render.summary import count
from dsconfig.render.terminal import printable


def is_ours(path: str, launch: str) -> bool:
    """Whether a file that a launch file names is of its repository or this folder, and not installed."""
    return SKIPPED.isdisjoint(path.split(os.sep)) and may_read(path, launch)


def _title(found: Diagnostic) -> str | None:
    return found.fix.title if found.fix else None


class Fixer:
    """Fixes file after file. `diff`: show what would change on stdout, and write nothing."""

    def __init__(self, options: Options, *, unsafe: bool, diff: bool) -> None:
        self.options, self.unsafe, self.diff = options, unsafe, diff
        self.by_file: dict[str, tuple[Diagnostic, ...]] = {}
        """The findings that were fixed, by the names of their files."""
        self.changed = 0
        """How many files were."""
        self.more = 0
        """How many findings left have a fix, though not a safe one."""
        self.notes: list[str] = []
        """What is to be said of the ways that led to the files."""
        self.named_by: Mapping[str, Sequence[str]] = {}
        """The launch files by the absolute paths of the configs that they name."""
        self.cut = False
        """Whether a file was too long to try everything."""
        self._texts: dict[str, str] = {}
        """The new texts of configs that launch files name, by their paths."""
        self._swept: set[str] = set()
        self._source: tuple[Document, str] | None = None
        """A Python source whose configs are fixed one after the other, and its new text."""

    def fix(self, name: str, document: Document) -> Report:
        """Fix the document read from `name`, and what it names; the report is that of the new texts."""
        job = job_of(document, self.options)  # that of the text as it was: a fix moves the evidence
        report = self._fixed(name, document, lambda text: check_with_options(text, self.options, job))
        children = tuple(self._fix_named(name, child) for child in report.children)
        left = with_verified_fixes(report.copy_with(children=children))
        self.notes += () if left.why_not_config else left.notes
        self.more += sum(found.fix is not None for each in (left, *left.children) for found in each)
        return left

    def current(self, name: str, document: Document, number: int) -> Document:
        """The config of a source with that number, in the text that earlier fixes of its configs left."""
        if self._source is None or document.format != "python":
            return document
        return documents_in(self._source[1].encode(), name)[number]

    def finish(self, name: str) -> None:
        """Write the new text of a Python source, once all of its configs are fixed."""
        if self._source is not None:
            document, text = self._source
            self._source = None
            self.changed += 1
            self._keep(name, document, text)

    def _fixed(self, name: str, document: Document, judged: Checker) -> Report:
        folder = os.path.dirname(os.path.realpath(name))
        if folder not in self._swept and name != "-" and not self.diff:
            self._swept.add(folder)
            sweep(folder)
        if is_whole(document):
            # Of a long text, what is read here holds no tree meanwhile; nor does a name hold what is fixed.
            long = len(document.text) > LONG_TEXT
            fixed = fix_document(
                reparse(document, document.text) if long else document, judged, unsafe=self.unsafe
            )
        else:  # nothing can be written, so the report is that of the text as it is
            fixed = FixedText(document.text, (), judged(document))
        self.cut |= fixed.is_partial
        if fixed.text != document.text:
            if document.format == "python":
                self._source = (self._source[0] if self._source else document, fixed.text)
            else:
                self._keep(name, document, fixed.text)
                self.changed += 1
            self.by_file[document.name] = (*self.by_file.get(document.name, ()), *fixed.applied)
        elif name == "-" and not self.diff:
            put(document.text)
        return fixed.report

    def _fix_named(self, launch: str, report: Report) -> Report:
        """Fix a file that a launch file names, as its job reads it; of several jobs, as all of them do."""
        document = report.document
        if document is None or launch == "-" or document.is_data or not os.path.isfile(document.name):
            return report
        path, own = os.path.realpath(document.name), rechecker(report, self.options)
        if path in self._texts:
            left = own(reparse(document, self._texts[path]))
        elif not is_ours(path, launch):
            note(f"{document.name} is outside of this repository, and is not changed")
            in_words = (each._replace(fix=None, help=each.help or _title(each)) for each in report)
            left = report.copy_with(diagnostics=tuple(in_words))
        else:
            others = (rechecker(other, self.options) for other in self._others(path, launch))
            done = self._fixed(document.name, document, combine_checks([own, *others]))
            left = own(done.document or document)
            self._texts[path] = (done.document or document).text
        return left.copy_with(children=tuple(self._fix_named(launch, each) for each in report.children))

    def _others(self, path: str, launch: str) -> Iterator[Report]:
        """What further launch files say of a config."""
        for name in self.named_by.get(path, ()):
            if name != launch:
                below = list(check_with_options(read_config(name), self.options).children)
                yield from (each for each in below if os.path.realpath(each.name) == path)

    def outcome(self, left: int) -> str:
        """How much was done, and how much is left to do: one line."""
        number = sum(len(found) for found in self.by_file.values())
        done = f"{'Would fix' if self.diff else 'Fixed'} {count(number, 'finding')}"
        done = f"{done} in {count(self.changed, 'file')}" if number else "Nothing to fix"
        more = f", {self.more} of them fixable with --unsafe-fixes" if self.more and not self.unsafe else ""
        again = "; run it again, there may be more to fix" if number and self.cut else ""
        return f"{done}; {count(left, 'finding')} left{more}{again}.\n" if left else f"{done}.\n"

    def files(self) -> Iterator[str]:
        """A line for each file that was fixed: how often which rule."""
        for name, found in self.by_file.items():
            rules = Counter((each.code, each.name) for each in found)
            what = ", ".join(f"{number} x {code} ({rule})" for (code, rule), number in sorted(rules.items()))
            yield printable(f"- {name}: {what}") + "\n"

    def _keep(self, name: str, document: Document, text: str) -> None:
        """Do with the new text what was asked for."""
        if self.diff:
            show(difference(document.name, document.text, text))
        else:
            replace(name, document, text)
