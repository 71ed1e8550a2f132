"""A run that mends the files before it reports what is left in them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from dsconfig.checking.report import Report
from dsconfig.cli.arguments import Options
from dsconfig.cli.run import Run
from dsconfig.diagnostic import Diagnostic
from dsconfig.document import Document, read_file
from dsconfig.document.rewrite import rewrite
from dsconfig.fixing.fix import mend


class MendingRun(Run):
    """Mends file after file. `diff`: show what would change on stdout, and write nothing."""

    def __init__(self, options: Options, *, unsafe: bool, diff: bool) -> None:
        super().__init__(options)
        self.unsafe, self.diff = unsafe, diff
        self.applied: list[tuple[str, Diagnostic]] = []
        self.changed = 0
        self.more = 0
        """Findings left that have a fix, though not a safe one."""

    def _check(self, name: str) -> Report:
        document = self.stdin() if name == "-" else read_file(name)
        mended = mend(document, self.judge, unsafe=self.unsafe)
        if mended.text != document.text and is_whole(document):
            self.keep(name, document, mended.text)
            self.changed += 1
            self.applied += [(document.name, found) for found in mended.applied]
        elif name == "-" and not self.diff:
            put(document.text)
        self.more += sum(found.fix is not None for found in mended.report)
        return mended.report

    def keep(self, name: str, document: Document, text: str) -> None:
        """Do with the new text what was asked for."""
        if self.diff:
            sys.stdout.writelines(difference(document.name, document.text, text))
        elif name == "-":
            put(text)
        else:
            rewrite(name, document.text.encode(), text.encode())


def put(text: str) -> None:
    """Write a config's text as it would stand in a file, whatever the encoding of stdout."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode(errors="replace"))


def is_whole(document: Document) -> bool:
    """Whether the text is all of the file: bytes that are no UTF-8 would be lost in writing it."""
    return not any(problem.kind in ("invalid-utf8", "not-text") for problem in document.problems)


def difference(name: str, old: str, new: str) -> Iterator[str]:
    """The unified diff of two texts, as patch tools read it."""
    from difflib import unified_diff

    lines = unified_diff(_lines(old), _lines(new), f"a/{name}", f"b/{name}")
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + [last] * bool(last)
