"""Whether a fix may be made without being asked for ("safe"), or only with `--unsafe-fixes`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from dsconfig.check.report import Report
from dsconfig.core.diagnostic import Diagnostic
from dsconfig.document import Document
from dsconfig.document.edit import edits
from dsconfig.document.text_edit import Edit, EditError


def is_safe(found: Diagnostic, report: Report) -> bool:
    """Whether the finding's fix is safe in every release that is checked, and loses no comment."""
    if found.fix is None or not found.fix.safe or set(report.target.releases) - set(found.releases):
        return False
    if report.document is None or not report.document.comments:
        return True
    try:
        return not _loses_comment(report.document, edits(report.document, found.fix))
    except EditError:
        return True


def _loses_comment(document: Document, made: Iterable[Edit]) -> bool:
    return any(
        text.strip() not in edit.text
        for edit in made
        for text in _comments_in(document, edit.start, edit.end)
    )


def _comments_in(document: Document, start: int, end: int) -> Iterator[str]:
    """The comments of which a part lies in the stretch."""
    comments = document.comments
    for at in range(bisect_right(comments, start, key=lambda comment: comment[0].end), len(comments)):
        span, text = comments[at]
        if span.start >= end:
            return
        yield text
