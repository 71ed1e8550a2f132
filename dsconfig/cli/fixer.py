"""Fixes files, and reports what is left in them."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator

from dsconfig.checking.check import with_proven_fixes
from dsconfig.checking.report import Report
from dsconfig.cli.judge import circumstances, judge
from dsconfig.cli.options import Options
from dsconfig.cli.output import difference, is_whole, put, replace
from dsconfig.diagnostic import Diagnostic
from dsconfig.document import Document
from dsconfig.document.rewrite import sweep
from dsconfig.fixing.fix import Fixed, fix_document
from dsconfig.render.summary import count
from dsconfig.render.text import printable


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
        self._swept: set[str] = set()

    def fix(self, name: str, document: Document) -> Report:
        """Fix the document read from `name`; the report is that of its new text."""
        folder = os.path.dirname(os.path.realpath(name))
        if folder not in self._swept and name != "-" and not self.diff:
            self._swept.add(folder)
            sweep(folder)
        under = circumstances(document, self.options)  # those of the text as it was: a fix moves the evidence
        if is_whole(document):
            fixed = fix_document(document, lambda text: judge(text, self.options, under), unsafe=self.unsafe)
        else:  # nothing can be written, so the report is that of the text as it is
            fixed = Fixed(document.text, (), judge(document, self.options, under))
        if fixed.text != document.text:
            self._keep(name, document, fixed.text)
            self.changed += 1
            self.by_file[document.name] = fixed.applied
        elif name == "-" and not self.diff:
            put(document.text)
        left = with_proven_fixes(fixed.report)
        self.more += sum(found.fix is not None for found in left)
        return left

    def outcome(self, left: int) -> str:
        """How much was done, and how much is left to do: one line."""
        number = sum(len(found) for found in self.by_file.values())
        done = f"{'Would fix' if self.diff else 'Fixed'} {count(number, 'finding')}"
        done = f"{done} in {count(self.changed, 'file')}" if number else "Nothing to fix"
        more = f", {self.more} of them fixable with --unsafe-fixes" if self.more and not self.unsafe else ""
        return f"{done}; {count(left, 'finding')} left{more}.\n" if left else f"{done}.\n"

    def files(self) -> Iterator[str]:
        """A line for each file that was fixed: how often which rule."""
        for name, found in self.by_file.items():
            rules = Counter((each.code, each.name) for each in found)
            what = ", ".join(f"{number} x {code} ({rule})" for (code, rule), number in sorted(rules.items()))
            yield printable(f"- {name}: {what}") + "\n"

    def _keep(self, name: str, document: Document, text: str) -> None:
        """Do with the new text what was asked for."""
        if self.diff:
            sys.stdout.writelines(difference(document.name, document.text, text))
        else:
            replace(name, document, text)
