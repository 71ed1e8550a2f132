"""Fixes files, and reports what is left in them."""

from __future__ import annotations

import sys

from dsconfig.checking.check import with_proven_fixes
from dsconfig.checking.report import Report
from dsconfig.cli.judge import circumstances, judge
from dsconfig.cli.options import Options
from dsconfig.cli.output import difference, is_whole, put, replace
from dsconfig.diagnostic import Diagnostic
from dsconfig.document import Document
from dsconfig.fixing.fix import Fixed, fix_document


class Fixer:
    """Fixes file after file. `diff`: show what would change on stdout, and write nothing."""

    def __init__(self, options: Options, *, unsafe: bool, diff: bool) -> None:
        self.options, self.unsafe, self.diff = options, unsafe, diff
        self.applied: list[tuple[str, Diagnostic]] = []
        """The findings that were fixed, each with the name of its file."""
        self.changed = 0
        """How many files were."""
        self.more = 0
        """How many findings left have a fix, though not a safe one."""

    def fix(self, name: str, document: Document) -> Report:
        """Fix the document read from `name`; the report is that of its new text."""
        under = circumstances(document, self.options)  # those of the text as it was: a fix moves the evidence
        if is_whole(document):
            fixed = fix_document(document, lambda text: judge(text, self.options, under), unsafe=self.unsafe)
        else:  # nothing can be written, so the report is that of the text as it is
            fixed = Fixed(document.text, (), judge(document, self.options, under))
        if fixed.text != document.text:
            self._keep(name, document, fixed.text)
            self.changed += 1
            self.applied += [(document.name, found) for found in fixed.applied]
        elif name == "-" and not self.diff:
            put(document.text)
        left = with_proven_fixes(fixed.report)
        self.more += sum(found.fix is not None for found in left)
        return left

    def _keep(self, name: str, document: Document, text: str) -> None:
        """Do with the new text what was asked for."""
        if self.diff:
            sys.stdout.writelines(difference(document.name, document.text, text))
        else:
            replace(name, document, text)
